package proxy

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

// hurried is a pool whose requests do not wait for tokens that are used up.
const hurried = "pools: {p: {tokens: [{label: a, secret: a-secret}, {label: b, secret: b-secret}], exhausted: refuse}}\n" +
	"sites:\n  - {host: site.test, insecure: true, learn: false, pool: p, limits: [{requests: 5, per: 1h, by: token}]}\n" +
	"  - {host: other.test, learn: false, limits: [{requests: 5, per: 1h}]}\n"

// A journal that is still on its way says nothing of what is left: the first requests
// after a start go, and so do those after a while.
func TestAJournalOnItsWayIsNoExhaustedBudget(t *testing.T) {
	for _, slow := range []time.Duration{0, 30 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(slow.String(), func(t *testing.T) {
			afterlife(t, newStatePath(t), 0, func(http.ResponseWriter, *http.Request) {}, func(l *lives) {
				l.slow = slow
				for life := range 3 {
					w := l.begin(hurried)
					for i, u := range []string{"http://site.test/", "http://other.test/"} {
						headers := [][]string{nil, {"Abide-Max-Wait", "1ms"}}[i]
						if got := w.get(w.client(), u, headers...); got.status != 200 {
							t.Errorf("life %d, %s: %d %v %s", life, u, got.status, got.header, got.body)
						}
					}
					elapse(5 * time.Second)
					if got := w.get(w.client(), "http://site.test/", "Abide-Max-Wait", "0"); got.status != 200 {
						t.Errorf("life %d, after a while: %d %v %s", life, got.status, got.header, got.body)
					}
					w.end()
				}
				w := l.begin(hurried)
				defer w.end()
				for i := range 6 {
					got := w.get(w.client(), "http://site.test/")
					if want := []int{200, 503}[i/4]; i < 4 && got.status != 200 || i == 4 && got.status != want {
						t.Errorf("request %d after the lives: %d %s", i, got.status, got.body)
					}
				}
			})
		})
	}
}

// Permits that are asked for in one go are granted in their order, and what is refused
// is told when there is more.
func TestPermitsAreGrantedInTheOrderInWhichTheyAreQueued(t *testing.T) {
	afterlife(t, newStatePath(t), 0, func(http.ResponseWriter, *http.Request) {}, func(l *lives) {
		l.slow = 40 * time.Millisecond
		w := l.begin(hurried)
		defer w.end()
		for _, site := range []string{"http://other.test/", "http://site.test/"} {
			answers := make([]*Denied, 20)
			var all sync.WaitGroup
			began := time.Now()
			for i := range answers {
				queued := make(chan struct{})
				all.Go(func() { _, answers[i] = w.permit(site, func(a *PermitAsk) { a.Queued = func() { close(queued) } }) })
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

// The same of a lease that is on its way from a store that others use, too.
func TestALeaseOnItsWayIsNoExhaustedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, true, "one", limit.Spec{As: limit.Fixed, Amount: 20, Window: time.Hour}, lease.Strict)
		defer c.stop()
		c.need.Refuse = true
		elapse(store.Settling + time.Second)
		s.slow.Store(int64(300 * time.Millisecond))
		for i := range 21 {
			if i%7 == 0 {
				elapse(time.Minute) // what is not used goes back
			}
			if sent, waited := c.take("site.test", time.Minute); sent != (i < 20) {
				t.Errorf("%d of 20: %v after %v", i, sent, waited)
			}
		}
	})
}
