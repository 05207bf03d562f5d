package budget

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/reference"
)

// Whatever the store does, a request waits for it for a second at most: then the outage
// rule says whether it goes. The next ones know that the store is away.
func TestNobodyWaitsForAStoreForLong(t *testing.T) {
	for _, how := range []string{"slow", "fails", "stuck"} {
		for outage, want := range map[lease.Outage]int{lease.Share: 100, lease.Open: 100, lease.Strict: 0} {
			t.Run(fmt.Sprint(how, " ", outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &reference.Unreliable{Store: reference.New(nil)}
					c := newCounter(t, s, true, "one", perMinute, outage)
					elapse(store.RecoveryTime + time.Second)
					switch how {
					case "slow":
						s.Delay.Store(int64(20 * time.Second))
					case "fails":
						s.Fails.Store(true)
					case "stuck":
						s.Hangs.Store(true)
					}
					sent := 0
					for range want + 10 {
						if ok, waited := c.take("site.test", 2*time.Second); ok {
							sent++
							if waited > 60*time.Millisecond && (how == "fails" || waited > 1100*time.Millisecond || sent > 1) {
								t.Errorf("it waited for %v", waited)
							}
						}
					}
					if sent != want {
						t.Errorf("%d went of %d", sent, want)
					}
					s.Delay.Store(0)
					s.Fails.Store(false)
					s.Hangs.Store(false)
					c.stop()
				})
			})
		}
	}
}

// The state file of this machine may be stuck: what it cannot journal goes anyway, once
// that is known. A file that is only slow is waited for, or a crash would forget what
// was taken meanwhile.
func TestNobodyWaitsForAFileThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, false, "one", perMinute, lease.Share)
		s.Hangs.Store(true)
		for i := range 100 {
			if ok, waited := c.take("site.test", 3*time.Second); !ok || waited > 60*time.Millisecond && i > 0 || waited > 1100*time.Millisecond {
				t.Fatalf("%d: %v after %v", i, ok, waited)
			}
		}
		if ok, _ := c.take("site.test", time.Second); ok {
			t.Error("more went than there was")
		}
		s.Hangs.Store(false)
		c.stop()
	})
}

// A limit that is used up leaves the store alone.
func TestWhatIsUsedUpIsNotAskedFor(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &reference.Unreliable{Store: reference.New(nil)}
			c := newCounter(t, s, shared, "one", perMinute, lease.Share)
			elapse(store.RecoveryTime + time.Second)
			for range 100 {
				c.take("site.test", time.Second)
			}
			before := s.Calls.Load()
			for range 20 {
				c.take("site.test", 500*time.Millisecond)
			}
			if n := s.Calls.Load() - before; n > 60 {
				t.Errorf("shared %v: %d operations in 10 s", shared, n)
			}
			c.stop()
		})
	}
}

// What is forgotten by the gate leaves nothing at the keeper, whether or not it was used.
func TestForgottenSitesLeaveNothing(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &reference.Unreliable{Store: reference.New(nil)}
			c := newCounter(t, s, shared, "one", perMinute, lease.Share)
			elapse(store.RecoveryTime + time.Second)
			const sites = 10_000
			for i := range sites {
				if i%2 == 0 {
					if ok, _ := c.take(fmt.Sprintf("site%d.test", i), time.Second); !ok {
						t.Fatal("it does not go")
					}
					continue
				}
				site := fmt.Sprintf("site%d.test", i) // it leaves before it takes anything
				c.gate.Cool(site, queue.Scope{}, time.Now().Add(time.Second), "429")
				c.take(site, time.Millisecond)
			}
			elapse(3 * time.Minute)
			for i := range 3 * sites { // the gate forgets when it makes others
				p, err := c.gate.Wait(t.Context(), queue.Request{Site: fmt.Sprintf("other%d.test", i)})
				must(t, err)
				p.Finish(queue.Result{})
			}
			elapse(3 * time.Minute)
			synctest.Wait()
			list := c.keeper.accounts
			list.mu.Lock()
			accounts, due := len(list.all), len(list.due.Items())
			list.mu.Unlock()
			if accounts > 0 || due > 0 {
				t.Errorf("shared %v: %d accounts are left, %d are due", shared, accounts, due)
			}
			c.stop()
		})
	}
}

// Who stops gives back what he has not used, and another one can have it at once.
func TestWhoStopsGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reference.New(nil)
		counter := newCounter(t, s, true, "one", perMinute, lease.Strict)
		two := newCounter(t, s, true, "two", perMinute, lease.Strict)
		elapse(store.RecoveryTime + time.Second)
		used := 0
		for range 30 {
			if ok, _ := counter.take("site.test", time.Second); ok {
				used++
			}
		}
		counter.stop()
		for range 100 {
			if ok, _ := two.take("site.test", time.Second); ok {
				used++
			}
		}
		if used != 100 {
			t.Errorf("%d of 100 were used", used)
		}
		two.stop()
		if p, err := s.Pulse(t.Context(), store.Member{}); err != nil || p.Members != 0 {
			t.Errorf("%v, %v", p.Members, err)
		}
	})
}

