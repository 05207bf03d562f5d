package queue

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// mostQueries bounds how often a prediction asks meters. Holds beyond that are only
// estimated.
const mostQueries = 20_000

// forecast lets the holds of a site go in virtual time, on copies of the meters, and
// notes when each does. Nothing else is expected to come, and requests take no time: a
// hold goes no sooner than predicted, unless one before it leaves.
type forecast struct {
	now    time.Time
	meters map[*resource]*forecastResource
	groups heap[*forecastGroup, byForecast]
	asked  int
	live   liveView
}

// liveView calls look under the lock of the site, with the time. The rest of a prediction needs
// no lock.
type liveView func(look func(now time.Time))

// forecastGroup is holds that need the same resources, so that they go in their order.
type forecastGroup struct {
	holds []*heldView
	ranks []int // of each hold, in the whole line
	at    time.Time
	known bool // at is exact, not only the soonest that it can be
	by    int  // alternative of the first hold
	index int32
}

type byForecast struct{}

func (byForecast) before(a, b *forecastGroup) bool {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.ranks[0], b.ranks[0])) < 0
}

func (byForecast) place(g *forecastGroup) *int32 { return &g.index }

// forecastResource is one resource in virtual time.
type forecastResource struct {
	resource *resource
	number   int         // from 1 on
	live     liveView    // by which the resource's own meter is asked
	from     time.Time   // nothing passes before
	known    bool        // from is not only the soonest
	busy     bool        // all of it is in flight, and nobody can tell for how long
	copy     limit.Meter // nil where the resource's meter has no copy, or there is none
	fresh    func() limit.Meter
	metered  bool  // the resource has a meter
	units    int64 // that have passed, where there is no copy
}

