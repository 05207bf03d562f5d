package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// Of a rolling limit a store grants units of slots. As long as the limit is far from
// being reached, what is granted may be used until the end of a later slot, as which it
// counts, and more is granted before that. Then nobody waits where slots meet.

// roomy tells whether a rolling limit was far from being reached when the store was heard
// last, so that it may be expected to grant something of a later slot at once.
func (m *shared) roomy(at instant) bool {
	k := &m.known
	return m.kind == store.Rolling && !m.once && k.set && k.slept == m.a.clock.slept &&
		at.low < k.over+m.counts() && (k.remaining > m.amount/2 || k.holders <= 1 && k.remaining > m.amount/4)
}

// lasts is for how many slots after the present one is asked.
func (m *shared) lasts(at instant) int {
	if m.kind != store.Rolling || m.once {
		return 0
	}
	span := m.horizon() + m.notice(true)
	if m.share(at) > 0 {
		span = max(span, int64(m.window)/4)
		if k := &m.known; m.a.owns && (!k.set || at.low >= k.over+m.counts() || k.remaining > m.amount/4*3) {
			span = max(span, int64(m.window)/2)
		}
	}
	return int(min((span-1)/m.width+1, int64(m.slots)))
}

// notice is how long before the end of what there is more is asked for.
func (m *shared) notice(eager bool) int64 { return min(m.lead(m.width, eager), int64(m.window)/4) }

// remains is how much of what there is can be counted on when the answer comes to who
// asks now.
func (m *shared) remains(at instant, room int64, eager bool) int64 {
	if !m.roomy(at) {
		return room
	}
	return min(room, m.lasting(at, m.notice(eager)))
}

// renewal is when to ask for something of a later slot, as what there is will end.
func (m *shared) renewal(at instant, eager bool) int64 {
	h := m.present(at)
	if h == nil || !m.roomy(at) || m.goal(at, h) == 0 {
		return never
	}
	if t := at.low + h.until - at.high - m.notice(eager); t > at.low {
		return t
	}
	return never // or now: there will not be enough soon
}

// brief tells whether the slot in which a store grants something may be over when the
// answer comes. Some of the next one can be used then.
func (m *shared) brief() bool { return 2*m.a.usual+margin(m.width) > m.width/2 }

// reserves is how much of later slots is wanted, when so much waits. Of slots that are
// small for what waits each has room for one, and what is left over of more is of no use.
func (m *shared) reserves(at instant, least, waits int64) int64 {
	if least > m.amount/int64(4*m.slots) {
		return least
	}
	span := min(m.pace.lasts(at.low), m.width+100*int64(time.Millisecond))
	if m.a.owns {
		span = min(m.pace.lasts(at.low), int64(m.window)/4)
	}
	return min(waits+m.pace.in(at.low, span), m.amount)
}

// horizon is for how long is asked for beforehand.
func (m *shared) horizon() int64 {
	if m.kind == store.Quota {
		return second // a process that is killed takes it along for the whole period
	}
	return min(max(int64(m.window)/horizonPart, horizonLeast), horizonMost)
}
