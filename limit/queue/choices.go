package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/heap"
	"github.com/abide-proxy/abide/status"
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
	ended     bool // no new request needs them any more
	unordered bool // they cannot be kept in order
	each      bool // a hold waits for each resource by itself: it may need several units of one, which others must leave to it

	common    []need // of every alternative
	all       []choice
	ready     heap.Heap[*choice, byPreference]
	blocked   heap.Heap[*choice, byUntil]
	behind    []*choice // blocked by those that come first at a resource
	postponed int       // that are blocked only because others are chosen before them

	// The holds that wait for any of them:
	waiting resource // no real one: its waitlist has the group while all alternatives are blocked
	group   *group
	users   int64                // number of these holds
	queued  [numPriorities]int64 // the same, by priority
	remote  bool                 // a resource may have a Remote meter
}

// choice is one alternative.
type choice struct {
	of        *choices
	index     int32
	postponed bool
	rank      Rank      // as read last; it may have risen since
	block     block     // why it was blocked last
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
func (c *choices) build(s *scheduler, order Ranking, key any) {
	s.lastID++
	*c = choices{needs: c.needs, key: key, waiting: resource{agenda: &s.agenda, name: "any", id: s.lastID}}
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
			c.each = c.each || n.refuse
			if slices.Contains(c.common, n) {
				continue
			}
			c.unordered = c.unordered || n.of == Bytes // which others may take at any time
			c.each = c.each || n.n > 1
			c.remote = c.remote || n.resource.remote != nil
			n.resource.choices = append(slices.DeleteFunc(n.resource.choices, (*choice).over), item)
		}
		c.ready.Push(item)
	}
}

// end drops the alternatives: no new request needs them any more.
func (c *choices) end() {
	if c != nil {
		c.ended = true
	}
}

// over tells whether no request needs the alternative any more, or it was built anew.
func (c *choice) over() bool { return c.of.ended && c.of.users == 0 || c != &c.of.all[c.index] }

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
	c.of.waiting.markDirty()
}

// recheckChoices has all alternatives looked at again that the resource blocked last: what else blocks others still does.
func (r *resource) recheckChoices() {
	r.choices = slices.DeleteFunc(r.choices, (*choice).over)
	for _, c := range r.choices {
		if c.block.resource == r {
			c.recheck()
		}
	}
}

// blockUntil keeps an alternative back until a time, or until a resource of it is marked dirty if that
// is zero.
func (c *choice) blockUntil(until time.Time) {
	c.of.ready.Remove(c)
	if c.until = until; !until.IsZero() {
		c.of.blocked.Push(c)
	}
}

// blockBy keeps an alternative back while a block lasts.
func (c *choice) blockBy(now time.Time, b block) {
	until := b.until(now)
	if b.behind {
		until = time.Time{}
		c.of.behind = append(c.of.behind, c)
	}
	c.block = b
	c.blockUntil(until)
	b.resource.noteDemand()
}

// revive has those alternatives looked at again that may be ready, though no resource of them was marked dirty.
func (c *choices) revive(now time.Time) {
	for i, item := range c.behind {
		c.behind[i] = nil
		item.recheck()
	}
	c.behind = c.behind[:0]
	for !c.blocked.Empty() && !c.blocked.Top().until.After(now) {
		c.blocked.Top().recheck()
	}
}

// choose returns the alternative that is ready and the first in order, -1 if none is, for a hold whose
// common needs can be taken. Its group, if it waits already, is on no waitlist. sure is false when all
// alternatives have to be looked at.
func (c *choices) choose(now time.Time, s *scheduler, h *hold) (at int, sure bool) {
	c.revive(now)
	for !c.ready.Empty() {
		first := c.ready.Top()
		if rank := h.order.Rank(int(first.index)); rank != first.rank {
			first.rank = rank
			c.ready.Put(first)
			continue
		}
		if b := blockOf(now, s.aging, h, c.needs[first.index]); b.resource != nil {
			first.blockBy(now, b)
			continue
		}
		switch rests := h.order.Rests(int(first.index)); {
		case first.rank[0]>>62 > 0 && c.postponed > 0:
			return -1, false // a choice that rests comes before one of a later class
		case rests.After(now):
			first.postponed = true
			c.postponed++
			first.blockUntil(status.Earlier(rests, now.Add(longestPostponed)))
			continue
		}
		return int(first.index), true
	}
	return -1, c.postponed == 0
}

// blocks adds the reasons why no alternative is ready: each where others come first, the one that ends
// first of those with a known end, and one without an end if there are others, or if their end may change.
func (c *choices) blocks(now time.Time, list blocks) blocks {
	for _, item := range c.behind {
		list = append(list, item.block)
	}
	first := &c.all[0]
	if c.blocked.Empty() {
		for i := 1; first.block.behind && i < len(c.all); i++ {
			first = &c.all[i]
		}
	} else {
		first = c.blocked.Top()
		list = append(list, first.block)
		list[len(list)-1].on, list[len(list)-1].at = &c.waiting, first.until
	}
	if len(c.blocked.Items())+len(c.behind) < len(c.all) || c.remote {
		list = append(list, first.block)
		list[len(list)-1].on, list[len(list)-1].at = &c.waiting, now.Add(2*far)
	}
	return list
}

// want adds a hold that waits, times by (1 or -1), to what is queued at the resources of all alternatives.
func (c *choices) want(priority int, by int64) {
	c.users += by
	c.queued[priority] += by
	for _, n := range c.common {
		n.resource.want(priority, by, n.n)
	}
	for i := 0; c.remote && i < len(c.needs); i++ {
		for _, n := range c.needs[i] {
			n.resource.noteDemand()
		}
	}
}

// want adds a hold that waits for so many units of the resource, times by (1 or -1).
func (r *resource) want(priority int, by, units int64) {
	r.users += int(by)
	r.queued[priority] += by * units
	r.noteDemand()
}

// used tells whether a hold, a permit or a byte source refers to the resource.
func (r *resource) used() bool {
	return r.users > 0 || slices.ContainsFunc(r.choices, func(c *choice) bool { return c.of.users > 0 && !c.over() })
}

// wanted returns the number of units that holds of a priority want of the resource.
func (r *resource) wanted(priority int) int64 {
	units := r.queued[priority]
	for _, c := range r.choices {
		for _, n := range c.of.needs[c.index] {
			if n.resource == r && !c.over() {
				units += n.n * c.of.queued[priority]
			}
		}
	}
	return units
}
