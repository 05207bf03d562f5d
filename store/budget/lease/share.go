package lease

import "github.com/abide-proxy/abide/store"

// A budget that no other instance uses need not be asked for in small parts. The owner of a
// site takes a large share with its first request, and keeps the share as long as it lasts.
// An instance that only appears to be alone takes less, when it asks again soon, and
// returns the share after a while. Other instances may join in both cases: the store grants
// nothing twice, so they find less until then.
const (
	ownedPart      = 8 // -
	alonePart      = 16
	quotaPart      = 256 // of a day or a month, which is lost with a process that is killed
	aloneShareTime = 30 * second
)

// alone tells whether no other instance used the budget by the store's last answer.
func (m *demand) alone(at instant) bool {
	k := &m.known
	return k.set && k.holders <= 1 && m.lastTake > 0 && at.low < k.endedBy+max(m.countsFor(), m.width)
}

// share is how much is taken at once of a budget that no other instance uses.
func (m *demand) share(at instant) int64 {
	switch {
	case m.once || m.a.releasing:
		return 0
	case m.kind == store.Rolling && m.known.set && at.low < m.known.endedBy+m.countsFor() && !m.farFromLimit(at):
		return 0 // a share may be used for one slot only
	case !m.a.ownsSite && (!m.alone(at) || at.low-m.lastTake >= aloneShareTime/2), m.a.ownsSite && m.known.set && m.known.holders > 1:
		return 0
	}
	return m.part()
}

// part is the size of a share, as a fraction of the amount.
func (m *demand) part() int64 {
	switch {
	case m.kind == store.Quota:
		return m.amount / quotaPart
	case m.a.ownsSite:
		return m.amount / ownedPart
	}
	return m.amount / alonePart
}

// shareFor is what is taken if needed units are needed.
func (m *demand) shareFor(at instant, needed int64) int64 {
	if needed <= 0 {
		return needed
	}
	return max(needed, m.share(at))
}

// shareKeptFor is how long an unspent share is kept; 0: there is no share.
func (m *demand) shareKeptFor(at instant) int64 {
	switch {
	case m.a.releasing || m.once || !m.alone(at) || m.available(at) > m.part():
		return 0
	case m.a.ownsSite && m.kind != store.Quota:
		return never / 2
	}
	return aloneShareTime
}
