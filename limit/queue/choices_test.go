package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit"
)

// account is what is known of a token in these tests.
type account struct {
	throttled, used uint64
	rests           time.Time
}

// accounts choose as a pool of tokens does; what is beyond them is a request without any.
type accounts struct{ all []account }

func (a *accounts) Rank(i int) Rank {
	if i >= len(a.all) {
		return Rank{3 << 62}
	}
	return Rank{0, a.all[i].throttled, a.all[i].used}
}

func (a *accounts) Rests(i int) time.Time {
	if i >= len(a.all) {
		return time.Time{}
	}
	return a.all[i].rests
}

func (a *accounts) Chosen(int)  {}
func (a *accounts) Common() any { return a }

// alone is the same order for one request: all alternatives that are ready are looked at.
type alone struct{ *accounts }

func (alone) Common() any { return nil }

// twin is the same site twice: one that keeps the alternatives in order, and one that
// looks at all.
type twin struct {
	t        *rapid.T
	now      time.Time
	accounts *accounts
	sites    [2]*site
	limits   [][]Limit
	needs    *Needs
	going    [2][]*Permit
	waiting  [2][]*Permit
	turn     uint64
}

// come is a request. It tells which alternative it took, -1 for none.
func (w *twin) come(queues bool) int {
	var chosen [2]int
	for n, s := range w.sites {
		r := Request{Site: "site", Client: "x", Limits: w.limits, Needs: w.needs, Order: alone{w.accounts}}
		if n == 0 {
			r.Order = w.accounts
		}
		p := &Permit{request: r, ctx: context.Background(), asked: w.now, waker: signal.New(), site: s}
		p.hold = hold{name: r.Client, order: r.Order, owner: p}
		var err error
		if p.hold.needs, p.hold.choices, err = s.registry.plan(w.now, &p.request); err != nil {
			w.t.Fatal(err)
		}
		switch {
		case s.sched.tryAtOnce(w.now, &p.hold):
			chosen[n] = p.Choice()
			w.going[n] = append(w.going[n], p)
		default:
			chosen[n] = -1
			if queues && s.sched.clients.estimate(w.now, &p.hold) == nil {
				s.sched.add(w.now, &p.hold)
				w.waiting[n] = append(w.waiting[n], p)
				w.step(n)
			}
		}
	}
	if chosen[0] != chosen[1] {
		w.t.Fatalf("it goes with %d, and should with %d", chosen[0], chosen[1])
	}
	return chosen[0]
}

// step lets go what waits.
func (w *twin) step(n int) {
	w.sites[n].sched.next(w.now)
	still := w.waiting[n][:0]
	for _, p := range w.waiting[n] {
		switch p.hold.state {
		case stateGranted:
			w.going[n] = append(w.going[n], p)
		case stateWaiting:
			still = append(still, p)
		}
	}
	w.waiting[n] = still
}

