package dispatch_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// window refuses what is more than n requests per time.
type window struct {
	n   int
	per time.Duration

	mu      sync.Mutex
	began   time.Time
	used    int
	refused int
}

// full counts a request, and reports whether it is one too many.
func (w *window) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.began) >= w.per {
		w.began, w.used = now, 0
	}
	w.used++
	if w.used > w.n {
		w.refused++
	}
	return w.used > w.n
}

// crawl requests so many pages with several clients, and counts the statuses of their answers.
func (w rig) crawl(clients, pages int, method string) map[int]int {
	var next atomic.Int64
	codes, mu := map[int]int{}, sync.Mutex{}
	w.requestTogether(clients, func(int) (last result) {
		for i := next.Add(1); i <= int64(pages); i = next.Add(1) {
			last = w.Do(w.T.Context(), method, fmt.Sprintf("http://site.test/pages/%d", i), "")
			mu.Lock()
			codes[last.Status]++
			mu.Unlock()
		}
		return last
	})
	return codes
}

// TestASiteThatClosesConnectionsAboveALimitRefuses: the requests are held and sent again, and the
// rate is found.
func TestASiteThatClosesConnectionsAboveALimitRefuses(t *testing.T) {
	for _, clients := range []int{1, 8, 32} {
		limit := &window{n: 5, per: 2 * time.Second}
		sites := func(rw http.ResponseWriter, _ *http.Request) {
			elapse(20 * time.Millisecond)
			if limit.full() {
				panic(http.ErrAbortHandler)
			}
		}
		run(t, sites, "", func(w rig) {
			codes := w.crawl(clients, 100, http.MethodGet)
			if took := time.Since(w.Began); codes[200] != 100 || limit.refused > 15 || took > 60*time.Second {
				t.Errorf("%d clients: %v, %d refused, in %v; 40s are needed", clients, codes, limit.refused, took)
			}
		})
	}
}

// TestASiteThatResetsStreamsBecauseOfTooManyRefuses: ENHANCE_YOUR_CALM of HTTP/2 counts as 429 without a time.
func TestASiteThatResetsStreamsBecauseOfTooManyRefuses(t *testing.T) {
	for _, rule := range []string{"", "sites: [{host: site.test, learn: false}]"} {
		var took [2]time.Duration
		for i, resets := range []bool{false, true} {
			limit := &window{n: 5, per: 2 * time.Second}
			sites := func(rw http.ResponseWriter, _ *http.Request) {
				elapse(20 * time.Millisecond)
				if limit.full() {
					rw.WriteHeader(429)
				}
			}
			run(t, sites, rule, func(w rig) {
				w.Send = func(r *http.Request) (*http.Response, error) {
					resp, err := w.Answer(r)
					if err == nil && resp.StatusCode == 429 && resets {
						return nil, &upstream.Error{Kind: upstream.Closed, Sent: true, Refused: true}
					}
					return resp, err
				}
				if codes := w.crawl(1, 40, http.MethodPost); codes[200] != 40 {
					t.Errorf("%v", codes)
				}
				took[i] = time.Since(w.Began)
			})
		}
		if took[1] < took[0]/2 || took[1] > 2*took[0] {
			t.Errorf("%q: with 429 it takes %v, and with resets %v", rule, took[0], took[1])
		}
	}
}

// TestAClosedConnectionIsNoAnswerThatRefuses: the request is held and sent again all the same.
func TestAClosedConnectionIsNoAnswerThatRefuses(t *testing.T) {
	var asked atomic.Int64
	sites := func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 6 {
			panic(http.ErrAbortHandler)
		}
	}
	run(t, sites, "", func(w rig) {
		w.crawl(1, 5, http.MethodGet)
		if a := w.Get("http://site.test/"); a.Status != 200 || a.Attempts != 2 || a.Refusals != 0 {
			t.Errorf("%d after %d attempts, %d refusals", a.Status, a.Attempts, a.Refusals)
		}
	})
}

// TestAPostWhoseConnectionWasClosedIsNotSentAgain: the site may have done what it asked.
func TestAPostWhoseConnectionWasClosedIsNotSentAgain(t *testing.T) {
	limit := &window{n: 5, per: time.Hour}
	sites := func(http.ResponseWriter, *http.Request) {
		if limit.full() {
			panic(http.ErrAbortHandler)
		}
	}
	run(t, sites, "", func(w rig) {
		if codes := w.crawl(1, 8, http.MethodPost); codes[200] != 5 || codes[502] != 3 || w.Asked.Load() != 8 {
			t.Errorf("%v, asked %d times", codes, w.Asked.Load())
		}
	})
}

// TestASiteThatClosesEveryConnectionIsDown, and no limit is learned by that.
func TestASiteThatClosesEveryConnectionIsDown(t *testing.T) {
	down := atomic.Bool{}
	sites := func(http.ResponseWriter, *http.Request) {
		elapse(20 * time.Millisecond)
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
	}
	run(t, sites, "", func(w rig) {
		down.Store(true)
		if a := w.Get("http://dead.test/"); a.Status != 502 || a.Attempts != 5 {
			t.Errorf("a site that has never answered: %d after %d attempts", a.Status, a.Attempts)
		}
		down.Store(false)
		w.crawl(8, 2000, http.MethodGet)
		down.Store(true)
		time.AfterFunc(10*time.Second, func() { down.Store(false) })
		began := time.Now()
		codes := w.crawl(8, 2000, http.MethodGet)
		if took := time.Since(began); codes[200] != 2000 || took > 25*time.Second {
			t.Errorf("%v in %v, of which the site was down for 10s", codes, took)
		}
		down.Store(true)
		w.crawl(8, 1, http.MethodGet)
		go w.Get("http://site.test/pages/1", "Abide-Max-Wait", "2h")
		elapse(10 * time.Minute)
		open := false
		for _, b := range w.Breakers() {
			open = open || b.Site == "site.test" && b.State != "closed"
		}
		if !open {
			t.Errorf("after ten minutes without an answer: %+v", w.Breakers())
		}
		down.Store(false)
	})
}

// TestASiteThatAnswers403AboveASmallLimitIsCrawled: five successes are enough to tell that it blocks.
func TestASiteThatAnswers403AboveASmallLimitIsCrawled(t *testing.T) {
	limit := &window{n: 5, per: 30 * time.Second}
	sites := func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/secret" || limit.full() {
			rw.WriteHeader(http.StatusForbidden)
		}
	}
	run(t, sites, "", func(w rig) {
		if codes := w.crawl(8, 60, http.MethodGet); codes[200] < 55 || limit.refused > 30 {
			t.Errorf("%v, %d refused", codes, limit.refused)
		}
		began := time.Now()
		if a := w.Get("http://site.test/secret"); a.Status != http.StatusForbidden || time.Since(began) > 2*time.Minute {
			t.Errorf("a page that is forbidden: %d after %v", a.Status, time.Since(began))
		}
	})
}
