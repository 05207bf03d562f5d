package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// A cooldown of 30 s continues after a restart, also by a clock that was changed.
func TestACooldownOutlivesTheProcess(t *testing.T) {
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			var refuse atomic.Bool
			refuse.Store(true)
			sites := func(rw http.ResponseWriter, r *http.Request) {
				if refuse.Load() {
					rw.Header().Set("Retry-After", "30")
					rw.WriteHeader(429)
				}
			}
			runRestarts(t, newStatePath(t), 0, sites, func(l *restartTest) {
				w := l.begin("")
				began := time.Now()
				w.flood("site.test", 1, 10*time.Second)
				end(w)
				refuse.Store(false)
				w = l.begin("")
				if a := w.Get("http://site.test/"); a.Status != 200 {
					t.Errorf("%d %s", a.Status, a.Body)
				}
				if waited := time.Since(began); waited < 30*time.Second || waited > 33*time.Second {
					t.Errorf("it went %v after the refusal", waited)
				}
				w.end()
			})
		})
	}
}

// A clock that was set back makes no cooldown longer. A clock that was set forward ends
// cooldowns.
func TestACooldownFromTheFutureLastsAsLongAsItWas(t *testing.T) {
	for _, at := range []time.Duration{2 * time.Hour, 0} {
		path := newStatePath(t)
		runRestarts(t, path, 3*time.Hour, answerFine, func(l *restartTest) {
			w := l.begin("")
			w.Gate().Cool("site.test", queue.Scope{}, time.Now().Add(30*time.Second), "429")
			w.end()
		})
		runRestarts(t, path, at, answerFine, func(l *restartTest) {
			w := l.begin("")
			a := w.Get("http://site.test/")
			if a.Status != 200 || a.At < 29*time.Second || a.At > 33*time.Second {
				t.Errorf("at %v: %d after %v", at, a.Status, a.At)
			}
			w.end()
		})
	}
}

func TestACooldownThatWasEndedIsForgotten(t *testing.T) {
	runRestarts(t, newStatePath(t), 0, answerFine, func(l *restartTest) {
		w := l.begin(accountsPool)
		pool := w.Current().Pool("p")
		token := pool.Find("ann")
		w.Gate().Cool("site.test", queue.Scope{Limit: "token", Key: token.Key()}, time.Now().Add(time.Hour), "quarantine")
		elapse(5 * time.Second)
		if all, err := w.file.All(l.t.Context(), "cooldown"); len(all) != 1 {
			t.Fatal(all, err)
		}
		must(t, w.SwitchToken("p", "ann", true))
		elapse(5 * time.Second)
		if all, err := w.file.All(l.t.Context(), "cooldown"); len(all) != 0 || err != nil {
			t.Error(all, err)
		}
		w.end()
	})
}

// A change of the operator counts from its answer on, also after kill -9.
func TestWhatTheOperatorHasChangedIsStoredBeforeItIsAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		before, change func(w *restartedDispatcher) error
		earlier, after string
	}{
		"disable": {
			func(w *restartedDispatcher) error { return w.SwitchToken("p", "ann", false) },
			func(w *restartedDispatcher) error { return w.SwitchToken("p", "bob", false) },
			"ann:disabled ann-too:ready bob:ready; learned true", "ann:disabled ann-too:ready bob:disabled; learned true",
		},
		"enable": {
			func(w *restartedDispatcher) error {
				return errors.Join(w.SwitchToken("p", "ann", false), w.SwitchToken("p", "bob", false))
			},
			func(w *restartedDispatcher) error { return w.SwitchToken("p", "bob", true) },
			"ann:disabled ann-too:ready bob:disabled; learned true", "ann:disabled ann-too:ready bob:ready; learned true",
		},
		"forget": {
			func(w *restartedDispatcher) error { return w.SwitchToken("p", "ann", false) },
			func(w *restartedDispatcher) error {
				_, err := w.Forget("site.test")
				return err
			},
			"ann:disabled ann-too:ready bob:ready; learned true", "ann:disabled ann-too:ready bob:ready; learned false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &announcing{limit: 20}
			runRestarts(t, newStatePath(t), 0, s.serve, func(l *restartTest) {
				known := func(w *restartedDispatcher) string {
					return fmt.Sprint(statesOf(w), "; learned ", len(w.Limits()) > 0)
				}
				w := l.begin(accountsPool)
				for range 3 {
					w.Get("http://site.test/")
				}
				elapse(5 * time.Second)
				must(t, test.before(w))
				if now := known(w); now != test.earlier {
					t.Errorf("before: %s", now)
				}
				must(t, test.change(w))
				w.kill()
				w = l.begin(accountsPool)
				if now := known(w); now != test.after {
					t.Errorf("after: %s", now)
				}
				w.end()
			})
		})
	}
}

