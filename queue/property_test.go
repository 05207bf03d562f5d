package queue

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

// audit keeps its own books of what one slot let pass, and judges them by what
// the limit promises, not by what the meter says.
type audit struct {
	slot   *Slot
	spec   limit.Spec
	times  []time.Time
	units  []int64
	flying int64
	ramp   rampAudit
	made   *budgetAudit // of a slot whose meter a function made
}

func (a *audit) granted(t *rapid.T, now time.Time, h *Hold, n int64) {
	a.ramp.granted(t, now, h)
	a.times, a.units = append(a.times, now), append(a.units, n)
	a.flying += n
	if a.made != nil {
		a.made.granted(t, now, a.flying-n, n)
		return
	}
	if a.spec.As == limit.Concurrency {
		if a.flying > a.spec.Amount {
			t.Fatalf("%s: %d in flight", a.slot.name, a.flying)
		}
		return
	}
	// Whatever ends in this grant: [since, now] may hold so much.
	sum := int64(0)
	for i := len(a.times) - 1; i >= 0; i-- {
		sum += a.units[i]
		span := now.Sub(a.times[i])
		most := float64(a.spec.Amount)
		switch a.spec.As {
		case limit.Rolling:
			if span >= a.spec.Window {
				return
			}
		case limit.Fixed:
			if w := a.spec.Window.Nanoseconds(); a.times[i].UnixNano()/w != now.UnixNano()/w {
				return
			}
		case limit.Bucket:
			most = float64(a.spec.Burst) + span.Seconds()*float64(a.spec.Amount)/a.spec.Window.Seconds() + 1e-6
		case limit.Paced:
			most = 1 + span.Seconds()*float64(a.spec.Amount)/a.spec.Window.Seconds() + 1e-6
		}
		if float64(sum) > most {
			t.Fatalf("%s: %d in %v, more than %v", a.slot.name, sum, span, most)
		}
	}
}

// unsent forgets a grant that never reached the server.
func (a *audit) unsent(at time.Time, n int64) {
	if a.made != nil {
		a.made.left = min(a.made.left+n, a.made.whole)
		return
	}
	for i, when := range a.times {
		if when.Equal(at) && a.units[i] == n {
			a.times = append(a.times[:i:i], a.times[i+1:]...)
			a.units = append(a.units[:i:i], a.units[i+1:]...)
			return
		}
	}
}

// model is a random site, and what should be true of it.
type model struct {
	t       *rapid.T
	s       *Scheduler
	now     time.Time
	again   time.Time
	slots   []*Slot
	audits  map[*Slot]*audit
	waiting map[*Hold]bool
	granted map[*Hold]bool
	over    int
}

