package queue

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// book is what is known of sites: a limit that gets another name with each version.
type book struct {
	version atomic.Uint64
	asked   atomic.Int64
}

func (b *book) plan(Request) ([][]Limit, uint64) {
	b.asked.Add(1)
	v := b.version.Load()
	return b.limits(v), v
}

func (b *book) limits(version uint64) [][]Limit {
	spec := &limit.Spec{As: limit.Paced, Amount: 1, Window: time.Hour}
	if version > 0 {
		spec = &limit.Spec{As: limit.Paced, Amount: int64(version), Window: time.Second}
	}
	return [][]Limit{{{Name: string(rune('a' + version)), Spec: spec, N: 1}}}
}

func (b *book) request(site string) Request {
	v := b.version.Load()
	return Request{Site: site, Limits: b.limits(v), Version: v}
}

func TestWhatIsLearnedPlansWhatWaitsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		g := NewGate(Bounds{}, planFunc(b.plan))
		old := b.request("a")
		flying, start := allow(t, g, old), time.Now()
		if b.asked.Load() != 0 {
			t.Error("the plan was asked for what is new")
		}
		var order sync.Mutex
		var went []int
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				p := allow(t, g, old)
				order.Lock()
				defer order.Unlock()
				went = append(went, i)
				p.Finish(Result{})
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		b.version.Store(1)
		g.Replan("a", 1)
		all.Wait()
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("they went after %v", took)
		}
		for i, n := range went {
			if i != n {
				t.Fatalf("they went in the order %v", went)
			}
		}
		if n := b.asked.Load(); n != 4 {
			t.Errorf("the plan was asked %d times", n)
		}
		// What comes later and has seen less, and what comes back.
		if p := allow(t, g, old); p.Waited() != time.Second || p.request.Version != 1 {
			t.Errorf("it waited %v and has seen %d", p.Waited(), p.request.Version)
		}
		if err := flying.Again(t.Context(), Retry{}); err != nil || flying.Waited() != time.Second {
			t.Errorf("what came back waited %v: %v", flying.Waited(), err)
		}
		b.asked.Store(0)
		if p := allow(t, g, b.request("a")); p.Waited() != time.Second || b.asked.Load() != 0 {
			t.Errorf("who has seen it waited %v, and the plan was asked %d times", p.Waited(), b.asked.Load())
		}
		flying.Finish(Result{})
		nobodyWaits(t, g)
	})
}

func TestOldNewsPlansNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		g := NewGate(Bounds{}, planFunc(b.plan))
		g.Replan("a", 5)
		if sites, _ := g.Len(); sites != 0 {
			t.Error("a site was made")
		}
		b.version.Store(2)
		allow(t, g, b.request("a")).Finish(Result{})
		g.Replan("a", 2)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { allow(t, g, b.request("a")).Finish(Result{}) })
		}
		synctest.Wait()
		for _, version := range []uint64{2, 1, 0} {
			g.Replan("a", version)
		}
		b.version.Store(3)
		g.Replan("b", 3)
		all.Wait()
		if n := b.asked.Load(); n != 0 {
			t.Errorf("the plan was asked %d times", n)
		}
	})
}

// A refusal is about what is needed by now.
func TestARefusalOfALimitThatIsLearnedOtherwiseCoolsTheSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		g := NewGate(Bounds{}, planFunc(b.plan))
		b.version.Store(1)
		p := allow(t, g, b.request("a"))
		b.version.Store(2)
		g.Replan("a", 2)
		p.Cool(Scope{Limit: "b"}, time.Now().Add(time.Minute), "Retry-After")
		p.Finish(Result{})
		if p := allow(t, g, b.request("a")); p.Waited() != time.Minute {
			t.Errorf("the next one waited %v", p.Waited())
		}
	})
}

// A token that is gone by the time of its refusal takes no other with it.
func TestATokenThatIsGoneCoolsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := func(keys ...string) (all [][]Limit) {
			for _, key := range keys {
				all = append(all, []Limit{{Name: "token", Key: key}})
			}
			return all
		}
		g := NewGate(Bounds{}, planFunc(func(Request) ([][]Limit, uint64) { return tokens("2", "3"), 1 }))
		p := allow(t, g, Request{Site: "a", Limits: tokens("1", "2", "3")})
		g.Replan("a", 1)
		p.Cool(Scope{"token", "1"}, time.Now().Add(time.Hour), "Retry-After")
		if err := p.Again(t.Context(), Retry{Cool: Scope{"token", "1"}, Until: time.Now().Add(time.Hour)}); err != nil || p.Waited() != 0 {
			t.Errorf("another token waited %v: %v", p.Waited(), err)
		}
		p.Finish(Result{})
	})
}
