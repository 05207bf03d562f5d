package lease

import (
	"hash/fnv"
	"time"

	"github.com/abide-proxy/abide/store"
)

const (
	// horizonPart is the part of a window that is asked for in advance, between
	// horizonLeast and horizonMost.
	horizonPart = 16
	horizonMost = int64(5 * time.Second)
	// scarcePart: with less than amount/scarcePart left, each instance takes only what it
	// needs at once, and returns the rest.
	scarcePart = 16
	// scarceReturnDelay is when unspent units of a scarce budget are returned.
	scarceReturnDelay = int64(50 * time.Millisecond)
	// minPoll and maxPoll bound the pause between asks for units that other instances may
	// return.
	minPoll = 10 * second
	maxPoll = 900 * second
	// maxUnwantedAnswers is how many answers without a grant may arrive in a row while no
	// request asks for the meter: then no request waits.
	maxUnwantedAnswers = 3
)

// demand calculates how many units should be held: what waits for a budget, and how fast
// units are taken.
type demand struct {
	outageLoan
	rate             rateMeter
	lastTake         int64 // time of the last take
	lastUnits        int64 // units of the last take
	lastReturn       int64 // time of the last return
	fruitlessReturns int   // returns of units that had been asked for

	waiting         int64 // units that cannot be taken
	minimum         int64 // the part of them that is needed at once
	unwantedAnswers int   // answers without a request asking again

	pollAt           int64 // nothing is left: do not ask before
	pollPause        int64 // the pause before pollAt
	noPrefetchBefore int64 // low: nothing is asked for in advance before
}

// setWaiting sets how many units wait. Only an increase counts for the rate: units that
// wait for the next window are taken together, which says nothing about the rate after
// that.
func (m *demand) setWaiting(at instant, units int64) {
	if more := units - m.waiting; more > 0 {
		m.rate.add(at.low, more)
	}
	m.waiting, m.unwantedAnswers = units, 0
}

// isShort tells whether units wait that the available units do not cover.
func (m *demand) isShort(room int64) bool {
	return m.owed > 0 || m.waiting > 0 && room < max(m.minimum, 1)
}

// scarce tells whether little is left for other instances.
func (m *demand) scarce(at instant) bool {
	k := &m.known
	return k.set && at.low < k.endedBy && k.holders > 1 && k.remaining <= m.amount/scarcePart/int64(max(m.slots, 1))
}

// storeEmpty tells whether the store had nothing left by its last answer.
func (m *demand) storeEmpty(at instant) bool {
	return m.pollPause > 0 && at.low < m.known.endedBy && m.known.slept == m.a.clock.slept
}

// betweenWindows tells whether the present window is about to end: nothing is sent in it
// any more, nor in the next one yet.
func (m *demand) betweenWindows(at instant) bool {
	k := &m.known
	return k.set && at.high >= k.until && at.low < k.endedBy && k.slept == m.a.clock.slept && !m.farFromLimit(at)
}

// goal is how many units should be held: those that wait, and those that will be taken
// soon.
func (m *demand) goal(at instant, h *hold) int64 {
	span := min(m.horizon(), m.rate.expectedFor(at.low))
	if h != nil && !m.farFromLimit(at) {
		span = min(span, h.until-at.high)
	}
	if m.scarce(at) || m.a.releasing || m.rate.unitsIn(at.low, second) < 2 {
		span = 0
	}
	return m.shareFor(at, min(m.waiting+m.rate.unitsIn(at.low, span), m.amount))
}

// needsSoon tells whether the units will be insufficient soon.
func (m *demand) needsSoon(at instant, h *hold, room int64, eager bool) bool {
	if h == nil || m.lastTake <= m.lastReturn || at.low < m.noPrefetchBefore {
		return false
	}
	goal, room := m.goal(at, h), m.remainingThen(at, room, eager)
	return room < askThreshold(goal, eager) && m.expectsGrant(at, goal-room)
}

// expectsGrant tells whether the store will probably grant n units in advance. If not, it
// is better to ask when units wait: that ask is granted as a whole.
func (m *demand) expectsGrant(at instant, n int64) bool {
	k := &m.known
	return at.low >= k.endedBy || k.holders <= 1 || k.remaining/int64(2*k.holders) >= n/2
}

// askThreshold is the number of units left at which more are asked for.
func askThreshold(goal int64, eager bool) int64 {
	if eager {
		return (goal + 1) / 2
	}
	return (goal + 3) / 4
}

// lead is how long before the end of a window units of the next are asked for. It differs
// between instances, so that their asks are spread.
func (m *demand) lead(length int64, eager bool) int64 {
	lead := min(max(length/20, minRetry+2*m.a.usualAnswer+margin(length)), 2*second)
	f := fnv.New32a()
	_, _ = f.Write([]byte(m.a.o.Instance))
	lead -= lead / 4 * int64(f.Sum32()%256) / 256
	if eager {
		lead += lead / 5
	}
	return lead
}

// wantedAhead is how many units of the next window are wanted.
func (m *demand) wantedAhead(at instant) int64 {
	return min(max(m.waiting, m.rate.unitsIn(at.low, m.horizon())), m.amount)
}

// returnDue is when to return unspent units.
func (m *demand) returnDue(at instant, h *hold, room int64, eager bool) int64 {
	low := never
	for i := range m.holds {
		o := &m.holds[i]
		switch {
		case o.n <= o.used:
		case m.a.releasing && m.waiting == 0:
			return at.low
		case m.laterUnwanted(at, o):
			low = min(low, max(m.lastTake, m.known.heardAt)+idleBeforeReturn)
		case m.kind == store.Rolling && o.ended(at) && m.shareKeptFor(at) > 0: // with the next ask
		case m.kind == store.Rolling && o.ended(at):
			if late := o.endedBy + int64(m.window)/horizonPart/8; !eager && late > at.low {
				low = min(low, late)
				continue
			}
			return at.low // it counts for a long time
		case m.kind == store.Rolling:
			low = min(low, o.endedBy)
		case o.from > at.low:
			low = min(low, o.from+idleBeforeReturn)
		}
	}
	if h == nil || room == 0 || m.isShort(room) {
		return low
	}
	if at.low >= m.known.heardAt+idleBeforeReturn && room > 4*m.goal(at, h)+8 && m.shareKeptFor(at) == 0 {
		return at.low
	}
	return min(low, m.idleAt(at, h, eager))
}

// laterUnwanted tells whether units of a later slot are held and none wait any more.
func (m *demand) laterUnwanted(at instant, h *hold) bool {
	return m.kind == store.Rolling && h.reserved(at) > 0 && m.waiting == 0
}

// idleAt is when nothing has been taken for long enough to return units.
func (m *demand) idleAt(at instant, h *hold, eager bool) int64 {
	rest := idleBeforeReturn
	if m.waiting == 0 && m.scarce(at) { // otherwise requests may wait for another budget, too
		rest = scarceReturnDelay
	}
	rest = max(rest, m.shareKeptFor(at))
	if eager {
		rest -= rest / 5
	}
	if h.from > at.low { // some units may be usable before
		return max(m.lastTake, m.known.heardAt) + rest
	}
	return max(m.lastTake, m.known.heardAt, h.from) + rest
}

// servedLater tells whether most waiting units have a place in a later slot, and from when
// on.
func (m *demand) servedLater(at instant, room int64) (from int64, enough bool) {
	n, from := m.reservedLater(at)
	return from, n > 0 && 2*n >= m.waiting-room
}