func TestAChangeThatCannotBeStoredHoldsAndIsAnsweredAsNotKept(t *testing.T) {
	s := &announcing{limit: 20}
	runRestarts(t, newStatePath(t), 0, s.serve, func(l *restartTest) {
		to := &failingMemory{}
		l.memory = to
		w := l.begin(accountsPool)
		w.Get("http://site.test/")
		elapse(5 * time.Second)
		to.fails.Store(true)
		_, forgotten := w.Forget("site.test")
		for what, err := range map[string]error{"forget": forgotten, "disable": w.SwitchToken("p", "bob", false)} {
			if _, ok := errors.AsType[status.NotKept](err); !ok {
				t.Errorf("%s: %v", what, err)
			}
		}
		if got := statesOf(w); got != "ann:ready ann-too:ready bob:disabled" {
			t.Error(got)
		}
		to.fails.Store(false)
		elapse(5 * time.Second)
		w.kill()
		w = l.begin(accountsPool)
		if got := statesOf(w); got != "ann:ready ann-too:ready bob:disabled" || len(w.Limits()) > 0 {
			t.Error(got, w.Limits())
		}
		w.end()
	})
}

func TestWhatIsKnownOfTokensOutlivesTheProcess(t *testing.T) {
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			sites := func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Bearer ann-secret" {
					rw.WriteHeader(401)
				}
			}
			runRestarts(t, newStatePath(t), 0, sites, func(l *restartTest) {
				w := l.begin(accountsPool)
				must(t, w.SwitchToken("p", "bob", false))
				for range 6 {
					w.Get("http://site.test/")
				}
				elapse(3 * time.Second)
				before := statesOf(w)
				if before != "ann:quarantined ann-too:ready bob:disabled" {
					t.Errorf("before: %s", before)
				}
				end(w)
				w = l.begin(accountsPool)
				if after := statesOf(w); after != before {
					t.Errorf("after: %s", after)
				}
				asked := w.Asked.Load()
				if a := w.Get("http://site.test/"); a.Status != 200 || w.Asked.Load() != asked+1 {
					t.Errorf("%d after %d requests", a.Status, w.Asked.Load()-asked)
				}
				w.end()
			})
		})
	}
}

func statesOf(w *restartedDispatcher) string {
	var all []string
	for _, one := range w.Pools()[0].Tokens {
		all = append(all, one.Label+":"+one.State)
	}
	return strings.Join(all, " ")
}

// announcing is a site that announces a window of its own.
type announcing struct {
	arrivals
	limit   int
	used    int
	ends    time.Time
	refused int
}

