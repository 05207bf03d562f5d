package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// manyTokens are the limits of a request that many tokens could send: those of its
// site, which all share, the token's own, and its cooldown.
func manyTokens(tokens, each int, site *limit.Spec) [][]Limit {
	all := make([][]Limit, tokens)
	for i := range all {
		key := fmt.Sprint("token ", i)
		all[i] = append(all[i], Limit{Name: "site", Spec: site, N: 1})
		for j := range each - 2 {
			spec := &limit.Spec{As: limit.Rolling, Amount: 5, Window: 15 * time.Minute}
			all[i] = append(all[i], Limit{Name: fmt.Sprint("limit ", j), Key: key, Spec: spec, N: 1, Refuse: false})
		}
		all[i] = append(all[i], Limit{Name: "token", Key: key})
	}
	return all
}

// BenchmarkTokens is a request that comes, goes and is over, at a site where many tokens
// could send it: while all have room, and while nine of ten are used up.
func BenchmarkTokens(b *testing.B) {
	for _, tokens := range []int{10, 1000, 10_000} {
		for _, used := range []int{0, tokens * 9 / 10} {
			b.Run(fmt.Sprintf("%d/%d used up", tokens, used), func(b *testing.B) {
				ours := &limit.Spec{As: limit.FirstUse, Amount: 1, Window: 1000 * time.Hour}
				limits := make([][]Limit, tokens)
				for i := range limits {
					spec := ours
					if i >= used {
						spec = &limit.Spec{As: limit.Rolling, Amount: 1 << 40, Window: time.Hour}
					}
					key := fmt.Sprint(i)
					limits[i] = []Limit{{Name: "own", Key: key, Spec: spec, N: 1}, {Name: "token", Key: key}}
				}
				w := newCrowd(b, limits, true)
				a := &accounts{make([]account, tokens)}
				w.r.Order = a
				turn := uint64(0)
				come := func() {
					w.now = w.now.Add(time.Millisecond)
					w.come()
					turn++
					a.all[w.going[len(w.going)-1].grant.choice].used = turn
					w.finish()
				}
				for range used + 1 {
					come()
				}
				b.ReportAllocs()
				for b.Loop() {
					come()
				}
			})
		}
	}
}

// BenchmarkManyAlternatives is a request that comes, goes and is over, at a site
// where many tokens could send it: while there is room, and while holds wait for
// tokens that are used up.
func BenchmarkManyAlternatives(b *testing.B) {
	plenty := &limit.Spec{As: limit.Rolling, Amount: 1 << 40, Window: time.Hour}
	for _, kind := range []struct{ tokens, each int }{{12, 5}, {1000, 4}, {10_000, 4}} {
		for _, shared := range []bool{true, false} {
			if kind.tokens > 1000 && !shared {
				continue // each request looks at all of them
			}
			limits := manyTokens(kind.tokens, kind.each, plenty)
			b.Run(fmt.Sprintf("%d of %d/room/shared %v", kind.tokens, kind.each, shared), func(b *testing.B) {
				w := newCrowd(b, limits, shared)
				b.ReportAllocs()
				for b.Loop() {
					w.now = w.now.Add(15 * time.Minute / time.Duration(4*kind.tokens))
					w.come()
					w.finish()
				}
			})
			for _, holds := range []int{1, 10, 100} {
				b.Run(fmt.Sprintf("%d of %d/%d holds/shared %v", kind.tokens, kind.each, holds, shared), func(b *testing.B) {
					w := newCrowd(b, limits, shared)
					for range 75 * kind.tokens {
						w.now = w.now.Add(15 * time.Minute / time.Duration(5*kind.tokens))
						w.come()
					}
					for range holds {
						w.come()
					}
					b.ReportAllocs()
					for b.Loop() {
						w.come()
						for went := len(w.going); len(w.going) == went; w.step() {
							w.now = w.again
						}
						w.finish()
					}
				})
			}
		}
	}
}

// crowd is a site without a lock and a clock.
type crowd struct {
	b          *testing.B
	s          *site
	now, again time.Time
	r          Request
	going      []*hold
}

func newCrowd(b *testing.B, limits [][]Limit, shared bool) *crowd {
	g := NewGate(Bounds{Wait: 30 * time.Minute}, nil)
	r := Request{Site: "site", Client: "x", Method: "GET", Path: "/", Limits: limits, Order: &turns{used: make([]uint64, len(limits))}}
	if shared {
		r.Needs = Compile(limits)
	}
	return &crowd{b: b, s: newSite(g, "site"), now: noon, r: r}
}

func (w *crowd) come() {
	p := &Permit{request: w.r, ctx: context.Background(), asked: w.now, site: w.s}
	p.hold = hold{name: w.r.Client, order: w.r.Order, deadline: w.now.Add(1000 * time.Hour), owner: p}
	p.hold.needs, p.hold.choices, _ = w.s.registry.plan(w.now, &p.request)
	if w.s.sched.tryAtOnce(w.now, &p.hold) {
		w.going = append(w.going, &p.hold)
		return
	}
	if err := w.s.sched.clients.estimate(w.now, &p.hold); err != nil {
		w.b.Fatal(err)
	}
	w.s.sched.add(w.now, &p.hold)
	w.step()
}

func (w *crowd) step() {
	turn := w.s.sched.next(w.now)
	w.going = append(w.going, turn.granted...)
	if len(turn.refused) > 0 {
		w.b.Fatal(turn.refused[0].refusal)
	}
	w.again = turn.again
}

func (w *crowd) finish() {
	_ = w.s.sched.finish(w.now, w.going[0], Result{})
	w.going = w.going[1:]
	w.step()
}
