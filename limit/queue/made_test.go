package queue

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// budget is a meter as a ledger is one: a server says how much is left and until
// when, nobody knows what follows while nothing was said, and alone lets one go at a
// time. It keeps books of what the queue tells it, and panics if they do not match.
type budget struct {
	whole  int64
	left   int64
	reset  time.Time // then the whole is there again
	window time.Duration
	alone  bool
	flying int64
	taken  map[time.Time]int64 // :: when → units that are not done
}

func newBudget(whole int64, window time.Duration) *budget {
	return &budget{whole: whole, left: whole, window: window, taken: map[time.Time]int64{}}
}

func (b *budget) there(now time.Time) int64 {
	if !b.reset.IsZero() && !now.Before(b.reset) {
		return b.whole
	}
	return b.left
}

func (b *budget) When(now time.Time, n int64) (time.Time, bool) {
	switch {
	case n > b.whole:
		return time.Time{}, false
	case b.alone && b.flying > 0:
		return limit.Unknown, true
	case n <= b.there(now):
		return now, true
	case b.reset.IsZero():
		return limit.Unknown, true
	}
	return b.reset, true
}

func (b *budget) Take(now time.Time, n int64) {
	if b.left = b.there(now); !now.Before(b.reset) {
		b.reset = now.Add(b.window)
	}
	b.left -= n
	b.flying += n
	b.taken[now] += n
}

func (b *budget) ends(taken time.Time, n int64) {
	if b.taken[taken] < n {
		panic(fmt.Sprintf("%d of what was taken at %v end, there are %d", n, taken, b.taken[taken]))
	}
	if b.taken[taken] -= n; b.taken[taken] == 0 {
		delete(b.taken, taken)
	}
	b.flying -= n
}

func (b *budget) Give(_, taken time.Time, n int64) {
	b.ends(taken, n)
	b.left = min(b.left+n, b.whole)
}

func (b *budget) Postpone(now, taken time.Time, n int64) {
	b.ends(taken, n)
	b.flying += n
	b.taken[now] += n
}

func (b *budget) Done(_, taken time.Time, n int64, _ limit.Outcome) { b.ends(taken, n) }
func (b *budget) Left(now time.Time) int64                          { return max(b.there(now), 0) }
func (b *budget) Idle(now time.Time) bool                           { return b.flying == 0 && !now.Before(b.reset) }
func (b *budget) Settle(time.Time, time.Time, int64, int64)         {}
func (b *budget) State() []byte                                     { return nil }
func (b *budget) Restore(time.Time, []byte) error                   { return nil }

// says is what a server tells of a budget.
func says(left int64, in time.Duration) func(time.Time, limit.Meter) {
	return func(now time.Time, m limit.Meter) {
		b := m.(*budget)
		b.left, b.reset, b.alone = left, now.Add(in), false
	}
}

// made is a request under one limit with a made meter.
func made(site string, b *budget) Request {
	return Request{Site: site, Client: "x", Limits: [][]Limit{{
		{Name: "ledger", Title: "75 per 15m", Key: "key", Source: makeFunc(func() limit.Meter { return b }), N: 1},
	}}}
}

var ledgerScope = Scope{"ledger", "key"}

func TestALimitKeepsTheMeterThatWasMadeFirst(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(Bounds{}, nil)
			times := 0
			var first *budget
			for i := range 30 {
				r := made("a", nil)
				if shared {
					r.Needs = Compile(r.Limits)
				}
				r.Limits[0][0].Title = fmt.Sprint("title ", i)
				r.Limits[0][0].Source = makeFunc(func() limit.Meter { times++; first = newBudget(100, time.Hour); return first })
				defer allow(t, g, r).Finish(Result{})
			}
			if times != 1 || first.flying != 30 {
				t.Errorf("shared %v: %d meters were made, %d are in flight in the last", shared, times, first.flying)
			}
			g.VisitResources(func(_ time.Time, at ResourceInfo) {
				if at.At == ledgerScope && at.Title != "title 29" {
					t.Errorf("it is known as %q", at.Title)
				}
			})
		})
	}
}

