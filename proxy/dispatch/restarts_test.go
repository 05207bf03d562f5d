package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/dispatch/dispatchtest"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// restartTest starts proxies one after the other with the same state file, in a bubble.
type restartTest struct {
	t      *testing.T
	path   string
	sites  http.HandlerFunc
	n      int
	slow   time.Duration  // of each call of the store
	memory *failingMemory // stores what was learned, in front of the file; nil: the file itself
}

// restartedDispatcher is one proxy of a restartTest.
type restartedDispatcher struct {
	rig
	all  *restartTest
	file *store.File
	end  func() // as by SIGTERM
}

// runRestarts runs a restartTest in a bubble whose clock is moved by at. path is the state
// file.
func runRestarts(t *testing.T, path string, at time.Duration, sites http.HandlerFunc, test func(l *restartTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		elapse(at)
		test(&restartTest{t: t, path: path, sites: sites})
	})
}

func newStatePath(t *testing.T) string { return filepath.Join(t.TempDir(), "abide.db") }

// begin starts the next proxy.
func (l *restartTest) begin(yaml string) *restartedDispatcher {
	l.t.Helper()
	file, err := store.OpenFile(l.t.Context(), l.path, store.FileOptions{})
	must(l.t, err)
	l.n++
	budgets := &reference.Unreliable{Store: file}
	budgets.Delay.Store(int64(l.slow))
	storage := dispatch.Keeping{Store: budgets, Documents: file, Memory: file, Instance: fmt.Sprint("life ", l.n)}
	if l.memory != nil {
		l.memory.File, storage.Memory = file, l.memory
	}
	storage.Budgets, err = file.Recall(l.t.Context())
	must(l.t, err)
	w := &restartedDispatcher{rig: rig{dispatchtest.Start(l.t, l.sites, yaml, storage)}, all: l, file: file}
	synctest.Wait()
	w.end = sync.OnceFunc(func() {
		w.Close()
		must(l.t, file.Close())
	})
	return w
}

// kill is kill -9: the next proxy has the file as it is at this moment.
func (w *restartedDispatcher) kill() {
	w.T.Helper()
	synctest.Wait()
	from := w.all.path
	to := filepath.Join(filepath.Dir(from), fmt.Sprintf("abide%d.db", w.all.n))
	for _, tail := range []string{"", "-wal"} {
		text, err := os.ReadFile(from + tail)
		must(w.T, err)
		must(w.T, os.WriteFile(to+tail, text, 0o600))
	}
	w.end()
	w.all.path = to
}

// endings are the ways in which a proxy ends.
var endings = map[string]func(w *restartedDispatcher){
	"kill -9": (*restartedDispatcher).kill,
	"gently":  func(w *restartedDispatcher) { w.end() },
}

// flood sends n requests of as many clients at once. It returns how many reached the site;
// the others are cancelled after during.
func (w *restartedDispatcher) flood(site string, n int, during time.Duration) (passed int) {
	ctx, cancel := context.WithTimeout(w.T.Context(), during)
	defer cancel()
	var all sync.WaitGroup
	var ok atomic.Int64
	for range n {
		all.Go(func() {
			if w.Do(ctx, "GET", "http://"+site+"/", "").Status == 200 {
				ok.Add(1)
			}
		})
	}
	all.Wait()
	return int(ok.Load())
}

func answerFine(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "fine") }

// arrivals is when requests have reached a site.
type arrivals struct {
	mu sync.Mutex
	at []time.Time
}

func (a *arrivals) serve(rw http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.at = append(a.at, time.Now())
	a.mu.Unlock()
	answerFine(rw, r)
}

