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

// audit keeps its own books of what one resource let pass, and judges them by what
// the limit promises, not by what the meter says.
type audit struct {
	slot   *resource
	spec   limit.Spec
	times  []time.Time
	units  []int64
	flying int64
	ramp   rampAudit
	made   *budgetAudit // of a resource whose meter a function made
}

func (a *audit) granted(t *rapid.T, now time.Time, h *hold, n int64) {
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
	s       *scheduler
	now     time.Time
	again   time.Time
	slots   []*resource
	audits  map[*resource]*audit
	waiting map[*hold]bool
	granted map[*hold]bool
	over    int
}

func newModel(t *rapid.T, specs []limit.Spec, aging time.Duration) *model {
	m := &model{
		t: t, s: newScheduler(aging), now: noon,
		audits: map[*resource]*audit{}, waiting: map[*hold]bool{}, granted: map[*hold]bool{},
	}
	for i, spec := range specs {
		fresh := func() limit.Meter {
			m, err := limit.New(spec)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		res := m.s.newResource(fmt.Sprintf("%d %s", i, spec.As), fresh(), fresh)
		m.slots = append(m.slots, res)
		m.audits[res] = &audit{slot: res, spec: spec}
	}
	return m
}

func (m *model) next() {
	turn := m.s.next(m.now)
	m.again = turn.again
	for _, h := range turn.granted {
		if !m.waiting[h] {
			m.t.Fatalf("granted a hold that does not wait")
		}
		delete(m.waiting, h)
		m.granted[h] = true
		for _, n := range h.needs[h.grant.choice] {
			m.audits[n.resource].granted(m.t, m.now, h, n.n)
		}
	}
	for _, h := range turn.refused {
		if !m.waiting[h] {
			m.t.Fatalf("refused a hold that does not wait")
		}
		switch r := h.refusal; {
		case r != nil && r.Reason == Exhausted:
			m.wantExhausted(h)
		case r == nil || h.deadline.IsZero():
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
// waits lacks something, or needs a resource that somebody before it lacks, or that
// such a one may keep.
func (m *model) check() {
	held, granted := m.s.held, m.s.granted
	if held != len(m.waiting) || granted != len(m.granted) {
		m.t.Fatalf("%d and %d, should be %d and %d", held, granted, len(m.waiting), len(m.granted))
	}
	if len(m.s.all()) != held {
		m.t.Fatalf("%d of %d holds are in lanes", len(m.s.all()), held)
	}
	for _, a := range m.audits {
		if a.slot.cooldown.awaitsAnswer(m.now) != a.ramp.full(m.now) {
			m.t.Fatalf("%s: waits for an answer: %v, should: %v", a.slot.name, a.slot.cooldown.awaitsAnswer(m.now), a.ramp.full(m.now))
		}
	}
	lacks := map[*resource]bool{}
	for h := range m.waiting {
		if h.state != stateWaiting {
			continue
		}
		for _, needs := range h.needs {
			for _, n := range needs {
				if n.resource.when(m.now, n.n).After(m.now) {
					lacks[n.resource] = true
				} else if h.missed >= mostMisses {
					lacks[n.resource] = true
				}
			}
		}
	}
	// Without aging the order is known, and only those before it are an excuse.
	excused := func(h *hold, res *resource) bool {
		if m.s.aging > 0 {
			return lacks[res]
		}
		ours := rank{h.priority, h.client.served, h.seq}
		for other := range m.waiting {
			if other.state != stateWaiting || other != h && !(rank{other.priority, other.client.served, other.seq}).before(ours) {
				continue
			}
			for _, needs := range other.needs {
				for _, n := range needs {
					if n.resource == res && (other.missed >= mostMisses || res.when(m.now, n.n).After(m.now)) {
						return true
					}
				}
			}
		}
		return false
	}
	for h := range m.waiting {
		if h.state != stateWaiting {
			continue
		}
		for _, needs := range h.needs {
			blocked := false
			for _, n := range needs {
				// A bucket's answer may come true a rounding before its time.
				soon := n.resource.wake.After(m.now) && n.resource.wake.Sub(m.now) < time.Microsecond
				blocked = blocked || soon || excused(h, n.resource)
			}
			if !blocked {
				m.t.Fatalf("a hold waits for nothing")
			}
		}
	}
	if len(m.s.agenda.dirty) > 0 {
		m.t.Fatalf("something is left to look at")
	}
}

func (m *model) end(h *hold, r Result) {
	for _, n := range h.needs[h.grant.choice] {
		a := m.audits[n.resource]
		a.flying -= n.n
		a.ramp.answered(m.now, h, r.Outcome == limit.Success && !r.Unsent)
		if r.Unsent {
			a.unsent(h.grant.taken, n.n)
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

func (m *model) drawNeeds(t *rapid.T) [][]need {
	var all [][]need
	for range rapid.IntRange(1, 2).Draw(t, "alternatives") {
		var needs []need
		for _, r := range m.slots {
			if rapid.Bool().Draw(t, "needs") {
				needs = append(needs, need{
					resource: r, n: rapid.Int64Range(1, most(m.audits[r].spec)).Draw(t, "n"),
					refuse: rapid.IntRange(0, 3).Draw(t, "refuse") == 0,
				})
			}
		}
		all = append(all, needs)
	}
	return all
}

func pickHold(t *rapid.T, from map[*hold]bool) *hold {
	var first *hold
	var list []*hold
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
				h := &hold{
					name:     rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client"),
					weight:   rapid.IntRange(0, 4).Draw(t, "weight"),
					priority: rapid.IntRange(0, 7).Draw(t, "priority"),
					cost:     rapid.Int64Range(0, 5).Draw(t, "cost"),
					needs:    m.drawNeeds(t),
				}
				if rapid.Bool().Draw(t, "try") {
					if m.s.tryAtOnce(m.now, h) {
						added++
						m.granted[h] = true
						for _, n := range h.needs[h.grant.choice] {
							m.audits[n.resource].granted(t, m.now, h, n.n)
						}
						return
					}
				}
				if rapid.IntRange(0, 3).Draw(t, "deadline") == 0 {
					h.deadline = m.now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "wait")) * time.Second)
				}
				if err := m.s.tryAdd(m.now, h); err != nil {
					if refusal := new(Refusal); errors.As(err, &refusal) && refusal.Reason == Exhausted {
						m.wantExhausted(h)
					} else if h.deadline.IsZero() {
						t.Fatalf("refused: %v", err)
					}
					return
				}
				added++
				m.waiting[h] = true
			},
			"cancel": func(t *rapid.T) {
				if h := pickHold(t, m.waiting); h != nil {
					if !m.s.cancel(m.now, h) {
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
					if err := m.s.finish(m.now, h, r); err != nil {
						t.Fatal(err)
					}
					m.end(h, r)
					m.over++
				}
			},
			"return": func(t *rapid.T) {
				if h := pickHold(t, m.granted); h != nil {
					later := m.now.Add(time.Duration(rapid.IntRange(-1, 30).Draw(t, "rest")) * time.Second)
					err := m.s.giveBack(m.now, h, Result{Outcome: limit.Refused}, later, h.needs)
					m.end(h, Result{Outcome: limit.Refused})
					if err != nil {
						m.over++
						return
					}
					m.waiting[h] = true
				}
			},
			"cool": func(t *rapid.T) {
				res := rapid.SampledFrom(m.slots).Draw(t, "slot")
				until := m.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "for")) * time.Second)
				if until.After(res.cooldown.until) {
					m.audits[res].ramp = newRampAudit(until)
				}
				res.beginCooldown(until, "test", 0)
			},
			"warm": func(t *rapid.T) {
				res := rapid.SampledFrom(m.slots).Draw(t, "slot")
				m.audits[res].ramp = rampAudit{}
				res.endCooldown()
			},
			"tell": m.drawTelling,
			"answered": func(t *rapid.T) {
				if h := pickHold(t, m.granted); h != nil {
					o := limit.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome"))
					h.answered(m.now, o)
					if o != limit.Refused {
						for _, n := range h.needs[h.grant.choice] {
							m.audits[n.resource].ramp.answered(m.now, h, o == limit.Success)
						}
					}
				}
			},
			"replan": func(t *rapid.T) {
				if h := pickHold(t, m.waiting); h != nil {
					m.s.replan(m.now, h, m.drawNeeds(t))
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
				if err := m.s.finish(m.now, h, Result{}); err != nil {
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
		of := map[*hold]int{}
		dearest := 0.0
		add := func(i int) {
			cost := rapid.Int64Range(1, 6).Draw(t, "cost")
			dearest = max(dearest, float64(cost))
			h := &hold{
				name: fmt.Sprint(i), weight: weights[i], priority: 3, cost: cost,
				needs: [][]need{{{resource: m.slots[0], n: 1}}},
			}
			of[h] = i
			m.waiting[h] = true
			if err := m.s.tryAdd(m.now, h); err != nil {
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
				served[of[h]] += float64(h.cost) / float64(weights[of[h]])
				add(of[h]) // so that everybody always wants more
				if err := m.s.finish(m.now, h, Result{}); err != nil {
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
