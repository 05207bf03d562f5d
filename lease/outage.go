package lease

// Outage is what a shared meter does while the store does not answer.
type Outage uint8

// The ways through an outage.
const (
	Share  Outage = iota // what was left when the store was last heard, by the number of members; then their part of each window
	Strict               // only what is leased
	Open                 // the whole amount, by this instance alone
)

// lendable is how much may be taken now without the store, beside what is leased.
func (m *shared) lendable(at instant) int64 {
	if m.outage == Strict || !m.broken && !m.a.alone(at) && m.a.settled <= at.low {
		return 0
	}
	if !m.known.set {
		m.guess(at)
	}
	s, ok := m.span(at)
	if !ok {
		return 0
	}
	return max(m.allowed(at, s, m.hold(s.window))-m.owed, 0)
}

// allowed is what the outage rule allows more in a window of which h is held.
func (m *shared) allowed(at instant, s span, h *hold) int64 {
	n, lent := int64(0), int64(0)
	if h != nil {
		n, lent = h.n, h.lent
	}
	if m.slots > 0 { // all that counts
		n, lent = 0, 0
		for i := range m.holds {
			h := &m.holds[i]
			if h.over+m.counts() <= at.low {
				continue
			}
			lent += h.lent
			if h.window == s.window {
				n += h.n
			} else {
				n += h.used
			}
		}
	}
	part := m.amount / m.a.members()
	switch {
	case m.outage == Open:
		return max(m.amount-n, 0)
	case at.low < m.known.over+m.counts():
		return max(m.known.remaining/m.a.members()-lent, 0)
	}
	return max(part-n, 0)
}

// lend takes up n that nobody granted. It is said to the store when that is back.
func (m *shared) lend(at instant, n int64) {
	s, ok := m.span(at)
	if n <= 0 || !ok {
		return
	}
	h := m.open(s.window, hold{from: at.low, until: s.until, over: s.over})
	h.n, h.lent = h.n+n, h.lent+n
	m.again = true
	m.a.stir(m, at.low)
}

// guess is where a store would be that has the time of this machine, for as long as
// none was heard.
func (m *shared) guess(at instant) {
	now := m.a.clock.time(at.low)
	window, since := m.at(now)
	length := m.length(window)
	end := at.low + length - since
	m.known = position{
		set: true, window: window, over: end, until: end + at.high - at.low - margin(length),
		free: end, at: at.low, remaining: m.amount,
	}
}
