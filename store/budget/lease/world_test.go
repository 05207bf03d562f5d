package lease_test

import (
	"context"
	"fmt"
	"math/rand"
	"sort"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

var begin = time.Date(2026, time.March, 14, 15, 9, 26, 535897932, time.UTC)

// reading is a time as time.Now makes it, whose clock on the wall need not agree with
// what has passed: the language has no other way to make one.
func reading(wall time.Time, passed time.Duration) time.Time {
	const since1885 = 2682288000 // seconds from there until 1970
	t := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{1<<63 | uint64(wall.Unix()+since1885)<<30 | uint64(wall.Nanosecond()), int64(passed) + 1, time.UTC}
	return *(*time.Time)(unsafe.Pointer(&t))
}

// scenario describes the events of a fleet.
type scenario struct {
	seed      int64
	instances int
	requests  limit.Spec
	bytes     limit.Spec
	rate      float64 // of requests, of each instance, per second
	network   fleet.Network
	slowest   time.Duration
	skew      bool
	owns      int // how many take themselves for the only one
	jumps     bool
	lasts     time.Duration
	mishaps   []mishap
	largest   int64 // request in bytes; 0: half the budget
	quiet     bool  // nothing more is wanted after that
}

type mishap struct {
	after time.Duration
	what  string
	who   int
	long  time.Duration
}

func specs(unit int64) *rapid.Generator[limit.Spec] {
	return rapid.Custom(func(t *rapid.T) limit.Spec {
		as := rapid.SampledFrom([]limit.As{limit.Fixed, limit.Fixed, limit.Rolling, limit.FirstUse, limit.Quota, limit.Bucket}).Draw(t, "as")
		s := limit.Spec{
			As: as, Amount: unit * rapid.Int64Range(1, 300).Draw(t, "amount"),
			Window: rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Minute}).Draw(t, "window"),
		}
		if as == limit.Quota {
			s.Window, s.Period = 0, limit.Day
		}
		if as == limit.Bucket {
			s.Burst = 2 + s.Amount/2
		}
		return s
	})
}

// scenarios have everything that can go wrong, but not a store that loses what those
// held who are not there to say it again: nothing helps against that.
func scenarios(loses bool) *rapid.Generator[scenario] {
	slowest := 0.2
	if loses {
		slowest = 3
	}
	return rapid.Custom(func(t *rapid.T) scenario {
		s := scenario{
			seed:      rapid.Int64().Draw(t, "seed"),
			instances: rapid.IntRange(1, 20).Draw(t, "instances"),
			requests:  specs(1).Draw(t, "requests"),
			bytes:     specs(1000).Draw(t, "bytes"),
			rate:      rapid.Float64Range(slowest, 10).Draw(t, "rate"),
			skew:      rapid.Bool().Draw(t, "skew"),
			owns:      rapid.SampledFrom([]int{0, 0, 1, 20}).Draw(t, "owns"),
			jumps:     rapid.Bool().Draw(t, "jumps"),
			lasts:     75 * time.Second,
		}
		s.slowest = time.Duration(rapid.Int64Range(0, int64(100*time.Millisecond)).Draw(t, "slowest"))
		s.network = fleet.Network{
			Loss: rapid.Float64Range(0, 0.3).Draw(t, "loss"), Twice: rapid.Float64Range(0, 0.3).Draw(t, "twice"),
			Late: time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "late")),
		}
		kinds := []string{"crash", "freeze", "cut"}
		if loses {
			kinds = []string{"lose", "revert"}
		}
		least := 0
		if loses {
			least = 1
		}
		for range rapid.IntRange(least, 4).Draw(t, "mishaps") {
			s.mishaps = append(s.mishaps, mishap{
				after: time.Duration(rapid.Int64Range(0, int64(s.lasts)).Draw(t, "after")),
				what:  rapid.SampledFrom(kinds).Draw(t, "what"),
				who:   rapid.IntRange(0, s.instances-1).Draw(t, "who"),
				long:  time.Duration(rapid.Int64Range(0, int64(70*time.Second)).Draw(t, "long")),
			})
		}
		return s
	})
}

