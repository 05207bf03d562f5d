package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/status"
)

// block is the reason why a hold cannot take one of its alternatives.
type block struct {
	resource *resource
	at       time.Time
	behind   bool // the resource has enough, but others come first
	refuse   bool // nobody waits for it
	asking   bool // it is not known yet whether it has enough
	storing  bool // the store of its meter is asked

	on *resource // where a group waits for its end; nil: at the resource
}

// waitsAt returns where a group waits for the end of the block.
func (b block) waitsAt() *resource { return cmp.Or(b.on, b.resource) }

// until returns the time at which time alone may end the block; zero is never.
func (b block) until(now time.Time) time.Time {
	cooldown := &b.resource.cooldown
	switch m, learns := b.resource.meter.(Learning); {
	case !b.behind && cooldown.awaitsAnswer(now):
		return cooldown.slowStart.latest.Add(probeWait)
	case b.at.Sub(now) <= far:
		return b.at
	case learns && m.Patience(now).After(now):
		return m.Patience(now)
	}
	return time.Time{}
}

// longestBlock is the resource that has too little for the longest time, and after from.
// Its resource is nil if all have enough.
func longestBlock(now, from time.Time, needs []need) block {
	var b block
	for _, n := range needs {
		at := n.resource.when(now, n.n)
		if at.After(from) && (b.resource == nil || at.After(b.at) || b.refuse && !n.refuse && at.Equal(b.at)) {
			b = block{resource: n.resource, at: at, refuse: n.refuse, asking: n.resource.asking(now, at, n.n)}
			b.storing = b.asking && n.resource.asks(now, n.n)
		}
	}
	return b
}

// denied tells whether the site has denied the credential of needs.
func denied(now time.Time, needs []need) bool {
	return slices.ContainsFunc(needs, func(n need) bool { return n.resource.denied(now) })
}

// allDenied tells whether the site has denied the credential of each alternative.
func allDenied(now time.Time, needs [][]need) bool {
	return !slices.ContainsFunc(needs, func(alternative []need) bool { return !denied(now, alternative) })
}

// spent tells whether requests are refused for what the resource lacks instead of waiting.
// What depends on an answer that is still to come, of the site or of a store, may be
// available at once.
func (b block) spent(now time.Time) bool {
	return b.refuse && !b.asking && (b.at.Sub(now) <= far || b.resource.inFlight == 0 && !b.resource.cooldown.awaitsAnswer(now))
}

// exhausted is the refusal of a request that would have to wait for the block to end.
func (b block) exhausted(now time.Time) *Refusal {
	refusal := &Refusal{Reason: Exhausted, Limit: b.resource.title}
	if b.resource.away(now) {
		refusal.Reason = Away
		return refusal
	}
	if b.at.Sub(now) <= far {
		refusal.RetryAt = b.at
	}
	return refusal
}

// describe tells the block to operators and clients.
func (b block) describe(now time.Time) Blocker {
	k, cooldown := Blocker{Limit: b.resource.name, Until: b.at, Behind: b.behind}, &b.resource.cooldown
	away := !b.behind && b.resource.away(now) && !cooldown.until.After(now)
	k.Asking = b.storing || away
	if b.asking || away || b.at.Sub(now) > far {
		k.Until = time.Time{}
	}
	if !b.behind && (cooldown.until.Equal(b.at) || cooldown.awaitsAnswer(now)) {
		k.Why = cooldown.why(now)
	}
	return k
}

// exhausted refuses a hold that is new or has come back if each of its alternatives is
// blocked by a limit with Limit.Refuse. The holds before it do not matter.
func exhausted(now time.Time, h *hold) *Refusal {
	from := now
	if h.state == stateDelayed {
		from = h.later
	}
	var first block
	for _, needs := range h.needs {
		b := longestBlock(now, from, needs)
		if b.resource == nil || !b.spent(now) {
			return nil
		}
		if first.resource == nil || b.at.Before(first.at) {
			first = b
		}
	}
	return first.exhausted(now)
}

// blocks are the reasons why a hold cannot go, one for each alternative.
type blocks []block

// soonest is the block that ends first.
func (list blocks) soonest() block {
	first := list[0]
	for _, b := range list[1:] {
		if b.at.Before(first.at) {
			first = b
		}
	}
	return first
}

// spent tells whether each alternative is blocked by a limit with Limit.Refuse.
func (list blocks) spent(now time.Time) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(b block) bool { return !b.spent(now) })
}

// hopeless tells whether every alternative is known to come too late.
func (list blocks) hopeless(now time.Time, h *hold) bool {
	if h.deadline.IsZero() {
		return false
	}
	return len(list) > 0 && !slices.ContainsFunc(list, func(b block) bool {
		return b.behind || b.asking || !b.at.After(h.deadline) || b.at.Sub(now) > far
	})
}

