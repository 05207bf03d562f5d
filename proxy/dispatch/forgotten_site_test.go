package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
)

// forgetSite makes the server forget all unused sites, as many other sites would.
func (w *restartedDispatcher) forgetSite(site string) {
	w.T.Helper()
	for n := range 200_000 {
		w.Gate().Cool(fmt.Sprint("other", n, ".test"), queue.Scope{}, time.Now().Add(time.Minute), "a test")
		if n%500 == 0 && !w.knowsSite(site) {
			return
		}
	}
	w.T.Fatalf("%s is not forgotten", site)
}

func (w *restartedDispatcher) knowsSite(site string) bool {
	return w.Gate().UpdateExternal(site, func(time.Time) {})
}

// What was used is read again when a forgotten site comes back: nothing counts twice, and
// nothing by a clock that was set back since.
func TestASiteThatIsForgottenAndComesBackIsNoLongerBoundThanItWas(t *testing.T) {
	for _, one := range windows {
		for _, jump := range []time.Duration{-time.Hour, -26 * time.Hour} {
			t.Run(fmt.Sprint(one.name, " ", jump), func(t *testing.T) {
				t.Parallel()
				const base = 50*time.Hour + 11*time.Second
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
					if n := w.flood("site.test", 100, time.Second); n > 2 {
						t.Errorf("%d passed at once", n)
					}
					elapse(one.per + 2*time.Second)
					w.forgetSite("site.test")
					if n := w.flood("site.test", 100, 2*time.Second); n < one.amount {
						t.Errorf("%d passed a window later", n)
					}
					w.end()
				})
			})
		}
	}
}