func newModel(t *rapid.T, specs []limit.Spec, aging time.Duration) *model {
	m := &model{
		t: t, s: NewScheduler(Options{Aging: aging}), now: noon,
		audits: map[*Slot]*audit{}, waiting: map[*Hold]bool{}, granted: map[*Hold]bool{},
	}
	for i, spec := range specs {
		fresh := func() limit.Meter {
			m, err := limit.New(spec)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		slot := m.s.Slot(fmt.Sprintf("%d %s", i, spec.As), fresh(), fresh)
		m.slots = append(m.slots, slot)
		m.audits[slot] = &audit{slot: slot, spec: spec}
	}
	return m
}

func (m *model) next() {
	turn := m.s.Next(m.now)
	m.again = turn.Again
	for _, h := range turn.Granted {
		if !m.waiting[h] {
			m.t.Fatalf("granted a hold that does not wait")
		}
		delete(m.waiting, h)
		m.granted[h] = true
		for _, n := range h.Needs[h.Choice()] {
			m.audits[n.Slot].granted(m.t, m.now, h, n.N)
		}
	}
	for _, h := range turn.Refused {
		if !m.waiting[h] {
			m.t.Fatalf("refused a hold that does not wait")
		}
		switch r := h.Refusal(); {
		case r != nil && r.Reason == Exhausted:
			m.exhausted(h)
		case r == nil || h.Deadline.IsZero():
			m.t.Fatalf("refused without a reason")
		}
		delete(m.waiting, h)
		m.over++
	}
	if !m.again.IsZero() && !m.again.After(m.now) {
		m.t.Fatalf("asks again at %v, now is %v", m.again, m.now)
	}
	m.check()
}

// check is that nobody is lost, and that nobody waits who could go: whoever
// waits lacks something, or needs a slot that somebody before it lacks, or that
// such a one may keep.
func (m *model) check() {
	held, granted := m.s.Len()
	if held != len(m.waiting) || granted != len(m.granted) {
		m.t.Fatalf("%d and %d, should be %d and %d", held, granted, len(m.waiting), len(m.granted))
	}
	if len(m.s.all()) != held {
		m.t.Fatalf("%d of %d holds are in lanes", len(m.s.all()), held)
	}
	for _, a := range m.audits {
		if a.slot.full(m.now) != a.ramp.full(m.now) {
			m.t.Fatalf("%s: waits for an answer: %v, should: %v", a.slot.name, a.slot.full(m.now), a.ramp.full(m.now))
		}
	}
	lacks := map[*Slot]bool{}
	for h := range m.waiting {
		if h.state != waiting {
			continue
		}
		for _, needs := range h.Needs {
			for _, n := range needs {
				if n.Slot.when(m.now, n.N).After(m.now) {
					lacks[n.Slot] = true
				} else if h.missed >= misses {
					lacks[n.Slot] = true
				}
			}
		}
	}
	// Without aging the order is known, and only those before it are an excuse.
	excused := func(h *Hold, slot *Slot) bool {
		if m.s.options.Aging > 0 {
			return lacks[slot]
		}
		own := rank{h.class, h.client.turn, h.seq}
		for other := range m.waiting {
			if other.state != waiting || other != h && !(rank{other.class, other.client.turn, other.seq}).before(own) {
				continue
			}
			for _, needs := range other.Needs {
				for _, n := range needs {
					if n.Slot == slot && (other.missed >= misses || slot.when(m.now, n.N).After(m.now)) {
						return true
					}
				}
			}
		}
		return false
	}
	for h := range m.waiting {
		if h.state != waiting {
			continue
		}
		for _, needs := range h.Needs {
			blocked := false
			for _, n := range needs {
				// A bucket's answer may come true a rounding before its time.
				soon := n.Slot.wake.After(m.now) && n.Slot.wake.Sub(m.now) < time.Microsecond
				blocked = blocked || soon || excused(h, n.Slot)
			}
			if !blocked {
				m.t.Fatalf("a hold waits for nothing")
			}
		}
	}
	if len(m.s.hot) > 0 {
		m.t.Fatalf("something is left to look at")
	}
}

func (m *model) end(h *Hold, r Result) {
	for _, n := range h.Needs[h.Choice()] {
		a := m.audits[n.Slot]
		a.flying -= n.N
		a.ramp.answered(m.now, h, r.Outcome == limit.Success && !r.Unsent)
		if r.Unsent {
			a.unsent(h.Granted(), n.N)
		}
	}
	delete(m.granted, h)
}

func drawSpec(t *rapid.T) limit.Spec {
	amount := rapid.Int64Range(1, 12).Draw(t, "amount")
	window := time.Duration(rapid.IntRange(1, 90).Draw(t, "window")) * time.Second
	as := rapid.SampledFrom([]limit.As{limit.Rolling, limit.Fixed, limit.Bucket, limit.Paced, limit.Concurrency}).Draw(t, "as")
	return limit.Spec{As: as, Amount: amount, Window: window, Burst: rapid.Int64Range(1, 8).Draw(t, "burst")}
}

func most(spec limit.Spec) int64 {
	switch spec.As {
	case limit.Paced:
		return 1
	case limit.Bucket:
		return spec.Burst
	default:
		return spec.Amount
	}
}

func (m *model) drawNeeds(t *rapid.T) [][]Need {
	var all [][]Need
	for range rapid.IntRange(1, 2).Draw(t, "alternatives") {
		var needs []Need
		for _, s := range m.slots {
			if rapid.Bool().Draw(t, "needs") {
				needs = append(needs, Need{
					Slot: s, N: rapid.Int64Range(1, most(m.audits[s].spec)).Draw(t, "n"),
					Refuse: rapid.IntRange(0, 3).Draw(t, "refuse") == 0,
				})
			}
		}
		all = append(all, needs)
	}
	return all
}

func pickHold(t *rapid.T, from map[*Hold]bool) *Hold {
	var first *Hold
	var list []*Hold
	for h := range from {
		list = append(list, h)
	}
	if len(list) == 0 {
		return nil
	}
	// In the order of arrival, or rapid could not repeat a case.
	nth := rapid.IntRange(0, len(list)-1).Draw(t, "which")
	for range nth + 1 {
		best := -1
		for i, h := range list {
			if best < 0 || h.seq < list[best].seq {
				best = i
			}
		}
		first = list[best]
		list = append(list[:best], list[best+1:]...)
	}
	return first
}

func TestAnyInterleavingKeepsEveryLimitAndLosesNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var specs []limit.Spec
		for range rapid.IntRange(1, 4).Draw(t, "slots") {
			specs = append(specs, drawSpec(t))
		}
		m := newModel(t, specs, rapid.SampledFrom([]time.Duration{0, 0, 7 * time.Second, 30 * time.Second}).Draw(t, "aging"))
		for i := range rapid.IntRange(0, 2).Draw(t, "made") {
			m.drawMade(t, i)
		}
		added := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				h := &Hold{
					Client:   rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client"),
					Weight:   rapid.IntRange(0, 4).Draw(t, "weight"),
					Priority: rapid.IntRange(0, 7).Draw(t, "priority"),
					Cost:     rapid.Int64Range(0, 5).Draw(t, "cost"),
					Needs:    m.drawNeeds(t),
				}
				if rapid.Bool().Draw(t, "try") {
					if m.s.Try(m.now, h) {
						added++
						m.granted[h] = true
						for _, n := range h.Needs[h.Choice()] {
							m.audits[n.Slot].granted(t, m.now, h, n.N)
						}
						return
					}
				}
				if rapid.IntRange(0, 3).Draw(t, "deadline") == 0 {
					h.Deadline = m.now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "wait")) * time.Second)
				}
				if err := m.s.Add(m.now, h); err != nil {
					if no := new(Refusal); errors.As(err, &no) && no.Reason == Exhausted {
						m.exhausted(h)
					} else if h.Deadline.IsZero() {
						t.Fatalf("refused: %v", err)
					}
					return
				}
				added++
				m.waiting[h] = true
			},
			"cancel": func(t *rapid.T) {
				if h := pickHold(t, m.waiting); h != nil {
					if !m.s.Cancel(m.now, h) {
						t.Fatal("a hold that waits cannot be cancelled")
					}
					delete(m.waiting, h)
					m.over++
				}
			},
			"finish": func(t *rapid.T) {
				if h := pickHold(t, m.granted); h != nil {
					r := Result{
						Outcome: limit.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome")),
						Unsent:  rapid.IntRange(0, 4).Draw(t, "unsent") == 0,
					}
					if err := m.s.Finish(m.now, h, r); err != nil {
						t.Fatal(err)
					}
					m.end(h, r)
					m.over++
				}
			},
			"return": func(t *rapid.T) {
				if h := pickHold(t, m.granted); h != nil {
					later := m.now.Add(time.Duration(rapid.IntRange(-1, 30).Draw(t, "rest")) * time.Second)
					err := m.s.Return(m.now, h, Result{Outcome: limit.Refused}, later, h.Needs)
					m.end(h, Result{Outcome: limit.Refused})
					if err != nil {
						m.over++
						return
					}
					m.waiting[h] = true
				}
			},
			"cool": func(t *rapid.T) {
				slot := rapid.SampledFrom(m.slots).Draw(t, "slot")
				until := m.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "for")) * time.Second)
				if until.After(slot.cool) {
					m.audits[slot].ramp = newRampAudit(until)
				}
				m.s.Cool(slot, until, "test")
			},
			"warm": func(t *rapid.T) {
				slot := rapid.SampledFrom(m.slots).Draw(t, "slot")
				m.audits[slot].ramp = rampAudit{}
				m.s.Warm(slot)
			},
			"tell": m.drawTelling,
			"answered": func(t *rapid.T) {
				if h := pickHold(t, m.granted); h != nil {
					o := limit.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
					m.s.Answered(m.now, h, o)
					if o != limit.Refused {
						for _, n := range h.Needs[h.Choice()] {
							m.audits[n.Slot].ramp.answered(m.now, h, o == limit.Success)
						}
					}
				}
			},
			"replan": func(t *rapid.T) {
				if h := pickHold(t, m.waiting); h != nil {
					m.s.Replan(m.now, h, m.drawNeeds(t))
				}
			},
			"pass": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"pass until asked": func(t *rapid.T) {
				if m.again.After(m.now) {
					m.now = m.again
				}
			},
			"": func(*rapid.T) { m.next() },
		})
		// Whatever has happened, nothing starves: with everything finished at once,
		// all go in the end.
		for range 20_000 {
			m.next()
			for h := range m.granted {
				if err := m.s.Finish(m.now, h, Result{}); err != nil {
					t.Fatal(err)
				}
				m.end(h, Result{})
				m.over++
			}
			m.next()
			if len(m.waiting)+len(m.granted) == 0 {
				break
			}
			if len(m.granted) == 0 {
				if m.again.IsZero() {
					t.Fatalf("%d wait, and it never asks again", len(m.waiting))
				}
				m.now = m.again
			}
		}
		if len(m.waiting) > 0 || m.over != added {
			t.Fatalf("%d still wait; %d came and %d went", len(m.waiting), added, m.over)
		}
	})
}

