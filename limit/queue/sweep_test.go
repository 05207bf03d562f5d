package queue

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

func byRoute(key string, spec *limit.Spec) Request {
	return Request{Site: "a", Limits: [][]Limit{{{Name: "by route", Key: key, Spec: spec, N: 1}}}}
}

func TestALongKeyIsCutAndIsStillItsOwn(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		for _, key := range []string{long + "1", long + "2", boundKey(long + "1")[:128], long[:128], long[:129]} {
			p := allow(t, g, byRoute(key, &perSecond))
			if p.Waited() != 0 {
				t.Errorf("a key of %d shares a meter", len(key))
			}
			p.Finish(Result{})
		}
		if p := allow(t, g, byRoute(long+"1", &perSecond)); p.Waited() != time.Second {
			t.Errorf("the same key waited %v", p.Waited())
		} else {
			p.Cool(Scope{"by route", long + "1"}, time.Now().Add(time.Minute), "Retry-After")
			p.Finish(Result{})
		}
		if p := allow(t, g, byRoute(long+"1", &perSecond)); p.Waited() != time.Minute {
			t.Errorf("after a cooldown it waited %v", p.Waited())
		}
		s := g.lock("a")
		defer s.mu.Unlock()
		for at, e := range s.registry.byScope {
			if len(at.Key) > 129 || len(e.resource.name) > 200 {
				t.Errorf("a key of %d is kept, and a name of %d", len(at.Key), len(e.resource.name))
			}
		}
	})
}

func TestStrangersMakeNoMoreThanSoManyMeters(t *testing.T) {
	perHour := &limit.Spec{As: limit.Paced, Amount: 1, Window: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		slots := func() int {
			s := g.lock("a")
			defer s.mu.Unlock()
			return len(s.sched.resources)
		}
		for i := range mostResources + 1 {
			if p := allow(t, g, byRoute(fmt.Sprint(i), perHour)); p.Waited() != 0 {
				t.Fatalf("route %d waited %v", i, p.Waited())
			} else {
				p.Finish(Result{})
			}
		}
		if n := slots(); n > mostResources+2 {
			t.Fatalf("there are %d slots", n)
		}
		// Those who come now share what is left.
		start := time.Now()
		p := allow(t, g, byRoute("late", perHour))
		if p.Waited() != time.Hour {
			t.Errorf("one of too many waited %v", p.Waited())
		}
		p.Cool(Scope{"by route", "late"}, time.Now().Add(2*time.Hour), "Retry-After")
		p.Finish(Result{})
		again := allow(t, g, byRoute("later", perHour))
		if took := time.Since(start); took != 3*time.Hour {
			t.Errorf("after a cooldown of all the others it went after %v", took)
		}
		if name := again.hold.needs[0][1].resource.name; name != "by route of other" {
			t.Errorf("they are called %q", name)
		}
		again.Finish(Result{})
		time.Sleep(2 * time.Hour)
		allow(t, g, byRoute("0", perHour)).Finish(Result{})
		if n := slots(); n > 10 {
			t.Errorf("an hour later there are %d slots", n)
		}
		for _, key := range []string{"later", "latest"} {
			p := allow(t, g, byRoute(key, perHour))
			if p.Waited() != 0 {
				t.Errorf("%s waited %v, although nobody else is there", key, p.Waited())
			}
			p.Finish(Result{})
		}
	})
}

// TestManyNamesAreLookedThroughOnceASecond: each limit has a resource for those that come too
// late, and a server can name thousands of limits. To look at all of them for each
// request would cost more than all the rest.
func TestManyNamesAreLookedThroughOnceASecond(t *testing.T) {
	named := func(i int) Request {
		return Request{Site: "a", Limits: [][]Limit{{{Name: fmt.Sprint("limit ", i), Key: "key", Spec: &perSecond, N: 1}}}}
	}
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		rest := func() int {
			s := g.lock("a")
			defer s.mu.Unlock()
			n := 0
			for _, e := range s.registry.byScope {
				if e.shared {
					n++
				}
			}
			return n
		}
		perHour := &limit.Spec{As: limit.Paced, Amount: 1, Window: time.Hour}
		for i := range mostResources {
			allow(t, g, byRoute(fmt.Sprint(i), perHour)).Finish(Result{})
		}
		const many = 100
		for i := range many {
			allow(t, g, named(i)).Finish(Result{})
		}
		time.Sleep(sweepPause) // all of them have forgotten
		allow(t, g, named(0)).Finish(Result{})
		if n := rest(); n != 1 {
			t.Fatalf("%d are left after a second", n)
		}
		for i := range many {
			allow(t, g, named(i)).Finish(Result{})
		}
		time.Sleep(sweepPause - 1)
		allow(t, g, named(0)).Finish(Result{})
		if n := rest(); n != many {
			t.Errorf("%d are left before the next second", n)
		}
		time.Sleep(time.Nanosecond)
		allow(t, g, named(0)).Finish(Result{})
		if n := rest(); n != 1 {
			t.Errorf("%d are left after it", n)
		}
	})
}
