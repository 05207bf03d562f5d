package queue

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// asker is a meter that does not know what it has until a store has answered: nothing
// goes before that. It looks again after a millisecond, as the meters of leases do.
type asker struct {
	vault
	known bool
	reset time.Time // after the answer, if it is used up
}

func (a *asker) When(now time.Time, n int64) (time.Time, bool) {
	switch {
	case !a.known:
		return now.Add(time.Millisecond), true
	case now.Before(a.reset):
		return a.reset, true
	}
	return a.Meter.When(now, n)
}

func (a *asker) Asks(time.Time, int64) bool { return !a.known }

// asking is a request for what has not been answered yet, under a limit whose meter is a.
func asking(a *asker, change func(*Request)) Request {
	r := asks("a", "x", tenPerMinute())
	r.Limits[0][0].Source = externalFunc(func(_ string, _ Scope, _ limit.Spec, m limit.Meter) limit.Meter {
		a.Meter = m
		return a
	})
	change(&r)
	return r
}

// impatient are the ways in which a request does not wait for long.
var impatient = map[string]func(*Request){
	"refuse":        func(r *Request) { r.Limits[0][0].Refuse = true },
	"a short wait":  func(r *Request) { r.Wait = time.Millisecond },
	"now or never":  func(r *Request) { r.Now, r.Wait = true, 250*time.Millisecond },
	"both":          func(r *Request) { r.Limits[0][0].Refuse, r.Wait = true, time.Millisecond },
	"several limit": func(r *Request) { r.Wait = time.Millisecond; r.Limits = append(r.Limits, r.Limits[0]) },
}

func TestWhatIsNotKnownYetIsNotUsedUp(t *testing.T) {
	for name, change := range impatient {
		for _, answer := range []string{"there", "used up"} {
			t.Run(name+", "+answer, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g, a, start := NewGate(Bounds{Wait: time.Hour}, nil), &asker{}, time.Now()
					time.AfterFunc(700*time.Millisecond, func() {
						g.UpdateExternal("a", func(now time.Time) {
							if a.known = true; answer == "used up" {
								a.reset = now.Add(20 * time.Second)
							}
						})
					})
					p, err := g.Wait(t.Context(), asking(a, change))
					if took := time.Since(start); took != 700*time.Millisecond {
						t.Errorf("it took %v", took)
					}
					if answer == "there" {
						if err != nil {
							t.Fatal(err)
						}
						p.Finish(Result{})
						return
					}
					var refusal *Refusal
					if !errors.As(err, &refusal) || !refusal.RetryAt.Equal(a.reset) {
						t.Errorf("%v, %+v", err, refusal)
					}
				})
			})
		}
	}
}

// A store that does not answer is not waited for long by who does not want to wait, and
// nobody is told a time that is none.
func TestAnAnswerThatDoesNotComeIsWaitedForALittle(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, 250 * time.Millisecond, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g, start := NewGate(Bounds{Wait: time.Hour}, nil), time.Now()
			_, err := g.Wait(t.Context(), asking(&asker{}, func(r *Request) { r.Wait = wait }))
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != TooLong || !refusal.RetryAt.IsZero() || time.Since(start) != max(wait, leastAnswer) {
				t.Errorf("%v after %v: %+v", err, time.Since(start), refusal)
			}
			nobodyWaits(t, g)
		})
	}
}

// What is not known yet is no reason to refuse all that waits when abide stops, and is
// shown as what it is.
func TestAnAnswerThatIsToComeKeepsNobodyFromBeingDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, a := NewGate(Bounds{Wait: time.Hour}, nil), &asker{}
		done := make(chan error, 3)
		r := asking(a, func(*Request) {})
		for range 3 {
			go func() {
				p, err := g.Wait(t.Context(), r)
				if err == nil {
					p.Finish(Result{})
				}
				done <- err
			}()
		}
		synctest.Wait()
		for _, h := range g.HeldRequests("a") {
			if !h.Until.IsZero() || !h.ETA.IsZero() || !h.Asking {
				t.Errorf("it is held until %v, and goes at %v", h.Until, h.ETA)
			}
		}
		for _, h := range g.Waiting() {
			if !h.Asking {
				t.Errorf("%+v", h)
			}
		}
		if e := g.Explain(r); !e.Expected.IsZero() || !e.Limits[0].Next.IsZero() || !e.Limits[0].Asks || !e.Asks {
			t.Errorf("%+v", e)
		}
		if refused, waiting := g.StartDrain(time.Now().Add(100 * time.Microsecond)); refused != 0 || waiting != 3 {
			t.Errorf("%d are refused, %d wait", refused, waiting)
		}
		g.UpdateExternal("a", func(time.Time) { a.known = true })
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// Many that do not wait for long cost no more than they do elsewhere.
func TestManyWaitForOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, a := NewGate(Bounds{Wait: time.Hour}, nil), &asker{}
		done := make(chan error, 100)
		for i := range cap(done) {
			go func() {
				_, err := g.Wait(t.Context(), asking(a, func(r *Request) { r.Wait = time.Duration(i+1) * time.Millisecond }))
				done <- err
			}()
		}
		time.Sleep(leastAnswer / 2)
		g.UpdateExternal("a", func(time.Time) { a.known = true })
		synctest.Wait()
		went := map[string]int{}
		for range cap(done) {
			went[fmt.Sprint(<-done)]++
		}
		if went["<nil>"] != 10 || len(went) != 2 {
			t.Errorf("%v", went)
		}
	})
}
