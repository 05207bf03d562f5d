package queue

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// pool is a request with some tokens for which nobody waits, and one limit of all.
func pool(site *limit.Spec, keys ...string) Request {
	r := Request{Site: "a"}
	for _, key := range keys {
		r.Limits = append(r.Limits, []Limit{
			{Name: "site", Spec: site, N: 1},
			{Name: "token", Title: "token", Key: key, Refuse: true},
		})
	}
	return r
}

var wide = limit.Spec{As: limit.Rolling, Amount: 1000, Window: time.Second}

func wantExhausted(t *testing.T, err error, want string, at time.Time) {
	t.Helper()
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != Exhausted || refusal.Limit != want || !refusal.RetryAt.Equal(at) {
		t.Errorf("it is answered with %v (%+v), want %s until %v", err, refusal, want, at)
	}
}

func TestNobodyWaitsForTokensThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := NewGate(Bounds{Wait: time.Minute}, nil), time.Now()
		r := pool(&wide, "1", "2")
		p := allow(t, g, r)
		p.Cool(Scope{"token", "1"}, start.Add(2*time.Hour), "Retry-After")
		if p := allow(t, g, r); p.Choice() != 1 || p.Waited() != 0 {
			t.Errorf("the other token waited %v", p.Waited())
		}
		// What comes back, and then what comes.
		err := p.Again(t.Context(), Retry{Cool: Scope{"token", "2"}, Until: start.Add(time.Hour), Why: "Retry-After"})
		wantExhausted(t, err, "token", start.Add(time.Hour))
		p.Finish(Result{})
		_, err = g.Wait(t.Context(), r)
		wantExhausted(t, err, "token", start.Add(time.Hour))
		if !time.Now().Equal(start) {
			t.Errorf("it took %v to say so", time.Since(start))
		}
		nobodyWaits(t, g)
		s := g.lock("a")
		defer s.mu.Unlock()
		if held, granted := s.sched.held, s.sched.granted; held != 0 || granted != 1 {
			t.Errorf("%d wait and %d are sent", held, granted)
		}
	})
}

// It is not the token's fault that the site takes its time.
func TestWhoWaitsForSomethingElseIsHeldAsEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := NewGate(Bounds{}, nil), time.Now()
		r := pool(&perMinute, "1")
		p := allow(t, g, r)
		p.Cool(Scope{"token", "1"}, start.Add(10*time.Second), "Retry-After")
		p.Finish(Result{})
		p = allow(t, g, r)
		if p.Waited() != time.Minute {
			t.Errorf("it waited %v", p.Waited())
		}
		// Its own pause is longer than the token's.
		err := p.Again(t.Context(), Retry{
			NotBefore: start.Add(3 * time.Minute),
			Cool:      Scope{"token", "1"}, Until: start.Add(150 * time.Second),
		})
		if err != nil || time.Since(start) != 3*time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		p.Finish(Result{})
	})
}

// Who waits for the site is refused as soon as the token is used up.
func TestATokenThatIsUsedUpWhileSomebodyWaitsRefusesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := NewGate(Bounds{}, nil), time.Now()
		r := pool(&perMinute, "1")
		p := allow(t, g, r)
		answers := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := g.Wait(t.Context(), r)
				answers <- err
			}()
		}
		synctest.Wait()
		p.Cool(Scope{"token", "1"}, start.Add(time.Hour), "Retry-After")
		for range 3 {
			wantExhausted(t, <-answers, "token", start.Add(time.Hour))
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// An answer that is still to come may say that there is more.
func TestWhoWaitsForAnAnswerIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := NewGate(Bounds{}, nil), newBudget(10, time.Hour)
		b.alone = true
		r := made("a", b)
		r.Limits[0][0].Refuse = true
		p := allow(t, g, r)
		answers := make(chan error, 3)
		for range 3 {
			go func() {
				p, err := g.Wait(t.Context(), r)
				if err == nil {
					defer p.Finish(Result{})
				}
				answers <- err
			}()
		}
		time.Sleep(time.Second)
		at := time.Now().Add(time.Minute)
		p.Update([]Update{{Limit: r.Limits[0][0], Apply: says(1, time.Minute)}})
		went := 0
		for range 3 {
			if err := <-answers; err == nil {
				went++
			} else {
				wantExhausted(t, err, "75 per 15m", at)
			}
		}
		if went != 1 {
			t.Errorf("%d go, one was left", went)
		}
		p.Finish(Result{})
	})
}

// Where nothing is in flight, no answer will come.
func TestWhatNobodyKnowsWhenIsExhaustedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := NewGate(Bounds{}, nil), newBudget(1, time.Hour)
		b.left = 0
		r := made("a", b)
		r.Limits[0][0].Refuse = true
		_, err := g.Wait(t.Context(), r)
		wantExhausted(t, err, "75 per 15m", time.Time{})
	})
}

// A pause of its own is no reason to wait for what is known to be used up.
func TestWhoRestsIsRefusedAtOnceToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := NewGate(Bounds{}, nil), time.Now()
		p := allow(t, g, pool(&wide, "1"))
		err := p.Again(t.Context(), Retry{
			NotBefore: start.Add(time.Minute),
			Cool:      Scope{"token", "1"}, Until: start.Add(time.Hour),
		})
		wantExhausted(t, err, "token", start.Add(time.Hour))
		if !time.Now().Equal(start) {
			t.Errorf("it took %v to say so", time.Since(start))
		}
		nobodyWaits(t, g)
	})
}

// Those who wait and those who do not may need the same.
func TestWhoDoesNotWaitIsNotKeptByWhoDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := NewGate(Bounds{}, nil), time.Now()
		patient, r := pool(&perMinute, "1"), pool(&perMinute, "1")
		patient.Limits[0][1].Refuse = false
		p := allow(t, g, patient)
		var all sync.WaitGroup
		all.Go(func() {
			allow(t, g, patient).Finish(Result{})
			if took := time.Since(start); took != time.Hour {
				t.Errorf("the patient one went after %v", took)
			}
		})
		synctest.Wait()
		all.Go(func() {
			_, err := g.Wait(t.Context(), r)
			wantExhausted(t, err, "token", start.Add(time.Hour))
			if took := time.Since(start); took > time.Minute {
				t.Errorf("the other one was refused after %v", took)
			}
		})
		synctest.Wait()
		p.Cool(Scope{"token", "1"}, start.Add(time.Hour), "Retry-After")
		p.Finish(Result{})
		_, err := g.Wait(t.Context(), r)
		wantExhausted(t, err, "token", start.Add(time.Hour))
		all.Wait()
	})
}
