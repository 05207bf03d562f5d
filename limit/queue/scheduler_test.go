package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// noon is when all these tests begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a scheduler with a clock of its own.
type world struct {
	t     testing.TB
	s     *scheduler
	now   time.Time
	again time.Time
	names map[*hold]string
	went  []*hold
}

func newWorld(t testing.TB, aging time.Duration) *world {
	return &world{t: t, s: newScheduler(aging), now: noon, names: map[*hold]string{}}
}

func (w *world) slot(name string, spec limit.Spec) *resource {
	w.t.Helper()
	fresh := func() limit.Meter {
		m, err := limit.New(spec)
		if err != nil {
			w.t.Fatal(err)
		}
		return m
	}
	return w.s.newResource(name, fresh(), fresh)
}

func (w *world) add(name string, h hold) *hold {
	w.t.Helper()
	w.names[&h] = name
	if err := w.s.tryAdd(w.now, &h); err != nil {
		w.t.Fatalf("adding %s: %v", name, err)
	}
	return &h
}

// next are the names of those that go now.
func (w *world) next() string {
	turn := w.s.next(w.now)
	w.again = turn.again
	var names []string
	for _, h := range turn.granted {
		names = append(names, w.names[h])
		w.went = append(w.went, h)
	}
	return strings.Join(names, " ")
}

// run lets time pass until nobody waits any more, or nothing will happen, and
// answers who went. Every request takes no time.
func (w *world) run() string {
	var names []string
	for range 100_000 {
		if went := w.next(); went != "" {
			names = append(names, went)
		}
		if len(w.went) > 0 {
			for _, h := range w.went {
				w.finish(h)
			}
			w.went = w.went[:0]
			continue
		}
		if w.again.IsZero() {
			return strings.Join(names, " ")
		}
		if !w.again.After(w.now) {
			w.t.Fatalf("at %v it asks to be asked again at %v", w.now, w.again)
		}
		w.now = w.again
	}
	w.t.Fatal("it never ends")
	return ""
}

func (w *world) finish(h *hold) {
	w.t.Helper()
	if err := w.s.finish(w.now, h, Result{}); err != nil {
		w.t.Fatalf("finishing %s: %v", w.names[h], err)
	}
}

func (w *world) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func one(resources ...*resource) [][]need {
	var needs []need
	for _, r := range resources {
		needs = append(needs, need{resource: r, n: 1})
	}
	return [][]need{needs}
}

var (
	perSecond = limit.Spec{As: limit.Paced, Amount: 1, Window: time.Second}
	perMinute = limit.Spec{As: limit.Paced, Amount: 1, Window: time.Minute}
	single    = limit.Spec{As: limit.Concurrency, Amount: 1}
)

func TestTheMostUrgentGoesFirstAndThenWhoCameFirst(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	for _, h := range []struct {
		name     string
		priority int
	}{{"late", 7}, {"usual", 3}, {"usual2", 3}, {"urgent", 0}, {"beyond", 99}, {"soon", 2}} {
		w.add(h.name, hold{name: h.name, priority: h.priority, needs: one(site)})
	}
	w.want("order", w.run(), "urgent soon usual usual2 late beyond")
}

func TestAHoldGainsAStepOfPriorityForEachAging(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	site := w.slot("site", single)
	running := w.add("running", hold{name: "x", needs: one(site)})
	w.want("first", w.next(), "running")
	w.add("patient", hold{name: "a", priority: 2, needs: one(site)})
	w.now = w.now.Add(59 * time.Second)
	w.add("urgent", hold{name: "b", priority: 1, needs: one(site)})
	w.want("nothing", w.next(), "")
	w.now = w.now.Add(2 * time.Second) // the patient one is at 0 now
	w.finish(running)
	w.want("aged", w.next(), "patient")
}

func TestALongQueueOfOneClientDoesNotAgeAheadOfAnother(t *testing.T) {
	w := newWorld(t, 30*time.Second)
	site := w.slot("site", perSecond)
	for range 500 {
		w.add("greedy", hold{name: "greedy", priority: 3, needs: one(site)})
	}
	for range 200 { // so all the rest is old
		w.next()
		w.now = w.now.Add(time.Second)
	}
	w.went = nil
	w.add("modest", hold{name: "modest", priority: 3, needs: one(site)})
	w.next()
	w.now = w.now.Add(time.Second)
	w.next()
	for _, h := range w.went {
		if w.names[h] == "modest" {
			return
		}
	}
	t.Error("a fresh request of another client waits behind old ones of a long queue")
}