// outcome has the results of a run.
type outcome struct {
	fleet *fleet.Fleet
	takes map[string][]fleet.Take
	wrong string // with what the store has written down
}

// breakage is an intended error.
type breakage struct{ unnumbered bool }

func (s scenario) run(b breakage) outcome {
	out := outcome{takes: map[string][]fleet.Take{}}
	skews := map[int]time.Duration{}
	rnd := rand.New(rand.NewSource(s.seed + 1))
	for i := range s.instances {
		skews[i] = 0
		if s.skew {
			skews[i] = time.Duration(rnd.Int63n(int64(2*time.Minute))) - time.Minute
		}
	}
	s.network.Delay = func(r *rand.Rand) time.Duration { return time.Duration(r.Int63n(int64(s.slowest) + 1)) }
	var book *ledger
	f := fleet.New(fleet.Options{
		Seed: s.seed, Begin: begin, Network: s.network,
		Owns:    func(i int) bool { return i < s.owns },
		Budgets: []fleet.Budget{{Key: "requests", Spec: s.requests, Outage: lease.Strict}, {Key: "bytes", Spec: s.bytes, Outage: lease.Strict}},
		Clock: func(i int, now time.Time) time.Time {
			return reading(now.Add(skews[i]), now.Sub(begin)+time.Duration(i)*time.Hour)
		},
		Taken: func(t fleet.Take) {
			out.takes[t.Key] = append(out.takes[t.Key], t)
			if wrong := book.take(t, s); wrong != "" && out.wrong == "" {
				out.wrong = wrong
			}
		},
	})
	memory := reference.New(f.Now)
	book = &ledger{Store: memory, has: map[string]int64{}, took: map[string]int64{}}
	f.Store = book
	if b.unnumbered {
		f.Store = &unnumbered{Store: memory}
	}
	f.Start(s.instances)
	if s.jumps {
		for range 6 {
			f.At(time.Duration(rnd.Int63n(int64(s.lasts))), func() {
				skews[rnd.Intn(s.instances)] = time.Duration(rnd.Int63n(int64(2*time.Minute))) - time.Minute
			})
		}
	}
	for i := range s.instances {
		demand(f, rnd, i, s)
	}
	for _, m := range s.mishaps {
		switch m.what {
		case "crash":
			f.At(m.after, func() { f.Crash(m.who) })
		case "freeze":
			f.At(m.after, func() { f.Freeze(m.who, m.long) })
		case "cut":
			f.At(m.after, func() { f.Cut(true) })
			f.At(m.after+m.long/4, func() { f.Cut(false) })
		case "lose":
			f.At(m.after, func() { f.Safe(4 * time.Second); memory.Lose() })
		case "revert":
			var old reference.Snapshot
			f.At(max(m.after-m.long/20, 0), func() { old = memory.Snapshot() })
			f.At(m.after+1, func() { f.Safe(4 * time.Second); memory.Revert(old) })
		}
	}
	f.Run(s.lasts)
	out.fleet = f
	return out
}

// demand is requests at random moments, in bursts.
func demand(f *fleet.Fleet, rnd *rand.Rand, i int, s scenario) {
	var next func()
	next = func() {
		if s.quiet && f.Now().Sub(begin) > s.lasts {
			return
		}
		for range 1 + rnd.Intn(3) {
			if f.Waiting(i) < 6 {
				largest := min(s.bytes.Amount/2, 64<<10)
				if s.bytes.As == limit.Bucket {
					largest = min(largest, s.bytes.Burst/2-1)
				}
				if s.largest > 0 {
					largest = min(largest, s.largest)
				}
				f.Request(i, fleet.Need{"requests": 1, "bytes": 1 + rnd.Int63n(largest+1)})
			}
		}
		f.At(time.Duration(rnd.ExpFloat64()/s.rate*float64(time.Second)), next)
	}
	f.At(time.Duration(rnd.ExpFloat64()/s.rate*float64(time.Second)), next)
}

