package lease

import "github.com/abide-proxy/abide/store"

// A budget that no other instance uses need not be asked for in small parts. Whoever owns
// its site takes a large one with its first request, and keeps it as long as it lasts;
// whoever only seems to be alone takes less, when it comes again soon, and gives it back
// after a while. Others may come in both cases: the store grants nothing twice, so
// they find that much less until then.
const (
	ownedPart = 8
	alonePart = 16
	quotaPart = 256 // of a day or a month, which is lost with a process that is killed
	aloneRest = 30 * second
)

// alone tells whether nobody else used the budget when the store was heard last.
func (m *shared) alone(at instant) bool {
	k := &m.known
	return k.set && k.holders <= 1 && m.took > 0 && at.low < k.over+max(m.counts(), m.width)
}

// share is how much is taken at once of a budget that nobody else uses.
func (m *shared) share(at instant) int64 {
	switch {
	case m.once || m.a.releasing:
		return 0
	case m.kind == store.Rolling && m.known.set && at.low < m.known.over+m.counts() && !m.roomy(at):
		return 0 // so much may not be used longer than a slot lasts
	case !m.a.owns && (!m.alone(at) || at.low-m.took >= aloneRest/2), m.a.owns && m.known.set && m.known.holders > 1:
		return 0
	}
	return m.part()
}

// part is how large a share is.
func (m *shared) part() int64 {
	switch {
	case m.kind == store.Quota:
		return m.amount / quotaPart
	case m.a.owns:
		return m.amount / ownedPart
	}
	return m.amount / alonePart
}

// large is what is taken where so much is needed.
func (m *shared) large(at instant, needed int64) int64 {
	if needed <= 0 {
		return needed
	}
	return max(needed, m.share(at))
}

// restful is for how long what is unspent of a share is kept; 0: it is no share.
func (m *shared) restful(at instant) int64 {
	switch {
	case m.a.releasing || m.once || !m.alone(at) || m.room(at) > m.part():
		return 0
	case m.a.owns && m.kind != store.Quota:
		return never / 2
	}
	return aloneRest
}
