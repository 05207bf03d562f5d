package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/lease"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

// trouble is a store that is slow, or fails, or does not answer at all.
type trouble struct {
	store.Store
	slow  atomic.Int64 // nanoseconds
	fails atomic.Bool
	stuck atomic.Bool
	asked atomic.Int64
}

var errTrouble = errors.New("no connection")

func (s *trouble) wait(ctx context.Context) error {
	s.asked.Add(1)
	if s.stuck.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if d := time.Duration(s.slow.Load()); d > 0 {
		elapse(d)
	}
	if s.fails.Load() {
		return errTrouble
	}
	return ctx.Err()
}

func (s *trouble) Exchange(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Store.Exchange(ctx, batches)
}

func (s *trouble) Pulse(ctx context.Context, m store.Member) (store.Pulse, error) {
	if err := s.wait(ctx); err != nil {
		return store.Pulse{}, err
	}
	return s.Store.Pulse(ctx, m)
}

// counter is a desk with a gate of which each site has one limit.
type counter struct {
	t    *testing.T
	desk *desk
	gate *queue.Gate
	need queue.Limit
	lent int64
	stop func()
}

func newCounter(t *testing.T, s store.Store, shared bool, instance string, spec limit.Spec, outage lease.Outage) *counter {
	t.Helper()
	c := startCounter(t, s, shared, instance, spec, outage)
	synctest.Wait()
	return c
}

func startCounter(t *testing.T, s store.Store, shared bool, instance string, spec limit.Spec, outage lease.Outage) *counter {
	log := logrus.New()
	log.SetOutput(&syncBuffer{})
	c := &counter{t: t, desk: newDesk(s, shared, instance, instance, log)}
	c.desk.changed = func() {}
	c.desk.measure = func(string, bool, time.Duration) {}
	c.gate = queue.NewGate(queue.Bounds{}, func(r queue.Request) ([][]queue.Limit, uint64) { return r.Limits, 0 })
	c.desk.gate = c.gate
	same := func(_, key string) string { return key }
	c.need = queue.Limit{Name: "requests", Spec: &spec, N: 1, Keep: c.desk.keeper(outage, same, func(string, string) bool { return true })}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.desk.run(ctx) }()
	c.stop = sync.OnceFunc(func() { cancel(); <-done })
	return c
}

// take is one request. It tells whether it was sent, and for how long it waited.
func (c *counter) take(site string, patience time.Duration) (sent bool, waited time.Duration) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	p, err := c.gate.Wait(ctx, queue.Request{Site: site, Limits: [][]queue.Limit{{c.need}}})
	if err != nil {
		return false, time.Since(began)
	}
	p.Sent()
	p.Finish(queue.Result{Outcome: limit.Success})
	return true, time.Since(began)
}

var perMinute = limit.Spec{As: limit.Fixed, Amount: 100, Window: time.Minute}

// Whatever the store does, a request waits for it for a second at most: then the outage
// rule says whether it goes. The next ones know that the store is away.
func TestNobodyWaitsForAStoreForLong(t *testing.T) {
	for _, how := range []string{"slow", "fails", "stuck"} {
		for outage, want := range map[lease.Outage]int{lease.Share: 100, lease.Open: 100, lease.Strict: 0} {
			t.Run(fmt.Sprint(how, " ", outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &trouble{Store: store.NewMemory(nil)}
					c := newCounter(t, s, true, "one", perMinute, outage)
					elapse(store.Settling + time.Second)
					switch how {
					case "slow":
						s.slow.Store(int64(20 * time.Second))
					case "fails":
						s.fails.Store(true)
					case "stuck":
						s.stuck.Store(true)
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
					s.slow.Store(0)
					s.fails.Store(false)
					s.stuck.Store(false)
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
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, false, "one", perMinute, lease.Share)
		s.stuck.Store(true)
		for i := range 100 {
			if ok, waited := c.take("site.test", 3*time.Second); !ok || waited > 60*time.Millisecond && i > 0 || waited > 1100*time.Millisecond {
				t.Fatalf("%d: %v after %v", i, ok, waited)
			}
		}
		if ok, _ := c.take("site.test", time.Second); ok {
			t.Error("more went than there was")
		}
		s.stuck.Store(false)
		c.stop()
	})
}

// A limit that is used up leaves the store alone.
func TestWhatIsUsedUpIsNotAskedFor(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &trouble{Store: store.NewMemory(nil)}
			c := newCounter(t, s, shared, "one", perMinute, lease.Share)
			elapse(store.Settling + time.Second)
			for range 100 {
				c.take("site.test", time.Second)
			}
			before := s.asked.Load()
			for range 20 {
				c.take("site.test", 500*time.Millisecond)
			}
			if n := s.asked.Load() - before; n > 60 {
				t.Errorf("shared %v: %d operations in 10 s", shared, n)
			}
			c.stop()
		})
	}
}