// mostWithin is the largest number in any interval of a length.
func (a *arrivals) mostWithin(d time.Duration) (most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := 0
	for i, at := range a.at {
		for at.Sub(a.at[first]) >= d {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// windows are the limits of the tests.
var windows = []struct {
	name, limit string
	amount      int
	per         time.Duration
	most        int // largest number in any interval of that length
}{
	{"fixed", "{requests: 40, per: 1m, as: fixed}", 40, time.Minute, 80},
	{"rolling", "{requests: 40, per: 1m}", 40, time.Minute, 40},
	{"first-use", "{requests: 40, per: 1m, as: first-use}", 40, time.Minute, 80},
	{"bucket", "{requests: 40, per: 1m, as: bucket, burst: 20}", 20, time.Minute, 60},
	{"paced", "{requests: 40, per: 1m, as: paced}", 1, time.Minute, 41},
	{"quota", "{requests: 40, per: day}", 40, 24 * time.Hour, 40},
}

// What was spent stays spent after each end, for all kinds of windows.
func TestWhatWasSpentIsRemembered(t *testing.T) {
	for _, one := range windows {
		for how, end := range endings {
			t.Run(one.name+" "+how, func(t *testing.T) {
				t.Parallel()
				seen := &arrivals{}
				yaml := "sites:\n  - {host: site.test, learn: false, limits: [" + one.limit + "]}\n"
				runRestarts(t, newStatePath(t), time.Hour+11*time.Second, seen.serve, func(l *restartTest) {
					w := l.begin(yaml)
					first := w.flood("site.test", 60, time.Second)
					if first < one.amount || first > one.amount+2 {
						t.Fatalf("%d passed at first", first)
					}
					end(w)
					w = l.begin(yaml)
					if again := w.flood("site.test", 60, time.Second); again > 2 || one.name != "paced" && one.name != "bucket" && again > 0 {
						t.Errorf("%d passed after the restart", again)
					}
					// And not for longer than its window.
					if later := w.flood("site.test", 60, one.per+2*time.Second); one.per < time.Hour && later < 38 {
						t.Errorf("%d passed within the next window", later)
					}
					w.end()
				})
				if most := seen.mostWithin(one.per); most > one.most {
					t.Errorf("%d within %v", most, one.per)
				}
			})
		}
	}
}

// A clock that was set back between two processes neither grants anything twice nor blocks
// for longer than a window. A clock that was set forward counts as time that has passed.
func TestWhatWasSpentIsRememberedByAnotherClock(t *testing.T) {
	const base = 50*time.Hour + 11*time.Second
	for _, one := range windows {
		for _, jump := range []time.Duration{-time.Hour, -26 * time.Hour, 40 * 24 * time.Hour} {
			t.Run(fmt.Sprint(one.name, " ", jump), func(t *testing.T) {
				t.Parallel()
				path := newStatePath(t)
				yaml := "sites:\n  - {host: site.test, learn: false, limits: [" + one.limit + "]}\n"
				runRestarts(t, path, base, answerFine, func(l *restartTest) {
					w := l.begin(yaml)
					w.flood("site.test", 60, time.Second)
					w.kill()
					path = l.path
				})
				runRestarts(t, path, base+jump, answerFine, func(l *restartTest) {
					w := l.begin(yaml)
					n := w.flood("site.test", 100, time.Second)
					switch {
					case jump >= one.per && (n < one.amount || n > one.amount+2):
						t.Errorf("%d passed when the windows were over", n)
					case jump < 0 && n > 2:
						t.Errorf("%d passed at once", n)
					}
					elapse(one.per + 2*time.Second)
					if n := w.flood("site.test", 100, 2*time.Second); n < one.amount {
						t.Errorf("%d passed a window later", n)
					}
					w.end()
				})
			})
		}
	}
}

// A kill loses at most a lease, a normal end nothing.
func TestWhatIsLostIsALease(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, learn: false, limits: [{requests: 400, per: day}]}\n"
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			runRestarts(t, newStatePath(t), time.Hour, answerFine, func(l *restartTest) {
				went := 0
				const times = 6
				for range times {
					w := l.begin(yaml)
					went += w.flood("site.test", 50, time.Second)
					end(w)
				}
				w := l.begin(yaml)
				went += w.flood("site.test", 200, time.Second)
				w.end()
				t.Logf("%d of 400 went", went)
				if lost := 400 - went; lost < 0 || lost > times*20 {
					t.Errorf("%d were lost", lost)
				}
			})
		})
	}
}

func TestLimitsThatWereSetOutliveTheProcess(t *testing.T) {
	const yaml = "sites:\n  - {host: site.test, learn: false, limits: [{requests: 400, per: 1m}]}\n"
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			runRestarts(t, newStatePath(t), time.Hour, answerFine, func(l *restartTest) {
				w := l.begin(yaml)
				err := w.SetLimits(l.t.Context(), "site.test", []byte(`{"limits": [{"requests": 5, "per": "1m"}]}`))
				must(t, err)
				err = w.SetLimits(l.t.Context(), "other.test", []byte(`{"limits": [{"requests": 7, "per": "1m"}]}`))
				must(t, err)
				end(w)
				w = l.begin(yaml)
				if n := w.flood("site.test", 30, time.Second); n != 5 {
					t.Errorf("%d passed", n)
				}
				if n := w.flood("other.test", 30, time.Second); n != 7 {
					t.Errorf("%d passed to the other", n)
				}
				was, err := w.ClearLimits(l.t.Context(), "site.test")
				must(t, err)
				if !was {
					t.Error("there was nothing to clear")
				}
				end(w)
				w = l.begin(yaml)
				if n := w.flood("site.test", 30, time.Second); n != 30 {
					t.Errorf("%d passed after it was cleared", n)
				}
				if n := len(w.Overrides()); n != 1 {
					t.Errorf("there are %d", n)
				}
				w.end()
			})
		})
	}
}

// Limits that were stored and that exceed the bounds of the configuration do not prevent a
// start.
func TestLimitsThatDoNotFitAreNoReasonNotToStart(t *testing.T) {
	runRestarts(t, newStatePath(t), 0, answerFine, func(l *restartTest) {
		w := l.begin("")
		must(t, w.file.Put(l.t.Context(), "limits", "a.test", []byte("{"), time.Time{}))
		must(t, w.file.Put(l.t.Context(), "limits", "b.test", []byte(`{"limits": [{"requests": 5, "per": "1m"}]}`), time.Time{}))
		w.kill()
		w = l.begin("")
		if n := w.flood("b.test", 9, time.Second); n != 5 || !strings.Contains(w.lines(), "a.test") {
			t.Errorf("%d passed; %s", n, w.lines())
		}
		w.end()
	})
}
