package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/dispatch/dispatchtest"
)

// pair is two processes of one machine that crawl one site, which announces its limit.
type pair struct {
	dialect string        // how the end of a window is announced: as "seconds" left, as "unix" time, with the length as "ietf", or "exact"
	byClock bool          // windows begin by the clock, and otherwise with a request
	amount  int           // requests of a window
	period  time.Duration // length of a window
	later   float64       // windows after which the second process begins
	part    float64       // of the pages that the first process fetches
	clients int           // of each process

	mu      sync.Mutex
	random  *rand.Rand
	ends    time.Time
	used    int
	refused int
}

func (p *pair) String() string {
	return fmt.Sprintf("%d in %v, by the clock: %v, %s, the second process after %v windows, with %.0f %% of the pages, %d clients each",
		p.amount, p.period, p.byClock, p.dialect, p.later, 100*(1-p.part), p.clients)
}

// way is the time that a request takes, or an answer.
func (p *pair) way() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(9+p.random.IntN(3)) * time.Millisecond
}

func (p *pair) serve(rw http.ResponseWriter, _ *http.Request) {
	elapse(p.way())
	defer elapse(p.way())
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !now.Before(p.ends) {
		p.used, p.ends = 0, now.Add(p.period)
		if p.byClock {
			p.ends = now.Truncate(p.period).Add(p.period)
		}
	}
	fits := p.used < p.amount
	if fits {
		p.used++
	}
	left, h := p.ends.Sub(now), rw.Header()
	seconds := strconv.Itoa(int((left + time.Second - 1) / time.Second))
	h.Set("X-RateLimit-Limit", strconv.Itoa(p.amount))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(p.amount-p.used))
	switch p.dialect {
	case "exact":
		h.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", left.Seconds()))
	case "ietf":
		clear(h)
		h.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, p.amount, int(p.period.Seconds())))
		h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%s`, p.amount-p.used, seconds))
	case "unix":
		h.Set("X-RateLimit-Reset", strconv.FormatInt(p.ends.Add(time.Second-1).Unix(), 10))
	default:
		h.Set("X-RateLimit-Reset", seconds)
	}
	if !fits {
		p.refused++
		rw.WriteHeader(http.StatusTooManyRequests)
	}
}

// crawl has processes fetch so many pages, the second one after a delay, and returns the time. The seed says at which time
// of a window they begin.
func (p *pair) crawl(t *testing.T, seed uint64, pages ...int) (took time.Duration) {
	path := newStatePath(t)
	synctest.Test(t, func(t *testing.T) {
		p.random, p.ends, p.used, p.refused = rand.New(rand.NewPCG(seed, 1)), time.Time{}, 0, 0
		elapse(time.Until(time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)) + time.Duration(p.random.Int64N(int64(p.period))))
		began := time.Now()
		var processes sync.WaitGroup
		for i := range pages {
			processes.Go(func() {
				elapse(time.Duration(float64(i) * p.later * float64(p.period)))
				w := rig{dispatchtest.Start(t, p.serve, "", keptIn(t, path, fmt.Sprint("p", i)))}
				defer w.Close()
				var left atomic.Int64
				left.Store(int64(pages[i]))
				var clients sync.WaitGroup
				for range p.clients {
					clients.Go(func() {
						for n := left.Add(-1); n >= 0; n = left.Add(-1) {
							if a := w.Get(fmt.Sprintf("http://site.test/%d", n)); a.Status != http.StatusOK {
								t.Errorf("a page is answered %d: %s", a.Status, a.Body)
								return
							}
						}
					})
				}
				clients.Wait()
				p.mu.Lock()
				took = max(took, time.Since(began))
				p.mu.Unlock()
			})
		}
		processes.Wait()
	})
	return took
}

// TestTwoProcessesAreAboutAsFastAsOne: at a limit that a site announces, whatever its windows and however it says when they end. Where
// windows are of 2 s, much depends on which of the two opens the first ones. Before, these took 1.19 times as long, one 2.2 times, and
// 2.6 requests of each were refused.
func TestTwoProcessesAreAboutAsFastAsOne(t *testing.T) {
	mean, refused := 0.0, 0
	random := rand.New(rand.NewPCG(3, 3))
	const pairs = 32
	for n := range pairs {
		p := &pair{
			dialect: []string{"seconds", "unix", "ietf", "exact"}[n%4], byClock: n/4%2 == 0, later: []float64{0, 0.05, 0.5, 2.3}[n/8],
			amount: []int{10, 20, 30, 60}[random.IntN(4)], period: []time.Duration{2, 5, 6, 10, 15, 60}[random.IntN(6)] * time.Second,
			part: []float64{0.5, 0.7}[random.IntN(2)], clients: []int{1, 4, 8}[random.IntN(3)],
		}
		if p.later > 1 {
			p.part = 0.7
		}
		seed, all := random.Uint64(), p.amount*7+p.amount/2
		if dispatch.Raced && n%8 > 0 { // tools/test runs all of them without the race detector
			continue
		}
		first := int(float64(all) * p.part)
		alone := p.crawl(t, seed, all)
		together := p.crawl(t, seed, first, all-first)
		ratio, most := together.Seconds()/alone.Seconds(), 1.3
		if p.period < 5*time.Second {
			most = 2
		}
		mean, refused = mean+ratio/pairs, refused+p.refused
		if t.Logf("%.2f times %.1f s, %d refused: %v", ratio, alone.Seconds(), p.refused, p); ratio > most {
			t.Errorf("two processes need %.1f s, and one %.1f: %v", together.Seconds(), alone.Seconds(), p)
		}
	}
	if t.Logf("in the mean %.3f times as long, %.1f refused", mean, float64(refused)/pairs); !dispatch.Raced && mean > 1.08 || refused > 3*pairs {
		t.Errorf("two processes need %.3f times as long as one, and %d requests of %d pairs are refused", mean, refused, pairs)
	}
}