// predict fills in the times of a line of holds, which is in the order in which they
// would go if every resource had enough.
func predict(now time.Time, list []heldView, live liveView) {
	p := &forecast{now: now, meters: map[*resource]*forecastResource{}, live: live}
	groups := map[string]*forecastGroup{}
	var order []*forecastGroup
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
				key = binary.AppendUvarint(key, uint64(p.meter(n.resource)))
			}
			key = append(key, 0)
		}
		g := groups[string(key)]
		if g == nil {
			g = &forecastGroup{at: now}
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

// meter makes the resource known, and answers its number, from 1 on.
func (p *forecast) meter(r *resource) int {
	if known := p.meters[r]; known != nil {
		return known.number
	}
	m := r.forecastResource(p.now, p.live)
	m.number = len(p.meters) + 1
	p.meters[r] = m
	return m.number
}

// forecastResource is the resource as it is now.
func (r *resource) forecastResource(now time.Time, live liveView) *forecastResource {
	p := &forecastResource{resource: r, from: now, known: true, live: live}
	var state []byte
	live(func(now time.Time) {
		if r.cooldown.awaitsAnswer(now) { // it recovers, and nobody can tell when it has
			p.known = false
		}
		if r.cooldown.until.After(p.from) {
			p.from = r.cooldown.until
		}
		p.metered = r.meter != nil
		if r.meter == nil || r.fresh == nil {
			return
		}
		p.fresh, state = r.fresh, r.meter.State()
		// What a copy does not know, such as what is in flight, the meter does.
		switch at, fits := r.meter.When(now, 1); {
		case !fits:
		case r.asking(now, at, 1):
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
func (p *forecastResource) when(virtual, at time.Time, n int64) (time.Time, bool) {
	if p.from.After(at) {
		at = p.from
	}
	switch {
	case !p.metered || n <= 0:
		return at, p.known
	case p.copy == nil:
		var t time.Time
		p.live(func(now time.Time) { t = p.resource.estimate(now, p.units+n) })
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
func (p *forecastResource) asks(virtual, at time.Time) limit.Meter {
	if at.After(virtual) {
		if m := p.fresh(); m != nil && m.Restore(virtual, p.copy.State()) == nil {
			return m
		}
	}
	return p.copy
}

func (p *forecastResource) take(at time.Time, n int64) {
	p.units += n
	if p.copy != nil && n > 0 {
		p.copy.Take(at, n)
		p.copy.Done(at, at, n, limit.Abandoned)
	}
}

// run lets the holds go until none is left.
func (p *forecast) run() {
	for !p.groups.empty() {
		g := p.groups.top()
		w := g.holds[0]
		before := g.at
		if p.schedule(g); g.at.After(before) {
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

// take lets the first hold of a group go.
func (p *forecast) take(g *forecastGroup) {
	w := g.holds[0]
	if len(w.needs) == 0 {
		return
	}
	for _, n := range w.needs[g.by] {
		p.meters[n.resource].take(g.at, n.n)
	}
}

// schedule finds when the first hold of a group can go, and by which alternative.
func (p *forecast) schedule(g *forecastGroup) {
	w := g.holds[0]
	from := g.at
	if w.later.After(from) {
		from = w.later
	}
	if p.asked >= mostQueries {
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
func (p *forecast) whenAll(at time.Time, needs []need) (time.Time, bool) {
	known, busy, virtual := true, false, at
	for again := true; again && p.asked < mostQueries; {
		again = false
		for _, n := range needs {
			p.asked++
			busy = busy || p.meters[n.resource].busy
			t, sure := p.meters[n.resource].when(virtual, at, n.n)
			known = known && sure
			if t.After(at) {
				at, again = t, true
			}
		}
	}
	return at, known && !(busy && !at.After(p.now))
}

const (
	// step is the number of bytes waited for at once where bytes pass a few at a time.
	step = 16 << 10
	// mostSteps is after how many of these the rest is taken to be as what came before.
	mostSteps = 4096
)

// meterCopy is a copy of a meter, to try out what comes.
type meterCopy struct {
	m     limit.Meter // nil: nothing is known of it but from
	from  time.Time   // before which nothing passes
	whole int64       // the most that it can have
}

// Forecast returns the time at which n more bytes could have passed the limits, if no other connection took
// any, and the longest pause on the way. The time is never too late. ok is false if the
// bytes can never pass or the time is not known.
func (t *ByteSource) Forecast(n int64) (at time.Time, pause time.Duration, ok bool) {
	s := t.site
	s.mu.Lock()
	now := s.gate.clock.Now()
	if !t.closed {
		t.follow(now)
	}
	meters := make([]meterCopy, 0, len(t.resources))
	for _, res := range t.resources {
		if res.meter != nil {
			meters = append(meters, res.copy(now, n))
		}
	}
	s.mu.Unlock()
	return forecastBytes(now, meters, n)
}

// copy is an independent copy of the resource's meter. A meter that is kept elsewhere is
// copied only as far as it answers: the copy is unused, so that a forecast is never too
// late.
func (r *resource) copy(now time.Time, n int64) meterCopy {
	c := meterCopy{from: now, whole: r.measure(now).whole}
	first := min(n, step)
	if r.fresh == nil {
		first = n
	} else if c.m = r.fresh(); c.m != nil {
		first = min(first, max(c.whole/4, 1))
		if c.m.Restore(now, r.meter.State()) != nil {
			c.m = r.fresh()
		}
	}
	if r.meter.Left(now) >= first {
		return c
	}
	at, ok := r.meter.When(now, first)
	switch {
	case !ok, at.Sub(now) > far && r.demand == nil:
		c.from = limit.Unknown
	case at.Sub(now) <= far && at.After(now):
		c.from = at
	}
	return c
}

// forecastBytes passes n bytes through copies of meters.
func forecastBytes(now time.Time, meters []meterCopy, n int64) (at time.Time, pause time.Duration, ok bool) {
	all := n
	at = now
	for range mostSteps {
		if n <= 0 {
			return at, pause, true
		}
		part, need := n, min(n, step)
		for i := range meters {
			if c := &meters[i]; c.m != nil {
				need = min(need, max(c.whole/4, 1)) // a bucket that is full loses time
				part = min(part, c.m.Left(at))
			}
		}
		next := at
		for i := range meters {
			c := &meters[i]
			if c.from.After(next) {
				next = c.from
			}
			if c.m == nil || part >= need {
				continue
			}
			if t, fits := c.m.When(at, need); !fits {
				return at, pause, false
			} else if t.After(next) {
				next = t
			}
		}
		if next.Sub(now) > far {
			return at, pause, false
		}
		if next.After(at) {
			pause = max(pause, next.Sub(at))
			at = next
			continue
		}
		part = max(part, need)
		for i := range meters {
			if c := &meters[i]; c.m != nil {
				c.m.Take(at, part)
				c.m.Done(at, at, part, limit.Abandoned)
			}
		}
		n -= part
	}
	return extrapolate(now, at, pause, all-n, n)
}

// extrapolate passes the rest at the average speed of the bytes that have passed,
// including those that were available at first: rather too early than too late.
func extrapolate(now, at time.Time, pause time.Duration, passed, rest int64) (time.Time, time.Duration, bool) {
	took := float64(at.Sub(now)) * (1 + float64(rest)/float64(max(passed, 1)))
	if took > float64(far) {
		return at, pause, false
	}
	return now.Add(time.Duration(took)), pause, true
}