func TestTheNextTokenIsTheOneThatLookingAtAllOfThemWouldFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &twin{t: t, now: noon}
		const tokens = 20
		w.accounts = &accounts{make([]account, tokens)}
		spec := rapid.SampledFrom([]*limit.Spec{
			{As: limit.Rolling, Amount: 2, Window: 10 * time.Second},
			{As: limit.Fixed, Amount: 3, Window: 5 * time.Second},
			{As: limit.Paced, Amount: 1, Window: 4 * time.Second},
			{As: limit.Bucket, Amount: 1, Window: 3 * time.Second, Burst: 2},
			{As: limit.FirstUse, Amount: 2, Window: 7 * time.Second},
		}).Draw(t, "own")
		for i := range tokens + rapid.IntRange(0, 1).Draw(t, "anonymous") {
			key := fmt.Sprint(i - i%rapid.IntRange(1, 2).Draw(t, "together")) // some are of one account
			w.limits = append(w.limits, []Limit{
				{Name: "all", Spec: &limit.Spec{As: limit.Bucket, Amount: 100, Window: time.Second, Burst: 30}, N: 1},
				{Name: "own", Key: key, Spec: spec, N: 1},
				{Name: "in flight", Key: key, Spec: &limit.Spec{As: limit.Concurrency, Amount: 2}, N: 1},
				{Name: "token", Key: fmt.Sprint(i)},
			})
		}
		w.needs = Compile(w.limits)
		for n := range w.sites {
			w.sites[n] = newSite(NewGate(Bounds{}, nil), "site")
		}
		for range rapid.IntRange(1, 150).Draw(t, "events") {
			token := rapid.IntRange(0, tokens-1).Draw(t, "token")
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0, 1, 2, 3:
				if i := w.come(false); i >= 0 && i < tokens {
					w.turn++
					w.accounts.all[i].used = w.turn
				}
			case 4:
				w.come(true)
			case 5: // one is over
				if n := len(w.going[0]); n > 0 {
					at := rapid.IntRange(0, n-1).Draw(t, "which")
					result := Result{Outcome: rapid.SampledFrom([]limit.Outcome{limit.Success, limit.Refused, limit.Failed}).Draw(t, "outcome")}
					result.Unsent = rapid.Bool().Draw(t, "unsent")
					for n, s := range w.sites {
						p := w.going[n][at]
						w.going[n] = append(w.going[n][:at:at], w.going[n][at+1:]...)
						if err := s.sched.finish(w.now, &p.hold, result); err != nil {
							t.Fatal(err)
						}
						w.step(n)
					}
				}
			case 6: // a token is refused
				until := w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "for")) * time.Second)
				w.turn++
				w.accounts.all[token].throttled = w.turn
				for n, s := range w.sites {
					if e := s.registry.byScope[Scope{"token", fmt.Sprint(token)}]; e != nil {
						e.resource.beginCooldown(until, "Retry-After", 0)
						w.step(n)
					}
				}
			case 7: // another site has refused it
				w.turn++
				w.accounts.all[token].throttled = w.turn
				if until := w.now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "rests")) * time.Millisecond); until.After(w.accounts.all[token].rests) {
					w.accounts.all[token].rests = until
				}
			case 8:
				for n, s := range w.sites {
					if e := s.registry.byScope[Scope{"token", fmt.Sprint(token)}]; e != nil {
						e.resource.endCooldown()
						w.step(n)
					}
				}
			case 9:
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "later")) * time.Millisecond)
				for n := range w.sites {
					w.step(n)
				}
			}
			if len(w.going[0]) != len(w.going[1]) || len(w.waiting[0]) != len(w.waiting[1]) {
				t.Fatalf("%d and %d go, %d and %d wait", len(w.going[0]), len(w.going[1]), len(w.waiting[0]), len(w.waiting[1]))
			}
		}
	})
}

// asked counts how often its meters are asked.
type asked struct {
	limit.Meter
	times *int
}

func (m asked) When(now time.Time, n int64) (time.Time, bool) {
	*m.times++
	return m.Meter.When(now, n)
}

func TestAChoiceDoesNotLookAtAllTokens(t *testing.T) {
	const tokens = 2000
	now, times := noon, 0
	a := &accounts{make([]account, tokens)}
	limits := make([][]Limit, tokens)
	for i := range limits {
		limits[i] = []Limit{{Name: "own", Key: fmt.Sprint(i), N: 1, Source: makeFunc(func() limit.Meter {
			m, err := limit.New(limit.Spec{As: limit.Rolling, Amount: 1, Window: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			return asked{m, &times}
		})}}
	}
	s := newSite(NewGate(Bounds{}, nil), "site")
	needs := Compile(limits)
	come := func() bool {
		p := &Permit{request: Request{Site: "site", Limits: limits, Needs: needs, Order: a}, ctx: context.Background(), site: s}
		p.hold = hold{order: a, owner: p}
		p.hold.needs, p.hold.choices, _ = s.registry.plan(now, &p.request)
		went := s.sched.tryAtOnce(now, &p.hold)
		if went {
			_ = s.sched.finish(now, &p.hold, Result{})
		}
		return went
	}
	for i := range tokens {
		if !come() {
			t.Fatalf("request %d does not go", i)
		}
		now = now.Add(time.Millisecond)
	}
	for range tokens { // nothing is left
		if come() {
			t.Fatal("more go than may")
		}
		now = now.Add(time.Millisecond)
	}
	if times > 10*tokens {
		t.Errorf("%d requests have asked %d times", 2*tokens, times)
	}
}
