package queue

import (
	"slices"
	"time"
)

// manyChoices is how many alternatives a request has before they are kept in order.
const manyChoices = 16

// longestRest is how long it is believed that others come before an alternative: what
// keeps it back may be over sooner.
const longestRest = time.Second

// Rank is the place of an alternative among those that are ready.
type Rank = [3]uint64

// Preference is the order of the alternatives of a request. It says the same as Pick of
// the same request would choose, and the queue need not look at each alternative then.
// It is asked under the lock of the site, so it never waits and never calls the gate.
type Preference interface {
	// Rank is the place of an alternative. Of those that are ready the one with the
	// least is chosen, and of equal ones the first. It never falls. ok is false for an
	// alternative that is only chosen if there is no other.
	Rank(i int) (r Rank, ok bool)
	// Rests is until when an alternative is only chosen if there is no other; a time
	// that is not after now is not at all.
	Rests(i int) time.Time
	// Chosen hears which one is chosen.
	Chosen(i int)
}

// choices are the alternatives of requests that need the same, in an order in which the
// next is found without looking at all: those that may be ready by their rank, and the
// others by when they may be. What is known of a slot holds until it is stirred.
type choices struct {
	needs [][]Need
	order Preference // nil: not built yet
	over  bool       // nobody needs them any more
	plain bool       // they cannot be kept in order

	common  []Need // of every alternative
	all     []choice
	ready   heap[*choice, byPreference]
	blocked heap[*choice, byUntil]
	last    []int     // that are only chosen if there is no other
	kept    []*choice // blocked by a slot that Gate.With may change
	revived uint64    // the scheduler's, when kept was looked at
	rests   int       // that are blocked only because others are chosen before them
}

// choice is one alternative.
type choice struct {
	of    *choices
	index int32
	rests bool
	rank  Rank      // no more than it is now
	until time.Time // when it is blocked: not ready before, unless a slot of it is stirred

	inReady, inBlocked int32
}

type byPreference struct{}

func (byPreference) before(a, b *choice) bool {
	if a.rank != b.rank {
		return slices.Compare(a.rank[:], b.rank[:]) < 0
	}
	return a.index < b.index
}
func (byPreference) place(c *choice) *int32 { return &c.inReady }

type byUntil struct{}

func (byUntil) before(a, b *choice) bool { return a.until.Before(b.until) }
func (byUntil) place(c *choice) *int32   { return &c.inBlocked }

// build puts all alternatives in order.
func (c *choices) build(order Preference) {
	*c = choices{needs: c.needs, order: order}
	for _, n := range c.needs[0] {
		if !slices.ContainsFunc(c.needs, func(list []Need) bool { return !slices.Contains(list, n) }) {
			c.common = append(c.common, n)
		}
	}
	c.all = make([]choice, len(c.needs))
	for i, needs := range c.needs {
		one := &c.all[i]
		one.of, one.index = c, int32(i)
		rank, ok := order.Rank(i)
		if !ok {
			c.last = append(c.last, i)
			continue
		}
		for _, n := range needs {
			if slices.Contains(c.common, n) {
				continue
			}
			if n.Of == Bytes { // which others may take at any time
				c.plain = true
			}
			n.Slot.choices = append(slices.DeleteFunc(n.Slot.choices, func(old *choice) bool { return old.of.over }), one)
		}
		one.rank = rank
		c.ready.push(one)
	}
}

// end says that nobody needs the alternatives any more.
func (c *choices) end() {
	if c != nil {
		c.over = true
	}
}

// touch has an alternative looked at again.
func (c *choice) touch() {
	if c.of.blocked.has(c) {
		c.of.blocked.remove(c)
	}
	if c.rests {
		c.rests = false
		c.of.rests--
	}
	if !c.of.ready.has(c) {
		c.of.ready.push(c)
	}
}