func TestClientsShareByWeight(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	for range 40 {
		w.add("a", hold{name: "a", weight: 3, needs: one(site)})
		w.add("b", hold{name: "b", weight: 1, needs: one(site)})
	}
	order := strings.Fields(w.run())[:40]
	if n := strings.Count(strings.Join(order, ""), "a"); n < 29 || n > 31 {
		t.Errorf("of 40 grants %d went to the client with weight 3 of 4", n)
	}
}

func TestAnExhaustedRouteDoesNotHoldUpAnother(t *testing.T) {
	w := newWorld(t, 0)
	site, slow := w.slot("site", perSecond), w.slot("slow", perMinute)
	w.add("slow1", hold{name: "a", needs: one(site, slow)})
	w.add("slow2", hold{name: "a", needs: one(site, slow)})
	w.add("fast1", hold{name: "a", needs: one(site)})
	w.add("fast2", hold{name: "a", needs: one(site)})
	w.want("order", w.run(), "slow1 fast1 fast2 slow2")
	if took := w.now.Sub(noon); took != time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestACostlyHoldIsNotStarvedByCheapOnes(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Minute})
	w.add("seven", hold{name: "a", needs: [][]need{{{resource: site, n: 7}}}})
	w.add("big", hold{name: "a", needs: [][]need{{{resource: site, n: 5}}}})
	w.add("small", hold{name: "a", needs: one(site)})
	w.want("now", w.next(), "seven")
	w.finish(w.went[0])
	w.now = w.now.Add(time.Minute)
	w.want("a minute later", w.next(), "big small")
}

func TestTheFirstAlternativeThatIsReadyIsTaken(t *testing.T) {
	w := newWorld(t, 0)
	a, b := w.slot("a", perMinute), w.slot("b", perSecond)
	either := func() [][]need { return [][]need{{{resource: a, n: 1}}, {{resource: b, n: 1}}} }
	var choices []int
	for range 4 {
		w.add("x", hold{name: "c", needs: either()})
	}
	for range 3 {
		w.next()
		for _, h := range w.went {
			choices = append(choices, int(h.grant.choice))
		}
		w.went = nil
		w.now = w.now.Add(time.Second)
	}
	if !slices.Equal(choices, []int{0, 1, 1, 1}) {
		t.Errorf("choices are %v", choices)
	}
	picked := hold{needs: either(), order: rankFunc(func(i int) uint64 { return uint64(100 - i) })}
	w.now = w.now.Add(time.Hour)
	w.add("picked", picked)
	w.next()
	if got := w.went[0].grant.choice; got != 1 {
		t.Errorf("the caller's choice was 1, not %d", got)
	}
}

