package queue

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// mostAsked bounds how often a prediction asks meters. Holds beyond that are only
// estimated.
const mostAsked = 20_000

// prediction lets the holds of a site go in virtual time, on copies of the meters, and
// notes when each does. Nothing else is expected to come, and requests take no time: a
// hold goes no sooner than predicted, unless one before it leaves.
type prediction struct {
	now    time.Time
	meters map[*Slot]*predicted
	groups heap[*predictedGroup, byPrediction]
	asked  int
	live   looks
}

// looks has a slot looked at as it is, at the time that it is told: under the lock of its
// site. The rest of a prediction needs no lock.
type looks func(look func(now time.Time))

// predictedGroup is holds that need the same slots, so that they go in their order.
type predictedGroup struct {
	holds []*Waiting
	ranks []int // of each hold, in the whole line
	at    time.Time
	known bool // at is when, not only the soonest that it can be
	by    int  // alternative of the first hold
	index int32
}

type byPrediction struct{}

func (byPrediction) before(a, b *predictedGroup) bool {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ranks[0], b.ranks[0])) < 0
}
func (byPrediction) place(g *predictedGroup) *int32 { return &g.index }

// predicted is one slot in virtual time.
type predicted struct {
	slot    *Slot
	number  int         // from 1 on
	live    looks       // by which the slot's own meter is asked
	from    time.Time   // nothing passes before
	known   bool        // from is not only the soonest
	busy    bool        // all of it is in flight, and nobody can tell for how long
	copy    limit.Meter // nil where the slot's meter has no copy, or there is none
	fresh   func() limit.Meter
	metered bool  // the slot has a meter
	units   int64 // that have passed, where there is no copy
}

// predict fills in the times of a line of holds, which is in the order in which they
// would go if every slot had enough.
func predict(now time.Time, list []Waiting, live looks) {
	p := &prediction{now: now, meters: map[*Slot]*predicted{}, live: live}
	groups := map[string]*predictedGroup{}
	var order []*predictedGroup
	var key []byte
	for i := range list {
		w := &list[i]
		w.ETA, w.Soonest = time.Time{}, now
		key = key[:0]
		if !w.later.IsZero() { // which waits for its own time first
			key = binary.AppendUvarint(append(key, 'r'), uint64(i))
		}
		for _, needs := range w.needs {
			for _, n := range needs {
				key = binary.AppendUvarint(key, uint64(p.meter(n.Slot)))
			}
			key = append(key, 0)
		}
		g := groups[string(key)]
		if g == nil {
			g = &predictedGroup{at: now}
			groups[string(key)] = g
			order = append(order, g)
		}
		g.holds, g.ranks = append(g.holds, w), append(g.ranks, i)
	}
	for _, g := range order {
		p.groups.push(g)
	}
	p.run()
}

// meter makes the slot known, and answers its number, from 1 on.
func (p *prediction) meter(s *Slot) int {
	if known := p.meters[s]; known != nil {
		return known.number
	}
	m := s.predicted(p.now, p.live)
	m.number = len(p.meters) + 1
	p.meters[s] = m
	return m.number
}

// predicted is the slot as it is now.
func (s *Slot) predicted(now time.Time, live looks) *predicted {
	p := &predicted{slot: s, from: now, known: true, live: live}
	var state []byte
	live(func(now time.Time) {
		if s.full(now) { // it recovers, and nobody can tell when it has
			p.known = false
		}
		if s.cool.After(p.from) {
			p.from = s.cool
		}
		p.metered = s.meter != nil
		if s.meter == nil || s.fresh == nil {
			return
		}
		p.fresh, state = s.fresh, s.meter.State()
		// What a copy does not know, such as what is in flight, the meter does.
		switch at, fits := s.meter.When(now, 1); {
		case !fits:
		case s.asking(now, at, 1):
			p.known = false
		case at.Sub(now) > far:
			p.busy = true
		case at.After(now) && at.After(p.from):
			p.from = at
		}
	})
	if p.fresh != nil {
		if p.copy = p.fresh(); p.copy != nil && p.copy.Restore(now, state) != nil {
			p.copy = nil
		}
	}
	return p
}

// when is the soonest that n can pass from at on, and whether it is certain. It is
// virtual now.
func (p *predicted) when(virtual, at time.Time, n int64) (time.Time, bool) {
	if p.from.After(at) {
		at = p.from
	}
	switch {
	case !p.metered || n <= 0:
		return at, p.known
	case p.copy == nil:
		var t time.Time
		p.live(func(now time.Time) { t = p.slot.eta(now, p.units+n) })
		if t.After(at) {
			at = t
		}
		return at, p.known && !t.IsZero()
	}
	t, fits := p.asks(virtual, at).When(at, n)
	if !fits || t.Sub(at) > far {
		return at, false
	}
	if t.After(at) {
		at = t
	}
	return at, p.known
}

// asks is the meter that may be asked about a time. A meter that is asked about a later
// time than virtual forgets what was taken before, and is another copy.
func (p *predicted) asks(virtual, at time.Time) limit.Meter {
	if at.After(virtual) {
		if m := p.fresh(); m != nil && m.Restore(virtual, p.copy.State()) == nil {
			return m
		}
	}
	return p.copy
}

func (p *predicted) take(at time.Time, n int64) {
	p.units += n
	if p.copy != nil && n > 0 {
		p.copy.Take(at, n)
		p.copy.Done(at, at, n, limit.Abandoned)
	}
}

// run lets the holds go until none is left.
func (p *prediction) run() {
	for !p.groups.empty() {
		g := p.groups.top()
		w := g.holds[0]
		before := g.at
		if p.look(g); g.at.After(before) {
			p.groups.fix(g)
			if p.groups.top() != g {
				continue
			}
		}
		w.Soonest = g.at
		if g.known {
			w.ETA = g.at
			p.take(g)
		}
		if g.holds, g.ranks = g.holds[1:], g.ranks[1:]; len(g.holds) == 0 {
			p.groups.remove(g)
		} else {
			p.groups.fix(g)
		}
	}
}

// take has the first hold of a group go.
func (p *prediction) take(g *predictedGroup) {
	w := g.holds[0]
	if len(w.needs) == 0 {
		return
	}
	for _, n := range w.needs[g.by] {
		p.meters[n.Slot].take(g.at, n.N)
	}
}

// look finds when the first hold of a group can go, and by which alternative.
func (p *prediction) look(g *predictedGroup) {
	w := g.holds[0]
	from := g.at
	if w.later.After(from) {
		from = w.later
	}
	if p.asked >= mostAsked {
		g.at, g.known = from, false
		return
	}
	g.by, g.known = 0, true
	soonest := from
	for i, needs := range w.needs {
		at, known := p.whenAll(from, needs)
		// A time that is certain is worth more than one that may be any later.
		if i == 0 || known && !g.known || known == g.known && at.Before(soonest) {
			soonest, g.by, g.known = at, i, known
		}
	}
	g.at = soonest
}

// whenAll is the soonest that all needs can pass together, from a time on. What is in
// flight now is expected to be over when another limit lets the hold go.
func (p *prediction) whenAll(at time.Time, needs []Need) (time.Time, bool) {
	known, busy, virtual := true, false, at
	for again := true; again && p.asked < mostAsked; {
		again = false
		for _, n := range needs {
			p.asked++
			busy = busy || p.meters[n.Slot].busy
			t, sure := p.meters[n.Slot].when(virtual, at, n.N)
			known = known && sure
			if t.After(at) {
				at, again = t, true
			}
		}
	}
	return at, known && !(busy && !at.After(p.now))
}