func (s *announcing) serve(rw http.ResponseWriter, r *http.Request) {
	s.arrivals.serve(&unheard{}, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.Before(s.ends) {
		s.used, s.ends = 0, now.Truncate(10*time.Minute).Add(10*time.Minute)
	}
	ok := s.used < s.limit
	if ok {
		s.used++
	} else {
		s.refused++
	}
	rw.Header().Set("X-RateLimit-Limit", strconv.Itoa(s.limit))
	rw.Header().Set("X-RateLimit-Remaining", strconv.Itoa(s.limit-s.used))
	rw.Header().Set("X-RateLimit-Reset", strconv.Itoa(int(s.ends.Sub(now).Seconds())+1))
	if !ok {
		rw.WriteHeader(429)
	}
}

type unheard struct{}

func (*unheard) Header() http.Header { return http.Header{} }

func (*unheard) Write(p []byte) (int, error) { return len(p), nil }

func (*unheard) WriteHeader(int) {}

// With nothing remaining, no request is sent before the reset: neither the ledger is
// forgotten nor the routes that belong to it.
func TestWhatWasAnnouncedOutlivesTheProcess(t *testing.T) {
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			s := &announcing{limit: 20}
			runRestarts(t, newStatePath(t), time.Hour, s.serve, func(l *restartTest) {
				w := l.begin("")
				for range 10 { // until nothing is left
					if s.used < 20 {
						w.flood("site.test", 30, 20*time.Second)
					}
				}
				if s.used != 20 {
					t.Errorf("%d were used", s.used)
				}
				refused := s.refused
				end(w)
				w = l.begin("")
				if n := w.flood("site.test", 5, 2*time.Minute); n != 0 || s.refused != refused {
					t.Errorf("%d went before the reset, %d were refused", n, s.refused-refused)
				}
				if a := w.Get("http://site.test/"); a.Status != 200 || time.Now().Before(time.Date(2000, 1, 1, 1, 10, 0, 0, time.UTC)) {
					t.Errorf("%d at %v", a.Status, time.Now())
				}
				if all, err := w.file.All(l.t.Context(), "routes"); len(all) != 1 || err != nil {
					t.Errorf("%v, %v", all, err)
				}
				w.end()
			})
		})
	}
}

// failingMemory is a file whose writes fail for a while, and are counted.
type failingMemory struct {
	*store.File
	fails  atomic.Bool
	writes atomic.Int64
	keys   atomic.Int64
}

var errFaulty = errors.New("no space left on device")

func (f *failingMemory) PutAll(ctx context.Context, kind string, all map[string]store.Document) error {
	if f.fails.Load() {
		return errFaulty
	}
	f.writes.Add(1)
	f.keys.Add(int64(len(all)))
	return f.File.PutAll(ctx, kind, all)
}

// What could not be written is written later, and nothing is written twice.
func TestWhatWasLearnedIsWrittenOnceWhenItCanBe(t *testing.T) {
	s := &announcing{limit: 20}
	runRestarts(t, newStatePath(t), time.Hour, s.serve, func(l *restartTest) {
		to := &failingMemory{}
		l.memory = to
		to.fails.Store(true)
		w := l.begin("")
		w.flood("site.test", 3, time.Second)
		elapse(time.Minute)
		if store := w.Store(); store.Since.IsZero() || store.Err != errFaulty.Error() {
			t.Errorf("%+v", store)
		}
		to.fails.Store(false)
		elapse(5 * time.Second)
		if store := w.Store(); !store.Since.IsZero() {
			t.Errorf("%+v", store)
		}
		for _, kind := range []string{"ledger", "routes"} {
			if all, err := w.file.All(l.t.Context(), kind); len(all) != 1 || err != nil {
				t.Errorf("%s: %v, %v", kind, all, err)
			}
		}
		before := to.writes.Load()
		elapse(time.Hour)
		if n := to.writes.Load() - before; n > 2 { // the window has ended
			t.Errorf("%d writes while nothing changed", n)
		}
		w.end()
	})
}

// Many cooldowns at once are written together.
func TestAStormOfCooldownsIsWrittenTogether(t *testing.T) {
	runRestarts(t, newStatePath(t), 0, answerFine, func(l *restartTest) {
		to := &failingMemory{}
		l.memory = to
		w := l.begin("")
		for i := range 1000 {
			w.Gate().Cool(fmt.Sprintf("site%d.test", i), queue.Scope{}, time.Now().Add(time.Minute), "429")
			w.Persistence().Urge()
			elapse(100 * time.Microsecond)
		}
		elapse(time.Second)
		synctest.Wait()
		if n, keys := to.writes.Load(), to.keys.Load(); n > 30 || keys != 1000 {
			t.Errorf("%d in %d writes", keys, n)
		}
		w.end()
	})
}
