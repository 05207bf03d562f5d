package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// The store grants units of a rolling limit by slots. While the limit is far from being
// reached, units of a slot may be used until the end of a later slot, in which they count,
// and more are granted before that. So no request waits at the boundary of slots.

// farFromLimit tells whether a rolling limit was far from being reached by the store's last
// answer, so that the store will probably grant units of later slots at once.
func (m *demand) farFromLimit(at instant) bool {
	k := &m.known
	return m.kind == store.Rolling && !m.once && k.set && k.slept == m.a.clock.slept &&
		at.low < k.endedBy+m.countsFor() && (k.remaining > m.amount/2 || k.holders <= 1 && k.remaining > m.amount/4)
}

// laterSlots is for how many slots after the present one units are asked for.
func (m *demand) laterSlots(at instant) int {
	if m.kind != store.Rolling || m.once {
		return 0
	}
	span := m.horizon() + m.renewalLead(true)
	if m.share(at) > 0 {
		span = max(span, int64(m.window)/4)
		if k := &m.known; m.a.ownsSite && (!k.set || at.low >= k.endedBy+m.countsFor() || k.remaining > m.amount/4*3) {
			span = max(span, int64(m.window)/2)
		}
	}
	return int(min((span-1)/m.width+1, int64(m.slots)))
}

// renewalLead is how long before the end of the units more are asked for.
func (m *demand) renewalLead(eager bool) int64 { return min(m.lead(m.width, eager), int64(m.window)/4) }

// remainingThen is how many of the units will be left when the answer to an ask made now
// arrives.
func (m *demand) remainingThen(at instant, room int64, eager bool) int64 {
	if !m.farFromLimit(at) {
		return room
	}
	return min(room, m.availableAfter(at, m.renewalLead(eager)))
}

// renewal is when to ask for units of a later slot, because the present ones will end.
func (m *demand) renewal(at instant, eager bool) int64 {
	h := m.present(at)
	if h == nil || !m.farFromLimit(at) || m.goal(at, h) == 0 {
		return never
	}
	if t := at.low + h.until - at.high - m.renewalLead(eager); t > at.low {
		return t
	}
	return never // the shortage is asked for at once
}

// slotsTooShort tells whether the slot of a grant may be over when the answer arrives.
// Units of the next slot can be used then.
func (m *demand) slotsTooShort() bool { return 2*m.a.usualAnswer+margin(m.width) > m.width/2 }

// reserveAhead is how many units of later slots are wanted when units wait. If slots are
// small compared with the waiting units, each slot fits one take, and a remainder of
// several is useless.
func (m *demand) reserveAhead(at instant, least, waits int64) int64 {
	if least > m.amount/int64(4*m.slots) {
		return least
	}
	span := min(m.rate.expectedFor(at.low), m.width+100*int64(time.Millisecond))
	if m.a.ownsSite {
		span = min(m.rate.expectedFor(at.low), int64(m.window)/4)
	}
	return min(waits+m.rate.unitsIn(at.low, span), m.amount)
}

// horizon is how far ahead units are asked for.
func (m *demand) horizon() int64 {
	if m.kind == store.Quota {
		return second // a killed process loses its units for the whole period
	}
	return min(max(int64(m.window)/horizonPart, horizonLeast), horizonMost)
}
