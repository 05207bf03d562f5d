package queue

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
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
	limits   [2][][]Limit // of two routes
	needs    [2]*Needs
	going    [2][]*Permit
	waiting  [2][]*Permit
	turn     uint64
}

// come is a request. It tells which alternative it took, -1 for none.
func (w *twin) come(queues bool) int {
	route, client := rapid.IntRange(0, 1).Draw(w.t, "route"), rapid.SampledFrom([]string{"x", "y"}).Draw(w.t, "client")
	var chosen [2]int
	for n, s := range w.sites {
		r := Request{Site: "site", Client: client, Limits: w.limits[route], Needs: w.needs[route], Order: alone{w.accounts}}
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
			if at := len(w.going[0]); n == 1 && (at < len(w.going[1]) || w.going[0][len(w.going[1])-1].Choice() != p.Choice()) {
				w.t.Fatalf("what waited goes with %d, which the list does not choose", p.Choice())
			}
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
			{As: limit.FirstUse, Amount: 1, Window: 70 * time.Second},
			{As: limit.Paced, Amount: 1, Window: 30 * time.Second},
		}).Draw(t, "own")
		amount := rapid.Int64Range(1, 2).Draw(t, "in flight")
		for i := range tokens + rapid.IntRange(0, 1).Draw(t, "anonymous") {
			key := fmt.Sprint(i - i%rapid.IntRange(1, 2).Draw(t, "together")) // some are of one account
			list := []Limit{
				{Name: "all", Spec: &limit.Spec{As: limit.Bucket, Amount: 100, Window: time.Second, Burst: 30}, N: 1},
				{Name: "in flight", Key: key, Spec: &limit.Spec{As: limit.Concurrency, Amount: amount}, N: 1},
				{Name: "token", Key: fmt.Sprint(i)},
				{Name: "own", Key: key, Spec: spec, N: 1},
			}
			w.limits[0] = append(w.limits[0], list)
			w.limits[1] = append(w.limits[1], list[:rapid.IntRange(3, 4).Draw(t, "limits")])
		}
		w.needs = [2]*Needs{Compile(w.limits[0]), Compile(w.limits[1])}
		for n := range w.sites {
			w.sites[n] = newSite(NewGate(Bounds{}, nil), "site")
		}
		for range rapid.IntRange(1, 150).Draw(t, "events") {
			token := rapid.IntRange(0, tokens-1).Draw(t, "token")
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0, 1:
				if i := w.come(false); i >= 0 && i < tokens {
					w.turn++
					w.accounts.all[i].used = w.turn
				}
			case 2, 3, 4:
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

// Ten requests wait while each of 10,000 tokens comes back once.
func TestAChoiceDoesNotLookAtAllTokensWhileRequestsWait(t *testing.T) {
	const tokens, held = 10_000, 10
	now, times := noon, 0
	a := &accounts{make([]account, tokens)}
	limits := make([][]Limit, tokens)
	for i := range limits {
		limits[i] = []Limit{
			{Name: "all", Spec: &limit.Spec{As: limit.Rolling, Amount: 1 << 40, Window: time.Hour}, N: 1},
			{Name: "own", Key: fmt.Sprint(i), N: 1, Source: makeFunc(func() limit.Meter {
				m, err := limit.New(limit.Spec{As: limit.FirstUse, Amount: 1, Window: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				return asked{m, &times}
			})},
			{Name: "token", Key: fmt.Sprint(i)},
		}
	}
	needs := Compile(limits)
	s := newSite(NewGate(Bounds{}, nil), "site")
	var turn uint64
	granted := func(h *hold) {
		turn++
		a.all[h.grant.choice].used = turn
		_ = s.sched.finish(now, h, Result{Outcome: limit.Success})
	}
	come := func() (went bool) {
		p := &Permit{request: Request{Site: "site", Limits: limits, Needs: needs, Order: a}, ctx: context.Background(), site: s}
		p.hold = hold{order: a, deadline: now.Add(time.Hour), owner: p}
		p.hold.needs, p.hold.choices, _ = s.registry.plan(now, &p.request)
		if s.sched.tryAtOnce(now, &p.hold) {
			granted(&p.hold)
			return true
		}
		if refusal := s.sched.clients.estimate(now, &p.hold); refusal != nil {
			t.Fatal(refusal)
		}
		s.sched.add(now, &p.hold)
		s.sched.next(now)
		return false
	}
	for range tokens {
		if !come() {
			t.Fatal("a request waits where tokens are left")
		}
		now = now.Add(time.Millisecond)
	}
	for range held {
		if come() {
			t.Fatal("more go than may")
		}
	}
	times = 0
	for n := range tokens {
		decided := s.sched.next(now)
		for len(decided.granted) == 0 {
			now = decided.again
			decided = s.sched.next(now)
		}
		if h := decided.granted[0]; len(decided.granted) != 1 || int(h.grant.choice) != n {
			t.Fatalf("%d go, the first with token %d, not %d", len(decided.granted), h.grant.choice, n)
		} else {
			granted(h)
		}
		if come() {
			t.Fatal("a request goes before those that wait")
		}
	}
	if times > 30*tokens {
		t.Errorf("%d requests have asked %d times", tokens, times)
	}
}

// Tokens whose meters are kept elsewhere hear what waits for them, whichever has more then goes, and neither a reload nor
// what is forgotten makes a request wait for ever.
func TestARequestWaitsForAnyOfManyTokensThatAreKeptElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens = 20
		all := vaults{}
		a := &accounts{make([]account, tokens)}
		r := Request{Site: "a", Client: "x", Priority: DefaultPriority, Order: a}
		for i := range tokens {
			r.Limits = append(r.Limits, []Limit{{Name: "own", Key: fmt.Sprint(i), Spec: tenPerMinute(), N: 1, Source: externalFunc(all.keep)}})
		}
		r.Needs = Compile(r.Limits)
		g := NewGate(Bounds{}, plans(func(r Request) [][]Limit { return r.Limits }))
		went := make(chan *Permit, 10)
		come := func() {
			go func() { went <- allow(t, g, r) }()
			synctest.Wait()
		}
		come()
		come()
		for _, v := range all.list {
			if n := len(v.heard); n == 0 || v.heard[n-1] != 2 {
				t.Fatalf("a meter heard %v of 2 that wait", v.heard)
			}
		}
		give := func(token int) {
			g.UpdateExternal("a", func(time.Time) { all.list[token].credit++ })
			synctest.Wait()
			select {
			case p := <-went:
				if p.Choice() != token {
					t.Errorf("it goes with token %d, not %d", p.Choice(), token)
				}
				p.Finish(Result{Outcome: limit.Success})
			default:
				t.Errorf("nothing goes when token %d has one unit more", token)
			}
		}
		give(7)
		come()
		g.Cool("a", Scope{"own", "3"}, time.Now().Add(time.Second), "Retry-After")
		give(5)
		g.Reload(Bounds{}, plans(func(r Request) [][]Limit { return r.Limits }))
		give(3 + 1)
		come()
		s := g.lock("a")
		s.registry.forgetFound()
		s.mu.Unlock()
		come()
		give(19)
		give(0)
		nobodyWaits(t, g)
		for _, v := range all.list {
			if n := len(v.heard); v.heard[n-1] != 0 {
				t.Errorf("a meter heard %v when nothing waits any more", v.heard)
			}
		}
	})
}
