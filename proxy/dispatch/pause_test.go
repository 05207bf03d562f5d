package dispatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/status"
)

func TestAPausedSiteGetsNoRequestUntilItIsResumed(t *testing.T) {
	for name, until := range map[string]time.Duration{"until it is resumed": 0, "until its end": time.Hour} {
		t.Run(name, func(t *testing.T) {
			ok := func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "ok") }
			run(t, ok, "queue: {wait: 3h}\nsites: [{host: site.test, learn: false, limits: [{concurrency: 2}]}]\n", func(w rig) {
				if a := w.Get("http://site.test/"); a.Status != 200 {
					t.Fatalf("%d %s", a.Status, a.Body)
				}
				pause := status.Pause{Reason: "they migrate", Since: time.Now()}
				if until > 0 {
					pause.Until = pause.Since.Add(until)
				}
				must(t, w.PauseSite(w.T.Context(), "site.test", pause))
				asked, began := w.Asked.Load(), time.Now()
				var all sync.WaitGroup
				var mu sync.Mutex
				var took []time.Duration
				for range 5 {
					all.Go(func() {
						a := w.Get("http://site.test/")
						mu.Lock()
						defer mu.Unlock()
						if took = append(took, time.Since(began)); a.Status != 200 {
							t.Errorf("%d %s", a.Status, a.Body)
						}
					})
				}
				if a := w.Get("http://other.test/"); a.Status != 200 {
					t.Errorf("another site: %d %s", a.Status, a.Body)
				}
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				if n := w.Asked.Load() - asked; n != 1 {
					t.Errorf("%d requests went", n)
				}
				holds := w.Holds("site.test", 10)
				if len(holds) != 5 || !strings.Contains(holds[0].Limit, "they migrate") {
					t.Errorf("%+v", holds)
				}
				if until == 0 {
					was, err := w.ResumeSite(w.T.Context(), "site.test")
					must(t, err)
					if again, _ := w.ResumeSite(w.T.Context(), "site.test"); !was || again {
						t.Errorf("it was paused: %v, and after that: %v", was, again)
					}
				}
				all.Wait()
				for _, one := range took {
					if want := max(until, 30*time.Minute); one < want || one > want+time.Second {
						t.Errorf("a request took %v", one)
					}
				}
				// A second pause has an end of its own.
				must(t, w.PauseSite(w.T.Context(), "site.test", status.Pause{Since: time.Now(), Until: time.Now().Add(time.Minute)}))
				began = time.Now()
				if a := w.Get("http://site.test/"); a.Status != 200 || time.Since(began) != time.Minute {
					t.Errorf("%d after %v", a.Status, time.Since(began))
				}
			})
		})
	}
}

func TestAPauseOutlivesTheProcess(t *testing.T) {
	const yaml = "queue: {wait: 1s}\nsites:\n  - {host: site.test, learn: false, limits: [{requests: 400, per: 1m}]}\n"
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			runRestarts(t, newStatePath(t), time.Hour, answerFine, func(l *restartTest) {
				w := l.begin(yaml)
				must(t, w.SetLimits(l.t.Context(), "site.test", []byte(`{"limits": [{"requests": 5, "per": "1m"}]}`)))
				must(t, w.PauseSite(l.t.Context(), "site.test", status.Pause{Since: time.Now()}))
				must(t, w.PauseSite(l.t.Context(), "short.test", status.Pause{Since: time.Now(), Until: time.Now().Add(time.Minute)}))
				end(w)
				w = l.begin(yaml)
				if n := w.flood("site.test", 30, time.Second); n != 0 {
					t.Errorf("%d passed", n)
				}
				time.Sleep(time.Minute)
				if n := w.flood("short.test", 30, time.Second); n != 30 {
					t.Errorf("%d passed after the end of the pause", n)
				}
				was, err := w.ResumeSite(l.t.Context(), "site.test")
				must(t, err)
				if n := w.flood("site.test", 30, time.Second); n != 5 || !was {
					t.Errorf("%d passed after the pause, with the limits that were set", n)
				}
				end(w)
				w = l.begin(yaml)
				if n := len(w.Pauses()); n != 0 {
					t.Errorf("%d pauses are left", n)
				}
				w.end()
			})
		})
	}
}