// touch has all alternatives looked at again that need the slot.
func (s *Slot) touch() {
	gone := false
	for _, c := range s.choices {
		if gone = gone || c.of.over; !c.of.over {
			c.touch()
		}
	}
	if gone {
		s.choices = slices.DeleteFunc(s.choices, func(c *choice) bool { return c.of.over })
	}
}

// block keeps an alternative back until a time, or until a slot of it is stirred if that
// is zero.
func (c *choice) block(until time.Time) {
	c.of.ready.remove(c)
	if c.until = until; !until.IsZero() {
		c.of.blocked.push(c)
	}
}

// choose is the alternative that is ready and the first in order, -1 if none is. sure is
// false when all of them have to be looked at.
func (c *choices) choose(now time.Time, s *Scheduler) (at int, sure bool) {
	if !free(now, c.common) {
		return -1, true
	}
	if c.revived != s.revived {
		c.revived = s.revived
		for i, one := range c.kept {
			c.kept[i] = nil
			one.touch()
		}
		c.kept = c.kept[:0]
	}
	for !c.blocked.empty() && !c.blocked.top().until.After(now) {
		c.blocked.top().touch()
	}
	for !c.ready.empty() {
		first := c.ready.top()
		if rank, _ := c.order.Rank(int(first.index)); rank != first.rank {
			first.rank = rank
			c.ready.fix(first)
			continue
		}
		until, kept, ok := c.when(now, c.needs[first.index])
		switch rests := c.order.Rests(int(first.index)); {
		case !ok:
			first.block(until)
			if kept {
				c.kept = append(c.kept, first)
			}
			continue
		case rests.After(now):
			if most := now.Add(longestRest); rests.After(most) {
				rests = most
			}
			first.rests = true
			c.rests++
			first.block(rests)
			continue
		}
		return int(first.index), true
	}
	if c.rests > 0 {
		return -1, false
	}
	for _, i := range c.last {
		if free(now, c.needs[i]) {
			return i, true
		}
	}
	return -1, true
}

// when tells whether needs can be taken now, and if not, from when on they may be: the
// zero time is when a slot of them is stirred. kept tells that Gate.With may change that.
func (c *choices) when(now time.Time, needs []Need) (until time.Time, kept, ok bool) {
	for _, n := range needs {
		slot := n.Slot
		at := slot.when(now, n.N)
		if !at.After(now) {
			continue
		}
		switch {
		case slot.ramp != nil && slot.full(now):
			at = slot.ramp.went.Add(patience)
		case at.Sub(now) > far:
			at = time.Time{}
			if m, impatient := slot.meter.(Impatient); impatient {
				at = m.Patience(now)
			}
		}
		return at, slot.kept || slot.demand != nil, false
	}
	return time.Time{}, false, true
}

// choices are those of a hold, nil if all alternatives have to be looked at.
func (s *Scheduler) choices(h *Hold) *choices {
	c := h.choices
	if c == nil || h.order == nil || len(s.lanes) > 0 || len(h.Needs) != len(c.needs) || &h.Needs[0] != &c.needs[0] {
		return nil
	}
	if c.order != h.order {
		c.detach()
		c.build(h.order)
	}
	if c.plain {
		return nil
	}
	return c
}

// detach takes the alternatives away from their slots.
func (c *choices) detach() {
	for i := range c.all {
		for _, n := range c.needs[i] {
			n.Slot.choices = slices.DeleteFunc(n.Slot.choices, func(one *choice) bool { return one == &c.all[i] })
		}
	}
}

// tryChoices grants a hold at once that has very many alternatives. sure is false when
// all of them have to be looked at.
func (s *Scheduler) tryChoices(now time.Time, h *Hold) (went, sure bool) {
	c := s.choices(h)
	if c == nil {
		return false, false
	}
	i, sure := c.choose(now, s)
	if i < 0 {
		return false, sure
	}
	c.order.Chosen(i)
	s.stamp(now, h)
	s.take(now, h, i)
	return true, true
}
