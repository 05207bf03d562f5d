package ledger

import (
	"container/heap"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// search is a crawl of a silent server by some clients, as fast as the meters let them.
type search struct {
	origin  origin
	clients int
	latency float64
	count   int                      // requests
	named   func(at float64) float64 // the end of the window that refusals name; nil: none
	trace   func(string, ...any)
}

// searched is what came of it.
type searched struct {
	took      float64
	refused   int
	refusedBy []float64
	served    int
}

// do runs the crawl: with a slow start until the first refusal, and a hidden rate after it.
func (s *search) do() searched {
	var res searched
	var todo agenda
	slow, hidden := NewSlowStart(0), (*HiddenRate)(nil)
	random := dice(uint64(s.clients))
	now, flying, first := 0.0, 0, 0.0
	half := func() float64 { return s.latency * (0.9 + 0.2*random.Float64()) / 2 }
	meter := func() limit.Meter {
		if hidden != nil {
			return hidden
		}
		return slow
	}
	for res.served < s.count {
		wake := math.Inf(1)
		for flying < s.clients && res.served+flying < s.count {
			t, ok := meter().When(seconds(now), 1)
			if !ok {
				panic("never")
			}
			if t.After(seconds(now)) {
				wake = t.Sub(epoch).Seconds()
				if t.Equal(limit.Unknown) {
					wake = math.Inf(1)
				}
				break
			}
			slow.Take(seconds(now), 1)
			if hidden != nil {
				hidden.Take(seconds(now), 1)
			}
			flying++
			heap.Push(&todo, moment{at: now + half(), what: 0, sent: now})
		}
		if len(todo) == 0 && math.IsInf(wake, 1) {
			panic(fmt.Sprint("nothing will ever happen at ", now))
		}
		if len(todo) == 0 || wake < todo[0].at {
			now = max(wake, now+1e-9)
			continue
		}
		m := heap.Pop(&todo).(moment)
		now = m.at
		if m.what == 0 {
			m.r = s.origin.arrive(now)
			if s.trace != nil {
				rate := 0.0
				if hidden != nil {
					rate = hidden.Rate()
				}
				if hidden != nil && hidden.windowed {
					s.trace("   window %d of %v, trial %d, taken %d accepted %d", hidden.window.limit, time.Duration(hidden.window.length), hidden.window.trial, hidden.window.taken, hidden.window.accepted)
				}
				s.trace("%8.3f refused=%v served=%d rate=%.3f", now, m.r.refused, res.served, rate)
			}
			m.what, m.at = 1, now+half()
			heap.Push(&todo, m)
			continue
		}
		flying--
		o := limit.Success
		if m.r.refused {
			o = limit.Refused
			res.refused++
			res.refusedBy = append(res.refusedBy, now)
			if hidden == nil {
				hidden = NewHiddenRate(History{Accepted: int64(res.served), Lasted: time.Duration((now - first) * 1e9)})
			}
			r := Refusal{Sent: seconds(m.sent)}
			if s.named != nil {
				r.RetryAt = seconds(s.named(now))
			}
			hidden.Refused(seconds(now), r)
		} else {
			res.served++
		}
		slow.Done(seconds(now), seconds(m.sent), 1, o)
		if hidden != nil {
			hidden.Done(seconds(now), seconds(m.sent), 1, o)
		}
	}
	res.took = now
	return res
}

func TestSearchTable(t *testing.T) {
	type service struct {
		name   string
		make   func() origin
		n, per float64 // amount and seconds
		burst  float64
		named  bool
	}
	var all []service
	for _, w := range [][2]float64{{1, 1}, {1, 3}, {3, 1}, {10, 1}, {10, 12}, {20, 60}, {50, 1}, {100, 10}, {200, 300}, {600, 600}} {
		n, per := w[0], w[1]
		for _, named := range []bool{false, true} {
			s := ""
			if named {
				s = " named"
			}
			all = append(all,
				service{fmt.Sprintf("first %v/%vs%s", n, per, s), func() origin { return &fixedOrigin{limit: n, window: per} }, n, per, 0, named},
				service{fmt.Sprintf("aligned %v/%vs%s", n, per, s), func() origin { return &fixedOrigin{limit: n, window: per, aligned: true} }, n, per, 0, named},
				service{fmt.Sprintf("rolling %v/%vs%s", n, per, s), func() origin { return &rolling{limit: n, window: per} }, n, per, 0, named})
		}
	}
	for _, w := range [][2]float64{{1, 1}, {1, 0.33}, {10, 1}, {20, 10}, {50, 5}, {100, 5}, {5, 0.1}} {
		b, r := w[0], w[1]
		all = append(all, service{fmt.Sprintf("bucket %v at %v/s", b, r), func() origin { return &drip{limit: b, rate: r} }, b, b / r, b, false})
	}
	for _, s := range all {
		line := fmt.Sprintf("%-26s", s.name)
		for _, clients := range []int{1, 8, 64} {
			o := s.make()
			latency := 0.05
			count := int(20 * s.n)
			count = max(count, 60)
			run := search{origin: o, clients: clients, latency: latency, count: count}
			if s.named {
				run.named = namedEnd(o)
			}
			r := run.do()
			ideal := math.Ceil(float64(count)/s.n-1) * s.per
			if s.burst > 0 {
				ideal = (float64(count) - s.burst) / (s.burst / s.per)
			}
			ideal = max(ideal, float64(count)*latency/float64(clients))
			half := 0
			for _, at := range r.refusedBy {
				if at > r.took/2 {
					half++
				}
			}
			line += fmt.Sprintf(" | %d: %5.2f %3d %2d", clients, r.took/ideal, r.refused, half)
		}
		t.Log(line)
	}
}

// namedEnd is the end of the present window, as Retry-After in whole seconds names it.
func namedEnd(o origin) func(float64) float64 {
	return func(at float64) float64 {
		switch o := o.(type) {
		case *fixedOrigin:
			return at + math.Ceil(o.start+o.window-at)
		case *rolling:
			if len(o.times) > 0 {
				return at + math.Ceil(o.times[0]+o.window-at)
			}
		}
		return at + 1
	}
}