// What is forgotten by the gate leaves nothing at the desk, whether or not it was used.
func TestForgottenSitesLeaveNothing(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &trouble{Store: store.NewMemory(nil)}
			c := newCounter(t, s, shared, "one", perMinute, lease.Share)
			elapse(store.Settling + time.Second)
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
			c.desk.mu.Lock()
			accounts, due := len(c.desk.accounts), len(c.desk.due)
			c.desk.mu.Unlock()
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
		s := store.NewMemory(nil)
		one := newCounter(t, s, true, "one", perMinute, lease.Strict)
		two := newCounter(t, s, true, "two", perMinute, lease.Strict)
		elapse(store.Settling + time.Second)
		used := 0
		for range 30 {
			if ok, _ := one.take("site.test", time.Second); ok {
				used++
			}
		}
		one.stop()
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
		s := store.NewMemory(nil)
		one := newCounter(t, s, true, "one", perMinute, lease.Strict)
		two := newCounter(t, s, true, "two", perMinute, lease.Strict)
		elapse(store.Settling + 2*time.Second)
		used := 0
		for range 40 {
			if ok, _ := one.take("site.test", time.Second); ok {
				used++
			}
			if ok, _ := two.take("site.test", time.Second); ok {
				used++
			}
		}
		s.Lose()
		elapse(store.Settling + 2*time.Second)
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
		one.stop()
		two.stop()
	})
}

// A bell that rings at any moment of an exchange is heard: whoever waits for the store
// goes when that has answered.
func TestABellDuringAnExchangeIsHeard(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			s := &trouble{Store: store.NewMemory(nil)}
			one := newCounter(t, s, true, "one", limit.Spec{As: limit.Fixed, Amount: 1000, Window: time.Hour}, lease.Strict)
			elapse(store.Settling + time.Second)
			var all sync.WaitGroup
			for i := range 40 {
				chance := rand.New(rand.NewPCG(seed, uint64(i)))
				all.Go(func() {
					for range 10 {
						elapse(time.Duration(chance.Int64N(int64(30 * time.Millisecond))))
						s.slow.Store(chance.Int64N(int64(20 * time.Millisecond)))
						site := fmt.Sprintf("site%d.test", chance.IntN(5))
						switch chance.IntN(8) {
						case 0:
							one.desk.note(site, store.Note{Key: fmt.Sprint(chance.Int()), Until: time.Now().Add(time.Second)})
						case 1:
							one.desk.sweep()
						default:
							if ok, waited := one.take(site, 5*time.Second); !ok || waited > time.Second {
								t.Errorf("%v after %v", ok, waited)
							}
						}
					}
				})
			}
			all.Wait()
			one.stop()
		})
	}
}

// An account whose site the gate forgets while the store is asked is used again by the
// next site of that name.
func TestASiteThatIsForgottenInAnExchangeBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Strict)
		elapse(store.Settling + time.Second)
		c.desk.mu.Lock()
		a := &account{site: "site.test", place: -1, busy: true}
		a.Account = lease.NewAccount(a.site, lease.Options{Instance: "one", Seq: func() uint64 { return c.desk.seq.Add(1) }, Bell: func() { c.desk.schedule(a, a.Due()) }})
		c.desk.accounts[a.site] = a
		c.desk.mu.Unlock()
		c.desk.schedule(a, time.Now()) // the new site rings between the two locks
		c.desk.under(a, func(time.Time) bool { t.Error("there is no such site"); return false })
		c.desk.mu.Lock()
		if a.busy || a.place < 0 && c.desk.accounts[a.site] != nil {
			t.Errorf("%+v", a)
		}
		c.desk.mu.Unlock()
		if ok, _ := c.take("site.test", time.Second); !ok {
			t.Error("it does not begin anew")
		}
		c.stop()
	})
}

// The log and the status say once that a store is away, and once that it is back.
func TestAStoreThatIsAwayIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, true, "one", perMinute, lease.Share)
		text := c.desk.log.Out.(*syncBuffer)
		s.fails.Store(true)
		elapse(30 * time.Second)
		if is := c.desk.status(); is.Since.IsZero() || is.Err != errTrouble.Error() {
			t.Errorf("%+v", is)
		}
		s.fails.Store(false)
		elapse(30 * time.Second)
		if is := c.desk.status(); !is.Since.IsZero() || is.Failures == 0 || is.Members != 1 {
			t.Errorf("%+v", is)
		}
		c.stop()
		if away, back := strings.Count(text.String(), "does not answer"), strings.Count(text.String(), "answers again"); away != 1 || back != 1 {
			t.Errorf("%d and %d: %s", away, back, text)
		}
	})
}

// What is to be said at the end is said again when the store was away a moment ago.
func TestTheLastWordIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trouble{Store: store.NewMemory(nil)}
		c := newCounter(t, s, false, "one", perMinute, lease.Share)
		c.take("site.test", time.Second)
		elapse(2 * time.Second)
		s.fails.Store(true)
		for range 10 {
			c.take("site.test", 3*time.Second)
		}
		elapse(10 * time.Second)
		synctest.Wait()
		before := s.asked.Load()
		s.fails.Store(false)
		c.stop()
		if s.asked.Load() == before {
			t.Error("it ends without a word")
		}
	})
}