// After the store has lost everything, what is held is said again before anything is
// granted anew.
func TestANewGenerationHearsWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reference.New(nil)
		counter := newCounter(t, s, true, "one", perMinute, lease.Strict)
		two := newCounter(t, s, true, "two", perMinute, lease.Strict)
		elapse(store.RecoveryTime + 2*time.Second)
		used := 0
		for range 40 {
			if ok, _ := counter.take("site.test", time.Second); ok {
				used++
			}
			if ok, _ := two.take("site.test", time.Second); ok {
				used++
			}
		}
		s.Lose()
		elapse(store.RecoveryTime + 2*time.Second)
		for began := time.Now(); time.Since(began) < 40*time.Second; { // one keeps some for 30 seconds
			if ok, _ := two.take("site.test", time.Second); ok {
				used++
			}
		}
		// What one gives back after two has heard last what is used counts until the window
		// is over: two cannot know that it was not spent.
		if used < 95 || used > 100 {
			t.Errorf("%d of 100 were used", used)
		}
		counter.stop()
		two.stop()
	})
}

// A wake-up at any moment of an exchange is heard: whoever waits for the store
// goes when that has answered.
func TestAWakeUpDuringAnExchangeIsHeard(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			s := &reference.Unreliable{Store: reference.New(nil)}
			counter := newCounter(t, s, true, "one", limit.Spec{As: limit.Fixed, Amount: 1000, Window: time.Hour}, lease.Strict)
			elapse(store.RecoveryTime + time.Second)
			var all sync.WaitGroup
			for i := range 40 {
				chance := rand.New(rand.NewPCG(seed, uint64(i)))
				all.Go(func() {
					for range 10 {
						elapse(time.Duration(chance.Int64N(int64(30 * time.Millisecond))))
						s.Delay.Store(chance.Int64N(int64(20 * time.Millisecond)))
						site := fmt.Sprintf("site%d.test", chance.IntN(5))
						switch chance.IntN(8) {
						case 0:
							counter.keeper.Note(site, store.Note{Key: fmt.Sprint(chance.Int()), Until: time.Now().Add(time.Second)})
						case 1:
							counter.keeper.sweep()
						default:
							if ok, waited := counter.take(site, 5*time.Second); !ok || waited > time.Second {
								t.Errorf("%v after %v", ok, waited)
							}
						}
					}
				})
			}
			all.Wait()
			counter.stop()
		})
	}
}

// An account whose site the gate forgets while the store is asked is used again by the
// next site of that name.
func TestASiteThatIsForgottenInAnExchangeBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Strict)
		elapse(store.RecoveryTime + time.Second)
		accounts := c.keeper.accounts
		accounts.mu.Lock()
		a := &account{site: "site.test", busy: true}
		a.Account = c.keeper.open(a.site, func() { accounts.schedule(a, a.Due()) })
		accounts.all[a.site] = a
		accounts.mu.Unlock()
		accounts.schedule(a, time.Now()) // the new site is due between the two locks
		c.keeper.withAccount(a, func(time.Time) bool { t.Error("there is no such site"); return false })
		accounts.mu.Lock()
		if a.busy || !accounts.due.Has(a) && accounts.all[a.site] != nil {
			t.Errorf("%+v", a)
		}
		accounts.mu.Unlock()
		if ok, _ := c.take("site.test", time.Second); !ok {
			t.Error("it does not begin anew")
		}
		c.stop()
	})
}

// The log and the status say once that a store is away, and once that it is back.
func TestAStoreThatIsAwayIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Share)
		s.Fails.Store(true)
		elapse(30 * time.Second)
		if store := c.keeper.Status(); store.Since.IsZero() || store.Err != reference.ErrUnreachable.Error() {
			t.Errorf("%+v", store)
		}
		s.Fails.Store(false)
		elapse(30 * time.Second)
		if store := c.keeper.Status(); !store.Since.IsZero() || store.Failures == 0 || store.Count != 1 {
			t.Errorf("%+v", store)
		}
		c.stop()
		if away, back := strings.Count(c.logged(), "does not answer"), strings.Count(c.logged(), "answers again"); away != 1 || back != 1 {
			t.Errorf("%d and %d: %s", away, back, c.logged())
		}
	})
}

// What is to be said at the end is said again when the store was away a moment ago.
func TestTheLastWordIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, false, "one", perMinute, lease.Share)
		c.take("site.test", time.Second)
		elapse(2 * time.Second)
		s.Fails.Store(true)
		for range 10 {
			c.take("site.test", 3*time.Second)
		}
		elapse(10 * time.Second)
		synctest.Wait()
		before := s.Calls.Load()
		s.Fails.Store(false)
		c.stop()
		if s.Calls.Load() == before {
			t.Error("it ends without a word")
		}
	})
}

// A lease that is on its way says nothing of what is left.
func TestALeaseOnItsWayIsNoExhaustedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &reference.Unreliable{Store: reference.New(nil)}
		c := newCounter(t, s, true, "one", limit.Spec{As: limit.Fixed, Amount: 20, Window: time.Hour}, lease.Strict)
		defer c.stop()
		c.need.Refuse = true
		elapse(store.RecoveryTime + time.Second)
		s.Delay.Store(int64(300 * time.Millisecond))
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