func TestAReturnedHoldKeepsItsPlace(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	first := w.add("first", hold{name: "a", needs: one(site)})
	w.add("second", hold{name: "a", needs: one(site)})
	w.add("other", hold{name: "b", needs: one(site)})
	w.want("first", w.next(), "first")
	w.went = nil
	site.beginCooldown(w.now.Add(time.Minute), "Retry-After", 0)
	if err := w.s.giveBack(w.now, first, Result{Outcome: limit.Refused}, time.Time{}, first.needs); err != nil {
		t.Fatal(err)
	}
	w.want("order", w.run(), "first other second")
	if took := w.now.Sub(noon); took != 62*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAReturnedHoldRestsWithoutStandingInTheWay(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	first := w.add("first", hold{name: "a", needs: one(site)})
	w.add("second", hold{name: "a", needs: one(site)})
	w.next()
	w.went = nil
	if err := w.s.giveBack(w.now, first, Result{Outcome: limit.Failed}, w.now.Add(10*time.Second), first.needs); err != nil {
		t.Fatal(err)
	}
	why, ok := w.s.why(w.now, first)
	if !ok || why.Limit != "retry" || !why.ETA.Equal(w.now.Add(10*time.Second)) {
		t.Errorf("it waits for %+v", why)
	}
	w.want("order", w.run(), "second first")
}

func TestACancelledHoldSpendsNothing(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	w.add("a", hold{name: "a", needs: one(site)})
	b := w.add("b", hold{name: "b", needs: one(site)})
	w.add("c", hold{name: "c", needs: one(site)})
	w.want("first", w.next(), "a")
	if !w.s.cancel(w.now, b) || w.s.cancel(w.now, b) {
		t.Error("a hold is cancelled once")
	}
	w.now = w.now.Add(time.Second)
	w.want("then", w.next(), "c")
}

func TestWhoeverHasGoneIsPassedOver(t *testing.T) {
	gone := map[*hold]bool{}
	w := newWorld(t, 0)
	w.s.live = func(h *hold) bool { return !gone[h] }
	site := w.slot("site", perSecond)
	w.add("a", hold{name: "a", needs: one(site)})
	w.next()
	gone[w.add("b", hold{name: "b", needs: one(site)})] = true
	w.add("c", hold{name: "c", needs: one(site)})
	w.now = w.now.Add(time.Second)
	w.want("then", w.next(), "c")
}

func TestAHoldThatWouldWaitTooLongIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("900 per 15m", limit.Spec{As: limit.Rolling, Amount: 900, Window: 15 * time.Minute})
	for range 2700 {
		w.add("x", hold{name: "a", needs: one(site), deadline: w.now.Add(30*time.Minute + time.Second)})
	}
	w.next()
	h := hold{name: "a", needs: one(site), deadline: w.now.Add(30 * time.Minute)}
	var r *Refusal
	if err := w.s.tryAdd(w.now, &h); !errors.As(err, &r) || r.Reason != TooLong || r.Limit != "900 per 15m" {
		t.Fatalf("the answer is %v", err)
	}
	if wait := r.RetryAt.Sub(w.now); wait < 30*time.Minute || wait > 46*time.Minute {
		t.Errorf("it should come back in %v", wait)
	}
	modest := hold{name: "b", needs: one(site), deadline: w.now.Add(16 * time.Minute)}
	if err := w.s.tryAdd(w.now, &modest); err != nil {
		t.Errorf("another client's first request goes in the next window, but: %v", err)
	}
}

func TestAHoldLeavesAtItsDeadline(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", single)
	w.add("running", hold{name: "a", needs: one(site)})
	w.next()
	h := w.add("waits", hold{name: "a", needs: one(site), deadline: w.now.Add(time.Minute)})
	w.next()
	if !w.again.Equal(h.deadline) {
		t.Fatalf("it asks again at %v", w.again)
	}
	w.now = w.again
	if turn := w.s.next(w.now); len(turn.refused) != 1 || h.refusal.Limit != "site" || h.refusal.Reason != TooLong {
		t.Errorf("refused: %v, %v", turn.refused, h.refusal)
	}
}

func TestACooldownBeyondTheDeadlineRefusesAtOnce(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	w.add("first", hold{name: "a", needs: one(site)})
	w.next()
	for range 10 {
		w.add("x", hold{name: "a", needs: one(site), deadline: w.now.Add(time.Minute)})
	}
	w.next()
	site.beginCooldown(w.now.Add(time.Hour), "Retry-After", 0)
	turn := w.s.next(w.now)
	if len(turn.refused) != 10 {
		t.Fatalf("%d are refused", len(turn.refused))
	}
	w.want("why", turn.refused[0].refusal.Error(), "site (Retry-After): the wait would be too long")
}

func TestMoreThanTheWholeLimitIsNever(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Minute})
	h := hold{needs: [][]need{{{resource: site, n: 11}}}}
	var r *Refusal
	if err := w.s.tryAdd(w.now, &h); !errors.As(err, &r) || r.Reason != Never {
		t.Errorf("the answer is %v", err)
	}
}

func TestTheTrueCostIsSettled(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Minute})
	for _, c := range []struct {
		name   string
		result Result
		left   int64
	}{
		{"as estimated", Result{}, 6},
		{"less", Result{Cost: 1}, 5},
		{"more", Result{Cost: 5}, 0},
	} {
		h := w.add(c.name, hold{needs: [][]need{{{resource: site, n: 4, of: Cost}}}})
		w.next()
		if err := w.s.finish(w.now, h, c.result); err != nil {
			t.Fatal(err)
		}
		if left := site.left(w.now); left != c.left {
			t.Errorf("%s: %d is left, want %d", c.name, left, c.left)
		}
	}
}