func TestNoClientGetsMoreThanItsShareByMoreThanOneRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		m := newModel(t, []limit.Spec{spec}, 30*time.Second)
		clients := rapid.IntRange(2, 5).Draw(t, "clients")
		weights := make([]int, clients)
		served := make([]float64, clients)
		for i := range weights {
			weights[i] = rapid.IntRange(1, 5).Draw(t, "weight")
		}
		of := map[*Hold]int{}
		dearest := 0.0
		add := func(i int) {
			cost := rapid.Int64Range(1, 6).Draw(t, "cost")
			dearest = max(dearest, float64(cost))
			h := &Hold{
				Client: fmt.Sprint(i), Weight: weights[i], Priority: 3, Cost: cost,
				Needs: [][]Need{{{Slot: m.slots[0], N: 1}}},
			}
			of[h] = i
			m.waiting[h] = true
			if err := m.s.Add(m.now, h); err != nil {
				t.Fatal(err)
			}
		}
		for i := range clients {
			for range rapid.IntRange(13, 30).Draw(t, "backlog") {
				add(i)
			}
		}
		for range 120 {
			m.next()
			for h := range m.granted {
				served[of[h]] += float64(h.Cost) / float64(weights[of[h]])
				add(of[h]) // so that everybody always wants more
				if err := m.s.Finish(m.now, h, Result{}); err != nil {
					t.Fatal(err)
				}
				m.end(h, Result{})
			}
			for i := range served {
				for j := range served {
					bound := dearest/float64(weights[i]) + dearest/float64(weights[j])
					if gap := math.Abs(served[i] - served[j]); gap > bound+1e-9 {
						t.Fatalf("shares are %v apart, more than %v", gap, bound)
					}
				}
			}
			if m.again.After(m.now) {
				m.now = m.again
			}
		}
	})
}
