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
	begin   float64
	known   *HiddenRate // of an earlier crawl; nil: none
}

// searched is what came of it.
type searched struct {
	took      float64
	refused   int
	refusedBy []float64
	served    int
	found     *HiddenRate // nil: nothing was refused
}

// do runs the crawl: with a slow start until the first refusal, and a hidden rate after it.
func (s *search) do() searched {
	var res searched
	var todo agenda
	slow, hidden := NewSlowStart(0), s.known
	random := dice(uint64(s.clients))
	now, flying, first := s.begin, 0, s.begin
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
	res.took, res.found = now-s.begin, hidden
	return res
}

// silentService is a service that announces nothing.
type silentService struct {
	name   string
	make   func() origin
	n, per float64 // amount and seconds; of a bucket its size, and the seconds until it is full
	bucket bool
	named  bool // refusals name the end of a window
}

// silentServices are windows of every kind, and buckets.
func silentServices() (all []silentService) {
	for _, w := range [][2]float64{{1, 1}, {1, 3}, {3, 1}, {10, 1}, {10, 12}, {20, 60}, {50, 1}, {100, 10}, {200, 300}, {600, 600}} {
		n, per := w[0], w[1]
		for _, named := range []bool{false, true} {
			kinds := map[string]func() origin{
				"first":   func() origin { return &fixedOrigin{limit: n, window: per} },
				"aligned": func() origin { return &fixedOrigin{limit: n, window: per, aligned: true} },
				"rolling": func() origin { return &rolling{limit: n, window: per} },
			}
			for kind, make := range kinds {
				all = append(all, silentService{fmt.Sprintf("%s, %v in %v s, named %v", kind, n, per, named), make, n, per, false, named})
			}
		}
	}
	for _, w := range [][2]float64{{1, 1}, {1, 0.33}, {10, 1}, {20, 10}, {50, 5}, {100, 5}, {5, 0.1}} {
		size, rate := w[0], w[1]
		all = append(all, silentService{fmt.Sprintf("a bucket of %v, %v a second", size, rate), func() origin { return &drip{limit: size, rate: rate} }, size, size / rate, true, false})
	}
	return all
}

// crawl is a crawl of 20 windows by some clients, and the time that it takes at least.
func (s *silentService) crawl(clients int) (run search, ideal float64) {
	o := s.make()
	run = search{origin: o, clients: clients, latency: 0.05, count: max(int(20*s.n), 60)}
	if s.named {
		run.named = namedEnd(o)
	}
	ideal = math.Ceil(float64(run.count)/s.n-1) * s.per
	if s.bucket {
		ideal = (float64(run.count) - s.n) * s.per / s.n
	}
	return run, max(ideal, float64(run.count)*run.latency/float64(clients))
}

// TestALimitThatIsNotAnnouncedIsFoundFast: a crawl of 20 windows takes hardly longer than it
// must, and is refused a few times.
func TestALimitThatIsNotAnnouncedIsFoundFast(t *testing.T) {
	t.Parallel()
	for _, s := range silentServices() {
		for _, clients := range []int{1, 8, 64} {
			run, ideal := s.crawl(clients)
			r := run.do()
			second := 0
			for _, at := range r.refusedBy {
				if at > r.took/2 {
					second++
				}
			}
			// While a window is full, as many are refused as are in flight.
			most := 19 + float64(clients)*1.5 + s.n/s.per/4
			t.Logf("%s, %d clients: %.2f × ideal, %d refused, %d of them in the second half", s.name, clients, r.took/ideal, r.refused, second)
			if r.took > 1.7*ideal {
				t.Errorf("%s, %d clients: %.2f × ideal", s.name, clients, r.took/ideal)
			}
			if float64(r.refused) > most || second > 5 {
				t.Errorf("%s, %d clients: %d refused, %d of them in the second half", s.name, clients, r.refused, second)
			}
		}
	}
}

// TestLaterCrawlsAreNotRefusedMoreOften: in the pauses between crawls a bucket fills, and what it has saved says nothing of its
// rate, whether abide has run on or was started anew.
func TestLaterCrawlsAreNotRefusedMoreOften(t *testing.T) {
	t.Parallel()
	for _, b := range [][2]float64{{20, 5}, {10, 2}, {60, 10}, {50, 5}} {
		for _, clients := range []int{1, 8, 16} {
			for _, pause := range []float64{0, 6, 60} {
				for _, restarts := range []bool{false, true} {
					s, later := search{origin: &drip{limit: b[0], rate: b[1]}, clients: clients, latency: 0.02, count: 100}, 0
					for n := range 6 {
						res := s.do()
						if s.begin, s.known = s.begin+res.took+pause, res.found; n > 0 {
							later += res.refused
						}
						if restarts && s.known != nil {
							state := s.known.State()
							s.known = NewHiddenRate(History{})
							if err := s.known.Restore(seconds(s.begin), state); err != nil {
								t.Fatal(err)
							}
						}
					}
					if later > 20 {
						t.Errorf("bucket of %v and %v a second, %d clients, %v s between crawls, restarts %v: %d refused in five later crawls", b[0], b[1], clients, pause, restarts, later)
					}
				}
			}
		}
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

// TestARefusedAttemptCostsLittle: when more than the rate was tried and refused, the rate is
// used as before.
func TestARefusedAttemptCostsLittle(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1.4, 5} {
		for _, clients := range []int{1, 8} {
			s := search{origin: &drip{limit: 1, rate: rate}, clients: clients, latency: .05, count: 6000, named: func(at float64) float64 { return at + 1 }}
			if r := s.do(); r.took > 1.2*6000/rate || r.refused > 20 {
				t.Errorf("%v a second, %d clients: %.2f × ideal, %d refused, the last at %v", rate, clients, r.took/6000*rate, r.refused, r.refusedBy[len(r.refusedBy)-1])
			}
		}
	}
}

// TestAStallBeforeTheFirstRefusalCostsLittle: our own machine stood still for 16 s, so a first
// rate of 1 to 5 a second is seen where 10 are allowed.
func TestAStallBeforeTheFirstRefusalCostsLittle(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func() origin{
		"a bucket":              func() origin { return &drip{limit: 20, rate: 10} },
		"a bucket of one":       func() origin { return &drip{limit: 1, rate: 10} },
		"a window of 1 s":       func() origin { return &fixedOrigin{limit: 10, window: 1, aligned: true} },
		"a window of 10 s":      func() origin { return &fixedOrigin{limit: 100, window: 10} },
		"a rolling window":      func() origin { return &rolling{limit: 20, window: 2} },
		"a long rolling window": func() origin { return &rolling{limit: 100, window: 10} },
	} {
		for _, accepted := range []int64{20, 80} {
			p := NewHiddenRate(History{Accepted: accepted, Lasted: 16 * time.Second})
			p.Refused(seconds(0), Refusal{Sent: seconds(0)})
			s := run{origin: hush{make()}, meter: p, flying: 8, fastest: .045, slowest: .055, length: 110, random: dice(3)}
			s.hear = func(now, sent time.Time, r reply) {
				if r.refused {
					p.Refused(now, Refusal{Sent: sent})
				}
			}
			if r := s.do(); r.served < 600 || r.refused > 25 {
				t.Errorf("%s, %d accepted: %d of 1,100 in 110 s, %d refused", name, accepted, r.served, r.refused)
			}
		}
	}
}
