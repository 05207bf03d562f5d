package dispatch_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

// refusingPool is a pool whose requests are refused when its tokens are used up.
const refusingPool = "pools: {p: {tokens: [{label: a, secret: a-secret}, {label: b, secret: b-secret}], exhausted: refuse}}\n" +
	"sites:\n  - {host: site.test, insecure: true, learn: false, pool: p, limits: [{requests: 5, per: 1h, by: token}]}\n" +
	"  - {host: other.test, learn: false, limits: [{requests: 5, per: 1h}]}\n"

// While a count is still being read from the store, requests are sent, at the start and
// later.
func TestAJournalOnItsWayIsNoExhaustedBudget(t *testing.T) {
	for _, slow := range []time.Duration{0, 30 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			runRestarts(t, newStatePath(t), 0, func(http.ResponseWriter, *http.Request) {}, func(l *restartTest) {
				l.slow = slow
				for life := range 3 {
					w := l.begin(refusingPool)
					for i, u := range []string{"http://site.test/", "http://other.test/"} {
						headers := [][]string{nil, {"Abide-Max-Wait", "1ms"}}[i]
						if got := w.Get(u, headers...); got.Status != 200 {
							t.Errorf("life %d, %s: %d %v %s", life, u, got.Status, got.Header, got.Body)
						}
					}
					elapse(5 * time.Second)
					if got := w.Get("http://site.test/", "Abide-Max-Wait", "0"); got.Status != 200 {
						t.Errorf("life %d, after a while: %d %v %s", life, got.Status, got.Header, got.Body)
					}
					w.end()
				}
				w := l.begin(refusingPool)
				defer w.end()
				for i := range 6 {
					got := w.Get("http://site.test/")
					if want := []int{200, 503}[i/4]; i < 4 && got.Status != 200 || i == 4 && got.Status != want {
						t.Errorf("request %d after the lives: %d %s", i, got.Status, got.Body)
					}
				}
			})
		})
	}
}

// Permits of one request are granted in order, and a refusal says when there is more.
func TestPermitsAreGrantedInTheOrderInWhichTheyAreQueued(t *testing.T) {
	runRestarts(t, newStatePath(t), 0, func(http.ResponseWriter, *http.Request) {}, func(l *restartTest) {
		l.slow = 40 * time.Millisecond
		w := l.begin(refusingPool)
		defer w.end()
		for _, site := range []string{"http://other.test/", "http://site.test/"} {
			answers := make([]*status.Denied, 20)
			var all sync.WaitGroup
			began := time.Now()
			for i := range answers {
				queued := make(chan struct{})
				all.Go(func() {
					_, answers[i] = w.permit(site, func(a *status.PermitAsk) { a.Queued = func() { close(queued) } })
				})
				<-queued
			}
			all.Wait()
			amount := 5
			if site == "http://site.test/" {
				amount = 10
			}
			for i, no := range answers {
				switch {
				case i < amount && no != nil:
					t.Errorf("%s: the permit %d of %d is refused: %+v after %v", site, i, amount, *no, time.Since(began))
				case i >= amount && (no == nil || no.RetryAt.Sub(began) < 59*time.Minute):
					t.Errorf("%s: the permit %d of %d: %+v after %v", site, i, amount, *no, time.Since(began))
				}
			}
		}
	})
}
