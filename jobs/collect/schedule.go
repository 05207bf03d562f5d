package collect

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/heap"
	"github.com/abide-proxy/abide/jobs/output"
)

// slowest bounds the rounds between two requests to a target that keeps failing.
const slowest = 32

// schedule decides which target is asked when. It is pure: now is an argument.
//
// Round k begins at k times the interval since 1970, on every machine. Each target has a fixed
// place in the rounds. The places are spread over the interval: targets of a higher priority
// come first, and those of one host one after another, so that connections are used again.
type schedule struct {
	every  time.Duration
	due    heap.Heap[*target, byDue]
	missed int64 // rounds of targets
	lag    time.Duration
	round  int64 // that lag is of
}

// target holds the items that one request asks for.
type target struct {
	key      string
	items    []string
	unit     output.Unit // of the first item
	host     string
	priority int
	place    time.Duration // in each round

	at       time.Time // when it is due
	failures int       // in a row
	left     string    // the items of the batch that its last answer left out
	index    int32     // in the heap; 0: it is under way
}

// newSchedule places the targets.
func newSchedule(every time.Duration, targets []*target, now time.Time) *schedule {
	s := &schedule{every: every}
	slices.SortStableFunc(targets, func(a, b *target) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.host, b.host))
	})
	for i, t := range targets {
		share := float64(every) / float64(len(targets))
		t.place = time.Duration(share * (float64(i) + jitter(t.key)))
		t.at = s.slot(t, now)
		s.due.Push(t)
	}
	return s
}

// jitter is a number from 0 to 1 that stays the same for a key.
func jitter(key string) float64 {
	h := fnv.New32a()
	h.Write([]byte(key))
	return float64(h.Sum32()) / (1 << 32)
}

// number is the number of the round that a time is in.
func (s *schedule) number(at time.Time) int64 { return at.UnixNano() / int64(s.every) }

// slot is the first time of a target from now on.
func (s *schedule) slot(t *target, now time.Time) time.Time {
	at := time.Unix(0, s.number(now)*int64(s.every)).Add(t.place)
	if at.Before(now) {
		at = at.Add(s.every)
	}
	return at
}

// begin is the target that is due first, nil if none is. It is under way until end.
func (s *schedule) begin(now time.Time) *target {
	if s.due.Empty() || s.due.Top().at.After(now) {
		return nil
	}
	t := s.due.Pop()
	s.skip(t, now.Sub(t.at)/s.every) // nothing could be asked for so long
	if n := s.number(t.at); n != s.round {
		s.round, s.lag = n, 0
	}
	s.lag = max(s.lag, now.Sub(t.at))
	return t
}

// end puts a target back. ok says that it has answered. A target that is still under way at its
// next time has missed that round.
func (s *schedule) end(t *target, now time.Time, ok bool) {
	t.failures++
	if ok {
		t.failures = 0
	}
	s.put(t, min(time.Duration(1)<<min(max(t.failures-1, 0), 10), slowest), now)
}

// put puts a target back, for the round after so many.
func (s *schedule) put(t *target, rounds time.Duration, now time.Time) {
	t.at = t.at.Add(s.every * rounds)
	if late := now.Sub(t.at); late > 0 {
		s.skip(t, late/s.every+1)
	}
	s.due.Push(t)
}

// skip leaves so many rounds of a target out.
func (s *schedule) skip(t *target, rounds time.Duration) {
	s.missed += int64(rounds)
	t.at = t.at.Add(rounds * s.every)
}

// miss puts a target back that was not asked, because of a limit.
func (s *schedule) miss(t *target, now time.Time) {
	s.missed++
	s.put(t, 1, now)
}

// byDue orders targets by when they are due.
type byDue struct{}

func (byDue) Before(a, b *target) bool { return a.at.Before(b.at) }
func (byDue) Place(t *target) *int32   { return &t.index }
