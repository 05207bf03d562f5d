package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// silent is a site that announces nothing: it accepts so many requests in each window of a length, or so many a second, of
// which it saves those of a second.
type silent struct {
	amount float64
	window time.Duration // 0: it is a rate

	mu                sync.Mutex
	level             float64 // that is left
	at                time.Time
	accepted, refused int
}

func (s *silent) serve(rw http.ResponseWriter, _ *http.Request) {
	elapse(10 * time.Millisecond)
	s.mu.Lock()
	now := time.Now()
	if s.window == 0 {
		s.level = min(s.level+now.Sub(s.at).Seconds()*s.amount, s.amount)
		s.at = now
	} else if began := now.Truncate(s.window); began.After(s.at) {
		s.level, s.at = s.amount, began
	}
	fits := s.level >= 1
	if fits {
		s.level--
		s.accepted++
	} else {
		s.refused++
	}
	s.mu.Unlock()
	elapse(20 * time.Millisecond)
	if !fits {
		rw.WriteHeader(http.StatusTooManyRequests)
	}
}

// ideal is the least time of so many requests.
func (s *silent) ideal(requests int) time.Duration {
	return time.Duration(float64(requests) / s.amount * float64(max(s.window, time.Second)))
}

const oneToken = "pools: {p: {tokens: [{label: a, secret: a-secret}]}}\nsites: [{host: site.test, insecure: true, pool: p}]"

// keptIn is what a process keeps in a state file.
func keptIn(t *testing.T, path, id string) dispatch.Keeping {
	t.Helper()
	id = strings.ReplaceAll(id, " ", "") + fmt.Sprint("at", time.Now().Unix())
	file, err := store.OpenFile(t.Context(), path, store.FileOptions{Instance: id, Name: id})
	must(t, err)
	t.Cleanup(func() { must(t, file.Close()) })
	budgets, err := file.Recall(t.Context())
	must(t, err)
	return dispatch.Keeping{Store: file, Documents: file, Memory: file, Budgets: budgets, Instance: id, Name: id}
}

// crawlTogether runs proxies, each with eight clients that send so many requests together, and returns the time.
func crawlTogether(t *testing.T, s *silent, proxies, requests int, keeping func(id string) dispatch.Keeping) (took time.Duration) {
	t.Helper()
	runTogether(t, proxies, keeping, s.serve, oneToken, func(all []rig) {
		began := time.Now()
		var clients sync.WaitGroup
		for _, w := range all {
			left := atomic.Int64{}
			left.Store(int64(requests / proxies))
			for range 8 {
				clients.Go(func() {
					for left.Add(-1) >= 0 {
						if a := w.Get("http://site.test/"); a.Status != http.StatusOK {
							t.Errorf("a request is answered %d: %s", a.Status, a.Body)
							return
						}
					}
				})
			}
		}
		clients.Wait()
		took = time.Since(began)
	})
	return took
}

// Several proxies learn a hidden limit together, as fast as one would, and one that comes later uses all of it.
func TestWhatASiteHidesIsLearnedTogether(t *testing.T) {
	for name, one := range map[string]*silent{
		"10 a second":     {amount: 10},
		"2 a second":      {amount: 2},
		"20 in 5 seconds": {amount: 20, window: 5 * time.Second},
	} {
		for _, proxies := range []int{1, 2, 4} {
			for kept, inFile := range map[string]bool{"a file": true, "a shared store": false} {
				if proxies == 4 && one.amount == 2 || proxies == 1 && !inFile {
					continue // half a request a second for each: the search takes longer than this test
				}
				t.Run(fmt.Sprintf("%s, %d proxies with %s", name, proxies, kept), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s, path := &silent{amount: one.amount, window: one.window}, newStatePath(t)
						shared := &reference.Unreliable{Store: reference.New(nil)}
						shared.Delay.Store(int64(2 * time.Millisecond))
						keeping := func(id string) dispatch.Keeping {
							if !inFile {
								return dispatch.Keeping{Store: shared, Shared: true, Instance: id, Name: id}
							}
							return keptIn(t, path, id)
						}
						together := crawlTogether(t, s, proxies, 300, keeping)
						refused := s.refused
						alone := crawlTogether(t, s, 1, 150, keeping)
						t.Logf("together %.2f times as long as needed, %d refused; alone afterwards %.2f", together.Seconds()/s.ideal(300).Seconds(),
							refused, alone.Seconds()/s.ideal(150).Seconds())
						if together > 3*s.ideal(300) || refused > 60 || alone > 3*s.ideal(150) { // mostly 1.0 to 1.3
							t.Error("that is too much")
						}
					})
				})
			}
		}
	}
}

// A process with the same state file that does not use a site changes nothing: neither the rate at which a limit is looked
// for, nor the margins of windows that are announced in whole seconds.
func TestAProcessThatDoesNotUseASiteChangesNothing(t *testing.T) {
	sites := map[string]func() (serve http.HandlerFunc, refused func() int){
		"hidden": func() (http.HandlerFunc, func() int) {
			s := &silent{amount: 20, window: 5 * time.Second}
			return s.serve, func() int { return s.refused }
		},
		"announced": func() (http.HandlerFunc, func() int) {
			a := newAnnouncer(&announcer{first: true})
			a.amount, a.window = 10, 5*time.Second
			return a.serve, a.refusals
		},
	}
	for name, site := range sites { // alone, and beside three others
		var took [2]time.Duration
		var refusals [2]int
		for idle := range took {
			synctest.Test(t, func(t *testing.T) {
				elapse(time.Until(time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC))) // resets are announced as Unix times
				path := newStatePath(t)
				serve, refused := site()
				keeping := func(id string) dispatch.Keeping { return keptIn(t, path, id) }
				runTogether(t, 1+3*idle, keeping, serve, oneToken, func(all []rig) {
					began := time.Now()
					var clients sync.WaitGroup
					for range 6 {
						clients.Go(func() {
							for range 40 {
								if a := all[0].Get("http://site.test/"); a.Status != http.StatusOK {
									t.Errorf("%s: a request is answered %d: %s", name, a.Status, a.Body)
									return
								}
							}
						})
					}
					clients.Wait()
					took[idle], refusals[idle] = time.Since(began), refused()
				})
			})
		}
		t.Logf("%s: %v, %d refused", name, took, refusals)
		if took[1] > took[0]*11/10 || refusals[1] > refusals[0]+3 {
			t.Errorf("%s: an idle process changes something", name)
		}
	}
}
