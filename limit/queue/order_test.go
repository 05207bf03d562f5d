package queue

import (
	"testing"
	"time"
	"unsafe"

	"github.com/abide-proxy/abide/limit"
)

var tenAnHour = limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Hour}

func units(r *resource, n int64) [][]need { return [][]need{{{resource: r, n: n}}} }

// threeLeft is a resource of which the client "a" has taken seven of ten.
func threeLeft(w *world) *resource {
	site := w.slot("site", tenAnHour)
	w.add("seven", hold{name: "a", needs: units(site, 7)})
	w.want("seven", w.next(), "seven")
	w.finish(w.went[0])
	return site
}

func TestACheapHoldOfAnotherGroupDoesNotPassACostlyOne(t *testing.T) {
	w := newWorld(t, 0)
	site := threeLeft(w)
	w.add("big", hold{name: "a", priority: 3, needs: units(site, 5)})
	w.next()
	route := w.slot("route", perSecond)
	w.add("small", hold{name: "a", priority: 3, needs: one(site, route)})
	w.want("nothing", w.next(), "")
	small := hold{name: "b", priority: 3, needs: one(site)}
	if w.s.tryAtOnce(w.now, &small) {
		t.Error("a try passes who waits")
	}
	w.add("urgent", hold{name: "a", priority: 2, needs: one(site)})
	w.want("before it", w.next(), "urgent")
	w.now = noon.Add(time.Hour)
	w.want("then", w.next(), "big small")
}

func TestAgingLetsAHoldGoAtTheInstantAtWhichItComesFirst(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	site := threeLeft(w)
	w.add("big", hold{name: "a", priority: 3, needs: units(site, 5)})
	w.next()
	w.now = w.now.Add(time.Second)
	w.add("small", hold{name: "b", priority: 4, needs: one(site)})
	w.want("nothing", w.next(), "")
	w.went = nil
	for len(w.went) == 0 && !w.again.IsZero() {
		w.now = w.again
		w.next()
	}
	// Both are at 0 then, and it is the other client's turn.
	if waited := w.now.Sub(noon); waited != 121*time.Second || w.names[w.went[0]] != "small" {
		t.Errorf("the first to go is %q, after %v", w.names[w.went[0]], waited)
	}
}

func TestWhoRestedGoesBeforeWhoComesLater(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	h := w.add("rested", hold{name: "a", needs: one(site)})
	w.next()
	if err := w.s.giveBack(w.now, h, Result{}, w.now.Add(time.Minute), h.needs); err != nil {
		t.Fatal(err)
	}
	w.next()
	w.now = w.now.Add(time.Minute)
	if late := (hold{name: "b", needs: one(site)}); w.s.tryAtOnce(w.now, &late) {
		t.Error("a try goes before a hold that is due")
	}
	w.want("due", w.next(), "rested")
}

func TestThePatientGoInTheEndAlthoughTheUrgentNeverCease(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	site := w.slot("site", perSecond)
	w.add("before", hold{name: "old", needs: one(site)})
	w.next()
	old := w.add("old", hold{name: "old", priority: leastUrgent, needs: one(site)})
	for second := range 300 {
		w.add("urgent", hold{name: "urgent", priority: mostUrgent, needs: one(site)})
		w.add("urgent", hold{name: "urgent", priority: mostUrgent, needs: one(site)})
		fresh := w.add("fresh", hold{name: "fresh", priority: leastUrgent, needs: one(site)})
		w.went = nil
		w.next()
		for _, h := range w.went {
			if h == old {
				if second < 209 {
					t.Errorf("it went after %d s already", second)
				}
				return
			}
		}
		w.s.cancel(w.now, fresh) // it asks anew each second
		w.next()
		w.now = w.now.Add(time.Second)
	}
	t.Error("it starves")
}

func TestWhoWasAwayHasSavedNothing(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	w.add("b", hold{name: "b", needs: one(site)})
	for range 50 {
		w.add("a", hold{name: "a", needs: one(site)})
	}
	for range 30 {
		w.next()
		w.now = w.now.Add(time.Second)
	}
	for range 10 {
		w.add("b", hold{name: "b", needs: one(site)})
	}
	w.went = nil
	for range 10 {
		w.next()
		w.now = w.now.Add(time.Second)
	}
	n := 0
	for _, h := range w.went {
		if w.names[h] == "b" {
			n++
		}
	}
	if n != 5 {
		t.Errorf("of ten grants %d went to the client that was away", n)
	}
}

func TestAPriorityAgesWithItsOldestHoldWhosesoeverTurnItIs(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	site := w.slot("site", single)
	running := w.add("running", hold{name: "greedy", cost: 9, needs: one(site)})
	w.next()
	w.add("old", hold{name: "greedy", priority: 3, needs: one(site)})
	w.now = w.now.Add(31 * time.Second)
	w.add("modest", hold{name: "modest", priority: 3, needs: one(site)})
	w.add("sooner", hold{name: "modest2", priority: 2, needs: one(site)})
	w.finish(running)
	w.want("first", w.next(), "modest")
}

func TestASlotIsNotForgottenWhileSomebodyWaitsWhoNeedsIt(t *testing.T) {
	w := newWorld(t, 0)
	site, route := w.slot("site", single), w.slot("route", perSecond)
	w.add("running", hold{needs: one(site)})
	h := w.add("waits", hold{needs: one(site, route)})
	w.next()
	if w.s.forget(w.now, route) {
		t.Error("it is forgotten")
	}
	w.s.cancel(w.now, h)
	if !w.s.forget(w.now, route) {
		t.Error("it is kept for nobody")
	}
}

// A permit is made for each request, and memory comes in classes of size, 8 bytes of
// which the runtime takes: one more word costs 64.
func TestAPermitIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Permit{}); size > 632 && unsafe.Sizeof(uintptr(0)) == 8 {
		t.Errorf("it has %d bytes", size)
	}
}