// What is told changes at once who may go.
func TestWhatAMeterIsToldLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := NewGate(Bounds{}, nil), newBudget(1, 15*time.Minute)
		p := allow(t, g, made("a", b))
		start := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			allow(t, g, made("a", b)).Finish(Result{})
		}()
		time.Sleep(time.Second)
		heard := false
		p.Update([]Update{
			{Limit: Limit{Name: "cools"}, Apply: func(time.Time, limit.Meter) { t.Error("what has no meter hears it") }},
			{Limit: made("", nil).Limits[0][0], Apply: func(now time.Time, m limit.Meter) { heard = true; says(1, time.Hour)(now, m) }},
		})
		if <-done; !heard {
			t.Error("nobody hears it")
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("it went after %v", took)
		}
		p.Finish(Result{})
		nobodyWaits(t, g)
	})
}

// An answer may name a limit of which nobody knew.
func TestWhatIsTaughtIsThereForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := NewGate(Bounds{}, nil), newBudget(5, time.Hour)
		p := allow(t, g, Request{Site: "a"})
		p.Update([]Update{{made("", b).Limits[0][0], says(0, time.Minute)}})
		p.Finish(Result{})
		if p := allow(t, g, made("a", newBudget(5, time.Hour))); p.Waited() != time.Minute {
			t.Errorf("the next one waited %v", p.Waited())
		}
	})
}

// The time of the try that is answered is the one that the meter knows.
func TestAMeterKnowsARequestByWhenItWasGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := NewGate(Bounds{}, nil), newBudget(5, time.Hour)
		p := allow(t, g, made("a", b))
		know := func() {
			t.Helper()
			if at := p.Granted(); !at.Equal(time.Now()) || b.taken[at] != 1 {
				t.Errorf("it was granted at %v, the meter knows %v", at, b.taken)
			}
		}
		know()
		time.Sleep(time.Second)
		p.Sent()
		know()
		time.Sleep(time.Second)
		if err := p.Again(t.Context(), Retry{}); err != nil {
			t.Fatal(err)
		}
		know()
		p.Finish(Result{})
	})
}

// A wait is foreseen as far as the meter tells, however many are before.
func TestAWaitForAMadeMeterIsForeseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, b := NewGate(Bounds{Wait: time.Hour}, nil), newBudget(1, 15*time.Minute)
		start := time.Now()
		allow(t, g, made("a", b)).Finish(Result{})
		var all sync.WaitGroup
		for range 3 {
			r := made("a", b)
			r.Wait = time.Minute
			if refusal := deny(t, g, r, TooLong); refusal.RetryAt.Sub(start) != 15*time.Minute || !time.Now().Equal(start) {
				t.Errorf("it is refused after %v, until %v", time.Since(start), refusal.RetryAt)
			}
			all.Go(func() { allow(t, g, made("a", b)).Finish(Result{}) })
			synctest.Wait()
		}
		all.Wait()
	})
}

// learner is a budget that lets another go after a time without an answer.
type learner struct {
	*budget
	patience time.Time
	asked    int
}

func (l *learner) Ahead(time.Time) limit.Meter { return newBudget(l.whole, l.window) }

func (l *learner) Unknown(now time.Time, n int64) bool {
	at, ok := l.When(now, n)
	return ok && at.After(now)
}

func (l *learner) Patience(now time.Time) time.Time {
	if l.asked++; l.asked > 1000 {
		panic("it is asked without an end")
	}
	if l.patience.Before(now) {
		return now
	}
	return l.patience
}

// One limit waits for its first answer and the other no longer does. A request that needs both
// keeps its place at both, and the second, which has enough, does not wake it at once again and again.
func TestPatienceThatIsOverWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		route, all := &learner{budget: newBudget(5, time.Hour)}, &learner{budget: newBudget(5, time.Hour)}
		route.alone, route.patience = true, time.Now().Add(time.Minute)
		r := made("a", nil)
		for name, l := range map[string]*learner{"route": route, "all": all} {
			r.Limits[0] = append(r.Limits[0], Limit{Name: name, Source: makeFunc(func() limit.Meter { return l }), N: 1})
		}
		r.Limits[0] = r.Limits[0][1:]
		first := allow(t, g, r)
		time.AfterFunc(10*time.Second, func() { first.Finish(Result{Outcome: limit.Success}) })
		second := allow(t, g, r)
		if second.Waited() != 10*time.Second {
			t.Errorf("it waited for %v", second.Waited())
		}
		second.Finish(Result{Outcome: limit.Success})
		nobodyWaits(t, g)
	})
}