// scheduleWake sets when the resource is looked at again, after a group was added to its
// waitlist.
func (b block) scheduleWake(now time.Time, aging time.Duration, g *group) {
	res := b.waitsAt()
	first := res.waitlist.best(now, aging, nil).group
	if first != g {
		// Where there is enough for those behind, the first is looked at again: a
		// meter's answer may come true a rounding earlier than it said.
		if first != res.first || b.behind {
			res.markDirty()
		}
		return
	}
	next := b.until(now)
	if res.first == g {
		next = status.Earlier(next, res.wake) // another alternative of the same group ends sooner
	}
	next = status.Earlier(next, res.waitlist.nextAging(now, aging))
	res.first = g
	res.markClean()
	res.wakeAt(next)
}

// blockOf is the reason why a hold, the first of a group that is on no waitlist, cannot take
// needs: the resource that it has to wait for longest, or a resource where others come
// first, as all do if it is in no group. Its resource is nil if there is none.
func blockOf(now time.Time, aging time.Duration, h *hold, needs []need) block {
	if b := longestBlock(now, now, needs); b.resource != nil {
		return b
	}
	for _, n := range needs {
		if n.resource.claimed(now, aging, h, n.n) {
			return block{resource: n.resource, at: n.resource.wake, behind: true}
		}
	}
	return block{}
}

// claimed tells whether others come before a hold, and the resource does not have n units beside those that
// the first of them and all of more urgent priorities want.
func (r *resource) claimed(now time.Time, aging time.Duration, h *hold, n int64) bool {
	if r.waitlist == nil || h.group == nil {
		return r.waitlist != nil
	}
	first := r.waitlist.best(now, aging, h.group)
	if first.group == h.group || r.meter == nil {
		return first.group != h.group
	}
	wanted := int64(0)
	for p := range h.priority {
		wanted += r.wanted(p)
	}
	for _, alternative := range first.hold().needs {
		for _, other := range alternative {
			if other.resource == r {
				wanted = max(wanted, other.n)
			}
		}
	}
	return r.meter.Left(now) < wanted+n
}

// blockedTime is the time for which one limit has blocked requests, in all: three requests
// that waited for two seconds are six seconds.
type blockedTime struct {
	name    string
	seconds float64
	busy    float64   // seconds for which it blocked any request
	count   int       // how many requests it blocks
	since   time.Time // when seconds was brought up to date

	observed float64 // seconds for which it would have blocked requests that were only observed
}

// change adds the time until now, and then changes the number of requests that the limit
// blocks.
func (t *blockedTime) change(now time.Time, by int) {
	t.seconds, t.busy = t.upTo(now)
	t.since = now
	t.count += by
}

// upTo is the blocked time until now, and the time for which the limit blocked any request, in seconds.
func (t *blockedTime) upTo(now time.Time) (seconds, busy float64) {
	if t.count == 0 {
		return t.seconds, t.busy
	}
	more := max(now.Sub(t.since), 0).Seconds()
	return t.seconds + float64(t.count)*more, t.busy + more
}

// The names of blocked time that no configured limit causes.
const (
	cooldownLimit = "cooldown"
	retryLimit    = "retry"
	storeLimit    = "store" // abide writes its counts, or asks for them
)

// blockedTimes are the blocked times of a site by the title of the limit. The keys of a
// limit share its blocked time.
type blockedTimes map[string]*blockedTime

func (b *blockedTimes) of(name string) *blockedTime {
	t := (*b)[name]
	if t == nil {
		t = &blockedTime{name: name}
		if *b == nil {
			*b = blockedTimes{}
		}
		(*b)[name] = t
	}
	return t
}

// blockedSince says what blocks a group from a time on.
type blockedSince struct {
	time *blockedTime
	from time.Time
}

// mostBlockedSince bounds the history of a group: what blocked it long ago does not
// matter.
const mostBlockedSince = 32

// Blocked lists the limits that have blocked requests, of all sites in memory. A site that
// was forgotten begins at zero.
func (g *Gate) Blocked() []status.BlockedTime {
	return g.blocked((*blockedTime).upTo)
}

// Observed lists for how long requests that were only observed would have waited for each
// limit.
func (g *Gate) Observed() []status.BlockedTime {
	return g.blocked(func(t *blockedTime, _ time.Time) (seconds, busy float64) { return t.observed, 0 })
}

// blocked lists the limits of all sites in memory that have some time.
func (g *Gate) blocked(of func(t *blockedTime, now time.Time) (seconds, busy float64)) (list []status.BlockedTime) {
	g.each(func(s *site, now time.Time) {
		for name, t := range s.sched.agenda.blockedTimes {
			if seconds, busy := of(t, now); seconds > 0 {
				list = append(list, status.BlockedTime{Site: s.name, Limit: name, Seconds: seconds, Busy: busy})
			}
		}
	})
	return list
}
