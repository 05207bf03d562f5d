package proxy

import (
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/queue"
)

// forgets has all sites forgotten of which nothing is used, as when very many others come.
func (w *life) forgets(site string) {
	w.t.Helper()
	for n := range 200_000 {
		w.server.gate.Cool(fmt.Sprint("other", n, ".test"), queue.Scope{}, time.Now().Add(time.Minute), "a test")
		if n%500 == 0 && !w.remembers(site) {
			return
		}
	}
	w.t.Fatalf("%s is not forgotten", site)
}

func (w *life) remembers(site string) bool { return w.server.gate.With(site, func(time.Time) {}) }

// What was used is read again by a site that was forgotten and comes back: nothing of it
// twice, and nothing of a clock that was set back since.
func TestASiteThatIsForgottenAndComesBackIsNoLongerBoundThanItWas(t *testing.T) {
	for _, one := range windows {
		for _, jump := range []time.Duration{-time.Hour, -26 * time.Hour} {
			t.Run(fmt.Sprint(one.name, " ", jump), func(t *testing.T) {
				t.Parallel()
				const base = 50*time.Hour + 11*time.Second
				path := newStatePath(t)
				yaml := "sites:\n  - {host: site.test, learn: false, limits: [" + one.limit + "]}\n"
				afterlife(t, path, base, fine, func(l *lives) {
					w := l.begin(yaml)
					w.flood("site.test", 60, time.Second)
					w.kill()
					path = l.path
				})
				afterlife(t, path, base+jump, fine, func(l *lives) {
					w := l.begin(yaml)
					if n := w.flood("site.test", 100, time.Second); n > 2 {
						t.Errorf("%d passed at once", n)
					}
					elapse(one.per + 2*time.Second)
					w.forgets("site.test")
					if n := w.flood("site.test", 100, 2*time.Second); n < one.amount {
						t.Errorf("%d passed a window later", n)
					}
					w.end()
				})
			})
		}
	}
}
