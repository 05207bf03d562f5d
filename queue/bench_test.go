package queue

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// full is a site where n holds of many clients wait.
func full(b *testing.B, n, clients int, byClient bool) (*world, *Slot) {
	w := newWorld(b, 30*time.Second)
	site := w.slot("site", limit.Spec{As: limit.Paced, Amount: 1000, Window: time.Second})
	own := map[string]*Slot{}
	for i := range n {
		name := fmt.Sprint(i % clients)
		needs := one(site)
		if byClient {
			if own[name] == nil {
				own[name] = w.slot(name, limit.Spec{As: limit.Concurrency, Amount: 4})
			}
			needs = one(site, own[name])
		}
		w.add("", Hold{Client: name, Priority: i % 8, Needs: needs})
	}
	w.names = map[*Hold]string{}
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
					turn := w.s.Next(w.now)
					if len(turn.Granted) != 1 {
						b.Fatalf("%d go", len(turn.Granted))
					}
					h := turn.Granted[0]
					_ = w.s.Finish(w.now, h, Result{})
					w.s.Next(w.now)
					_ = w.s.Add(w.now, h)
					w.s.Next(w.now)
				}
			})
		}
	}
}

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
	const n = 100_000
	b.Run("hold", func(b *testing.B) {
		weigh(b, n, func() any {
			w, _ := full(b, n, 100, false)
			return w
		})
	})
	b.Run("site", func(b *testing.B) {
		weigh(b, n, func() any {
			all := make([]*site, n)
			g := NewGate(Bounds{})
			for i := range all {
				s := newSite(g, "site")
				p := &Permit{request: asks("site", "x", &perMinute), site: s, ctx: context.Background(), ready: make(chan struct{}, 1)}
				p.hold = Hold{Client: "x", owner: p}
				_ = s.plan(noon, p)
				s.sched.Try(noon, &p.hold)
				p = &Permit{request: asks("site", "x", &perMinute), site: s, ctx: context.Background(), ready: make(chan struct{}, 1)}
				p.hold = Hold{Client: "x", owner: p}
				_ = s.plan(noon, p)
				_ = s.sched.Add(noon, &p.hold)
				s.sched.Next(noon)
				all[i] = s
			}
			return all
		})
	})
}

// BenchmarkGate is the usual request: there is room, nobody waits.
func BenchmarkGate(b *testing.B) {
	every := []Limit{
		{Name: "a", N: 1, Spec: &limit.Spec{As: limit.Concurrency, Amount: 1 << 20}},
		{Name: "b", N: 1, Spec: &limit.Spec{As: limit.Bucket, Amount: 1 << 40, Window: time.Second, Burst: 1 << 40}},
		{Name: "c", N: 1, Spec: &limit.Spec{As: limit.Fixed, Amount: 1 << 40, Window: time.Minute}},
	}
	for name, limits := range map[string][][]Limit{"no limits": nil, "three limits": {every}} {
		b.Run(name, func(b *testing.B) {
			g := NewGate(Bounds{Max: 10000, PerSite: 2000, Wait: 30 * time.Minute, Aging: 30 * time.Second})
			r := Request{Site: "example.com", Client: "x", Priority: 3, Limits: limits}
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