func TestFinishHappensOnce(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", single)
	h := w.add("x", hold{needs: one(site)})
	w.next()
	w.finish(h)
	if err := w.s.finish(w.now, h, Result{}); !errors.Is(err, errNotGranted) {
		t.Errorf("the second is %v", err)
	}
	if err := w.s.giveBack(w.now, h, Result{}, noon, h.needs); !errors.Is(err, errNotGranted) {
		t.Errorf("the return is %v", err)
	}
	if site.left(w.now) != 1 {
		t.Errorf("%d is left", site.left(w.now))
	}
}

func TestWhyNamesTheLimitThePlaceAndTheTime(t *testing.T) {
	w := newWorld(t, 0)
	site, route := w.slot("site", perSecond), w.slot("route", perMinute)
	w.add("a", hold{name: "a", needs: one(site, route)})
	w.next()
	b := w.add("b", hold{name: "a", needs: one(site, route)})
	c := w.add("c", hold{name: "a", needs: one(site, route)})
	w.next()
	for _, x := range []struct {
		hold  *hold
		place int
		eta   time.Duration
	}{{b, 1, time.Minute}, {c, 2, 2 * time.Minute}} {
		why, ok := w.s.why(w.now, x.hold)
		if !ok || why.Limit != "route" || why.Place != x.place || why.ETA.Sub(w.now) != x.eta {
			t.Errorf("%s: %+v", w.names[x.hold], why)
		}
	}
}

// Two meters that others empty in turns: one is ready at whole seconds, the
// other at half ones, and never together.
func TestAHoldThatNeedsTwoBusySlotsGoesOneDay(t *testing.T) {
	w := newWorld(t, 0)
	a, b := w.slot("a", perSecond), w.slot("b", perSecond)
	w.add("a", hold{name: "a", needs: one(a)})
	w.next()
	w.now = w.now.Add(time.Second / 2)
	w.add("b", hold{name: "b", needs: one(b)})
	w.next()
	both := w.add("both", hold{name: "c", priority: 0, needs: one(a, b)})
	for range 1000 {
		w.went = nil
		w.next()
		for _, h := range w.went {
			if h == both {
				return
			}
		}
		for _, r := range []*resource{a, b} {
			if r.queued[3] == 0 {
				w.add("one", hold{name: r.name, priority: 3, needs: one(r)})
			}
		}
		w.next()
		w.now = w.again
	}
	t.Error("it starves")
}

func TestAChangedLimitKeepsWhatWasSpentAndWhoWaits(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", limit.Spec{As: limit.Rolling, Amount: 10, Window: time.Minute})
	for range 12 {
		w.add("x", hold{name: "a", needs: one(site)})
	}
	w.next()
	if len(w.went) != 10 {
		t.Fatalf("%d went", len(w.went))
	}
	m, err := limit.Move(w.now, site.meter, limit.Spec{As: limit.Fixed, Amount: 11, Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	site.setMeter(w.now, m, nil, false)
	w.now = w.now.Add(time.Millisecond)
	w.want("one more", w.next(), "x")
	w.want("no more", w.next(), "")
	for _, h := range w.went {
		if err := w.s.finish(w.now, h, Result{Unsent: true}); err != nil {
			t.Fatal(err)
		}
	}
	if left := site.left(w.now); left != 11 {
		t.Errorf("nothing was sent, and %d is left", left)
	}
}

func TestIdleIsWhenForgettingChangesNothing(t *testing.T) {
	w := newWorld(t, 0)
	site := w.slot("site", perSecond)
	h := w.add("x", hold{needs: one(site)})
	w.next()
	idle := func(want bool) {
		t.Helper()
		if got := w.s.restsAnd((*resource).forgettable, w.now); got != want {
			t.Errorf("idle is %v", got)
		}
	}
	idle(false)
	w.finish(h)
	idle(false)
	w.now = w.now.Add(time.Second)
	idle(true)
	site.beginCooldown(w.now.Add(time.Minute), "", 0)
	idle(false)
}
