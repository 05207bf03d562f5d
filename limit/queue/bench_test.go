package queue

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit"
)

// full is a site where n holds of many clients wait.
func full(b *testing.B, n, clients int, byClient bool) (*world, *resource) {
	w := newWorld(b, 30*time.Second)
	site := w.slot("site", limit.Spec{As: limit.Paced, Amount: 1000, Window: time.Second})
	byName := map[string]*resource{}
	for i := range n {
		name := fmt.Sprint(i % clients)
		needs := one(site)
		if byClient {
			if byName[name] == nil {
				byName[name] = w.slot(name, limit.Spec{As: limit.Concurrency, Amount: 4})
			}
			needs = one(site, byName[name])
		}
		w.add("", hold{name: name, priority: i % 8, needs: needs})
	}
	w.names = map[*hold]string{}
	w.next()
	return w, site
}

// BenchmarkDecision is one hold that goes, is finished, and another that comes:
// three events and three decisions.
func BenchmarkDecision(b *testing.B) {
	for _, kind := range []struct {
		name    string
		clients int
		own     bool
	}{{"one client", 1, false}, {"100 clients", 100, false}, {"1000 lanes", 1000, true}} {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d holds", kind.name, n), func(b *testing.B) {
				w, _ := full(b, n, kind.clients, kind.own)
				b.ReportAllocs()
				for b.Loop() {
					w.now = w.now.Add(time.Millisecond)
					turn := w.s.next(w.now)
					if len(turn.granted) != 1 {
						b.Fatalf("%d go", len(turn.granted))
					}
					h := turn.granted[0]
					_ = w.s.finish(w.now, h, Result{})
					w.s.next(w.now)
					_ = w.s.tryAdd(w.now, h)
					w.s.next(w.now)
				}
			})
		}
	}
}

// clients are the names of some.
var clientNames = func() []string {
	list := make([]string, 100)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	return list
}()

// everyKind is limits of every kind of which none binds, named as long as those
// that an operator writes.
var everyKind = func() []Limit {
	list := []Limit{
		{Spec: &limit.Spec{As: limit.Rolling, Amount: 1 << 40, Window: time.Hour}},
		{Spec: &limit.Spec{As: limit.Fixed, Amount: 1 << 40, Window: time.Minute}},
		{Spec: &limit.Spec{As: limit.FirstUse, Amount: 1 << 40, Window: 30 * time.Minute}},
		{Spec: &limit.Spec{As: limit.Bucket, Amount: 1 << 40, Window: time.Second, Burst: 1 << 40}},
		{Spec: &limit.Spec{As: limit.Paced, Amount: 1 << 40, Window: time.Second}},
		{Spec: &limit.Spec{As: limit.Quota, Amount: 1 << 40, Period: limit.Month}},
		{Spec: &limit.Spec{As: limit.Concurrency, Amount: 1 << 40}},
		{Spec: &limit.Spec{As: limit.Adaptive, Min: 1e8, Max: 1e9}},
		{Spec: &limit.Spec{As: limit.Rolling, Amount: 1 << 40, Window: time.Hour}, By: ByClient},
		{Spec: &limit.Spec{As: limit.Rolling, Amount: 1 << 40, Window: time.Hour}, By: ByRoute},
		{Spec: &limit.Spec{As: limit.Rolling, Amount: 1 << 40, Window: time.Hour}},
	}
	for i := range list {
		l := &list[i]
		l.Name, l.N = fmt.Sprintf("%s requests per 1h0m0s  by %d for GET /some-route/*/of %d", l.Spec.As, l.By, i), 1
	}
	return list
}()

// BenchmarkMemory tells what a hold and a site weigh.
func BenchmarkMemory(b *testing.B) {
	weigh := func(b *testing.B, n int, build func() any) {
		var before, after runtime.MemStats
		for b.Loop() {
			runtime.GC()
			runtime.ReadMemStats(&before)
			kept := build()
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/each")
			runtime.KeepAlive(kept)
		}
	}
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("hold/%d", n), func(b *testing.B) {
			weigh(b, n, func() any {
				w, _ := full(b, n, 100, false)
				return w
			})
		})
		for name, limits := range map[string][][]Limit{"three": {everyKind[:3]}, "eleven": {everyKind}} {
			b.Run(fmt.Sprintf("permit of %s limits/%d", name, n), func(b *testing.B) {
				weigh(b, n, func() any {
					s := newSite(NewGate(Bounds{}, nil), "site")
					needs := Compile(limits)
					s.registry.whole.beginCooldown(noon.Add(time.Hour), "Retry-After", 0)
					for i := range n {
						r := Request{Site: "site", Client: clientNames[i%len(clientNames)], Method: "GET", Path: "/", Limits: limits, Needs: needs}
						p := &Permit{request: r, ctx: context.Background(), waker: signal.New(), site: s}
						p.hold = hold{name: r.Client, owner: p}
						p.hold.needs, p.hold.choices, _ = s.registry.plan(noon, &p.request)
						if err := s.sched.tryAdd(noon, &p.hold); err != nil {
							b.Fatal(err)
						}
						s.sched.next(noon)
					}
					return s
				})
			})
		}
	}
	b.Run("site", func(b *testing.B) {
		const n = 100_000
		weigh(b, n, func() any {
			all := make([]*site, n)
			g := NewGate(Bounds{}, nil)
			for i := range all {
				s := newSite(g, "site")
				p := &Permit{request: asks("site", "x", &perMinute), ctx: context.Background(), waker: signal.New(), site: s}
				p.hold = hold{name: "x", owner: p}
				p.hold.needs, p.hold.choices, _ = s.registry.plan(noon, &p.request)
				s.sched.tryAtOnce(noon, &p.hold)
				p = &Permit{request: asks("site", "x", &perMinute), ctx: context.Background(), waker: signal.New(), site: s}
				p.hold = hold{name: "x", owner: p}
				p.hold.needs, p.hold.choices, _ = s.registry.plan(noon, &p.request)
				_ = s.sched.tryAdd(noon, &p.hold)
				s.sched.next(noon)
				all[i] = s
			}
			return all
		})
	})
}

// BenchmarkGate is the usual request: there is room, nobody waits.
func BenchmarkGate(b *testing.B) {
	for name, limits := range map[string][][]Limit{"no limits": nil, "three limits": {everyKind[1:4]}, "eleven limits": {everyKind}} {
		b.Run(name, func(b *testing.B) {
			g := NewGate(Bounds{Max: 10000, PerSite: 2000, Wait: 30 * time.Minute, Aging: 30 * time.Second}, nil)
			r := Request{Site: "example.com", Client: "x", Priority: 3, Method: "GET", Path: "/some-route", Limits: limits, Needs: Compile(limits)}
			b.ReportAllocs()
			for b.Loop() {
				p, err := g.Wait(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				p.Finish(Result{})
			}
		})
	}
}
