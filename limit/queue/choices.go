package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/heap"
)

// minRanked is the least number of alternatives of a request that are held in order.
const minRanked = 16

// longestPostponed bounds how long an alternative is left out because it rests
// (Ranking.Rests), before its ranking is asked again.
const longestPostponed = time.Second

// choices are the alternatives of requests with the same needs, in an order that leads to
// the next without a look at each: alternatives that may be ready, by rank, and blocked
// alternatives, by the time when they may be ready. What is known of a resource is valid
// until the resource is marked dirty.
type choices struct {
	needs     [][]need
	key       any  // Ranking.Common of the order; nil: not built yet
	ended     bool // no request needs them any more
	unordered bool // they cannot be kept in order

	common    []need // of every alternative
	all       []choice
	ready     heap.Heap[*choice, byPreference]
	blocked   heap.Heap[*choice, byUntil]
	external  []*choice // blocked by a resource that Gate.UpdateExternal may change
	revived   uint64    // agenda.externalChanges when external was looked at last
	postponed int       // that are blocked only because others are chosen before them
}

// choice is one alternative.
type choice struct {
	of        *choices
	index     int32
	postponed bool
	rank      Rank      // as read last; it may have risen since
	until     time.Time // when it is blocked: not ready before, unless a resource of it is marked dirty

	inReady, inBlocked int32
}

type byPreference struct{}

func (byPreference) Before(a, b *choice) bool {
	if a.rank != b.rank {
		return slices.Compare(a.rank[:], b.rank[:]) < 0
	}
	return a.index < b.index
}
func (byPreference) Place(c *choice) *int32 { return &c.inReady }

type byUntil struct{}

func (byUntil) Before(a, b *choice) bool { return a.until.Before(b.until) }
func (byUntil) Place(c *choice) *int32   { return &c.inBlocked }

// build puts all alternatives in order.
func (c *choices) build(order Ranking, key any) {
	*c = choices{needs: c.needs, key: key}
	for _, n := range c.needs[0] {
		if !slices.ContainsFunc(c.needs, func(list []need) bool { return !slices.Contains(list, n) }) {
			c.common = append(c.common, n)
		}
	}
	c.all = make([]choice, len(c.needs))
	for i, needs := range c.needs {
		item := &c.all[i]
		item.of, item.index, item.rank = c, int32(i), order.Rank(i)
		for _, n := range needs {
			if slices.Contains(c.common, n) {
				continue
			}
			if n.of == Bytes { // which others may take at any time
				c.unordered = true
			}
			n.resource.choices = append(slices.DeleteFunc(n.resource.choices, func(old *choice) bool { return old.of.ended }), item)
		}
		c.ready.Push(item)
	}
}

// end drops the alternatives: no request needs them any more.
func (c *choices) end() {
	if c != nil {
		c.ended = true
	}
}

// recheck has an alternative looked at again.
func (c *choice) recheck() {
	c.of.blocked.Remove(c)
	if c.postponed {
		c.postponed = false
		c.of.postponed--
	}
	if !c.of.ready.Has(c) {
		c.of.ready.Push(c)
	}
}

// recheckChoices has all alternatives looked at again that need the resource.
func (r *resource) recheckChoices() {
	gone := false
	for _, c := range r.choices {
		if gone = gone || c.of.ended; !c.of.ended {
			c.recheck()
		}
	}
	if gone {
		r.choices = slices.DeleteFunc(r.choices, func(c *choice) bool { return c.of.ended })
	}
}

// block keeps an alternative back until a time, or until a resource of it is marked dirty if that
// is zero.
func (c *choice) block(until time.Time) {
	c.of.ready.Remove(c)
	if c.until = until; !until.IsZero() {
		c.of.blocked.Push(c)
	}
}

// choose is the alternative that is ready and the first in order, -1 if none is. sure is
// false when all of them have to be looked at.
func (c *choices) choose(now time.Time, order Ranking, a *agenda) (at int, sure bool) {
	if !free(now, c.common) {
		return -1, true
	}
	if c.revived != a.externalChanges {
		c.revived = a.externalChanges
		for i, one := range c.external {
			c.external[i] = nil
			one.recheck()
		}
		c.external = c.external[:0]
	}
	for !c.blocked.Empty() && !c.blocked.Top().until.After(now) {
		c.blocked.Top().recheck()
	}
	for !c.ready.Empty() {
		first := c.ready.Top()
		if rank := order.Rank(int(first.index)); rank != first.rank {
			first.rank = rank
			c.ready.Put(first)
			continue
		}
		until, external, ok := c.when(now, c.needs[first.index])
		switch rests := order.Rests(int(first.index)); {
		case !ok:
			first.block(until)
			if external {
				c.external = append(c.external, first)
			}
			continue
		case first.rank[0]>>62 > 0 && c.postponed > 0:
			return -1, false // a choice that rests comes before one of a later class
		case rests.After(now):
			if most := now.Add(longestPostponed); rests.After(most) {
				rests = most
			}
			first.postponed = true
			c.postponed++
			first.block(rests)
			continue
		}
		return int(first.index), true
	}
	return -1, c.postponed == 0
}

// when tells whether needs can be taken now, and if not, from when on they may be: the
// zero time stands for the moment a resource of them is marked dirty. external tells that
// Gate.UpdateExternal may change that.
func (c *choices) when(now time.Time, needs []need) (until time.Time, external, ok bool) {
	for _, n := range needs {
		res := n.resource
		at := res.when(now, n.n)
		if !at.After(now) {
			continue
		}
		switch {
		case res.cooldown.slowStart != nil && res.cooldown.awaitsAnswer(now):
			at = res.cooldown.slowStart.latest.Add(probeWait)
		case at.Sub(now) > far:
			at = time.Time{}
			if m, ok := res.meter.(Learning); ok {
				at = m.Patience(now)
			}
		}
		return at, res.external || res.remote != nil, false
	}
	return time.Time{}, false, true
}

// detach takes the alternatives away from their resources.
func (c *choices) detach() {
	for i := range c.all {
		for _, n := range c.needs[i] {
			n.resource.choices = slices.DeleteFunc(n.resource.choices, func(item *choice) bool { return item == &c.all[i] })
		}
	}
}

// free tells whether all needs can be taken now and no group waits for any of their resources.
func free(now time.Time, needs []need) bool {
	return !slices.ContainsFunc(needs, func(n need) bool { return n.resource.waitlist != nil || n.resource.when(now, n.n).After(now) })
}