// over says what is wrong with what was taken of a budget, as a server sees it: up to
// a margin later than it was taken.
func over(spec limit.Spec, takes []fleet.Take) string {
	type at struct {
		t time.Time
		n int64
	}
	amount, window := spec.Amount, spec.Window
	if spec.As == limit.Bucket {
		amount = spec.Burst / 2
		window = time.Duration(float64(amount) * float64(spec.Window) / float64(spec.Amount))
	}
	if spec.As == limit.Quota {
		window = 24 * time.Hour
	}
	if spec.As == limit.Fixed || spec.As == limit.Bucket || spec.As == limit.Quota {
		width := int64((window-1)/time.Microsecond+1) * int64(time.Microsecond)
		sums := map[int64]int64{}
		for _, t := range takes {
			w := t.At.UnixNano() / width
			if last := t.At.Add(time.Duration(lease.Margin(width)) - time.Microsecond).UnixNano(); last/width != w {
				return fmt.Sprintf("instance %d took %d at %v, too close to the end of the window", t.Instance, t.N, t.At)
			}
			if sums[w] += t.N; sums[w] > amount {
				return fmt.Sprintf("%d of %d in the window %d, at %v", sums[w], amount, w, t.At)
			}
		}
		return ""
	}
	// A server may see each at any moment until the margin of a slot has passed.
	late := time.Duration(lease.Margin(int64(window) / min(max(int64(window/(100*time.Millisecond)), 4), 128)))
	list := make([]at, 0, len(takes))
	for i, t := range takes {
		list = append(list, at{t.At.Add(late * time.Duration(i%3) / 2), t.N})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].t.Before(list[j].t) })
	sum, first := int64(0), 0
	for _, t := range list {
		for ; t.t.Sub(list[first].t) >= window; first++ {
			sum -= list[first].n
		}
		if sum += t.n; sum > amount {
			return fmt.Sprintf("%d of %d within %v of %v", sum, amount, window, t.t)
		}
	}
	return ""
}

func (o outcome) excess(s scenario) string {
	for key, spec := range map[string]limit.Spec{"requests": s.requests, "bytes": s.bytes} {
		if wrong := over(spec, o.takes[key]); wrong != "" {
			return fmt.Sprintf("%s as %s: %s", key, spec.As, wrong)
		}
	}
	return ""
}

// ledger is a store that remembers what it has written down, of each instance in each
// window, and what that has taken.
type ledger struct {
	store.Store
	has, took map[string]int64
}

func (l *ledger) Exchange(ctx context.Context, list []store.Batch) ([]store.Reply, error) {
	replies, err := l.Store.Exchange(ctx, list)
	for i, r := range replies {
		for _, a := range r.Answers {
			if a.Status == store.Done {
				l.has[fmt.Sprint(list[i].Instance, a.Key, a.Window)] = a.Granted
				for _, h := range a.Later {
					l.has[fmt.Sprint(list[i].Instance, a.Key, h.Window)] = h.N
				}
			}
		}
	}
	return replies, err
}

// take says what is wrong with what an instance takes: more than is written down.
func (l *ledger) take(t fleet.Take, s scenario) string {
	spec := s.requests
	if t.Key == "bytes" {
		spec = s.bytes
	}
	if spec.As != limit.Fixed { // the others have numbers that are more work to find out
		return ""
	}
	at := fmt.Sprint(t.ID, t.Key, t.At.UnixNano()/int64(spec.Window))
	if l.took[at] += t.N; l.took[at] > l.has[at] {
		return fmt.Sprintf("%s has taken %d of %s, and %d are written down, at %v", t.ID, l.took[at], t.Key, l.has[at], t.At)
	}
	return ""
}

// unnumbered is a store that takes every message for a new one.
type unnumbered struct {
	store.Store
	n uint64
}

func (u *unnumbered) Exchange(ctx context.Context, list []store.Batch) ([]store.Reply, error) {
	seqs := make([][]uint64, len(list))
	said := make([]store.Batch, len(list))
	for i, b := range list {
		b.Asks = append([]store.Ask(nil), b.Asks...)
		for j := range b.Asks {
			u.n++
			seqs[i] = append(seqs[i], b.Asks[j].Seq)
			b.Asks[j].Seq = u.n
		}
		said[i] = b
	}
	replies, err := u.Store.Exchange(ctx, said)
	for i := range replies {
		for j := range replies[i].Answers {
			replies[i].Answers[j].Seq = seqs[i][j]
		}
	}
	return replies, err
}
