package lease

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// shared is a meter that counts what the store has leased to this instance. It is
// never used for more than that, and each lease only within its window.
//
// What cost more than was leased is owed, and paid from the next lease before
// anything else.
type shared struct {
	budget
	a      *Account
	key    string
	outage Outage

	holds []hold // in order of their windows
	owed  int64
	since int64 // when something began to be owed
	pace  pace
	took  int64 // when something was taken last
	home  int64 // when something was given back last
	vain  int   // times that it was given back although it had been asked for

	waiting int64 // units that cannot go
	first   int64 // of these, what has to come at once
	silence int   // answers after which nobody asked again

	planned int64
	flying  bool
	again   bool     // what is held has to be said, whatever is wanted
	known   position // what the last answer said
	sure    bool     // the store that is there now has said where its window ends
	poll    int64    // nothing is left: do not ask before
	pause   int64
	unit    int64 // what was taken last in one go
	lacks   int64 // the least that was of use, in the last ask that had one
	forward int64 // the window for which a forward lease was asked
	broken  bool  // the store cannot make sense of the budget
	outside outside
	record
	unsaid  int64 // lent since the last ask
	untold  int64 // lent since the last Loan was made
	wanted  bool  // by the last ask
	lacking bool  // somebody waited for that
	soonest int64 // low: nothing is asked for beforehand until then
}

// Shared is the meter of a budget that the store divides between instances. It is nil
// for a limit that is not Shareable. One that was made for the key before, with
// another spec, must not be used any more.
func (a *Account) Shared(key string, spec limit.Spec, o Outage) limit.Meter {
	b, ok := shareable(spec)
	if !ok {
		return nil
	}
	m := &shared{budget: b, a: a, key: key, outage: o, planned: never, record: record{past: everything}}
	if old, is := a.meters[key].(*shared); is {
		amount := m.amount
		if old.same(&b) {
			*m = *old
			m.amount, m.outage = amount, o
		}
		m.flying, m.again = false, true
		m.planned = never
		a.join(m)
		a.stir(m, a.clock.last)
	}
	return m
}

// Change has the limit be another one of the same windows.
func (m *shared) Change(now time.Time, spec limit.Spec, _ limit.Meter) bool {
	b, ok := shareable(spec)
	if !ok || !m.same(&b) {
		return false
	}
	m.amount, m.again = b.amount, true
	m.a.stir(m, m.a.clock.at(now).low)
	return true
}

// Demand says how much waits for the meter and cannot go.
func (m *shared) Demand(now time.Time, units int64) {
	at := m.a.clock.at(now)
	m.await(at, min(max(units, 0), most))
	if m.waiting == 0 {
		m.first = 0
	} else if low := m.due(at, false); low <= at.low {
		m.a.stir(m, low)
	}
}

// await notes how much waits. The pace is that at which it comes: what waits for the
// next window goes all at once, and says nothing of what follows.
func (m *shared) await(at instant, units int64) {
	if more := units - m.waiting; more > 0 {
		m.pace.add(at.low, more)
	}
	m.waiting, m.silence = units, 0
}

// lack notes that n cannot go.
func (m *shared) lack(at instant, n int64) {
	m.first = n
	m.await(at, max(m.waiting, n))
	switch {
	case m.flying:
	case m.settled(at) > at.low:
		m.a.stir(m, m.settled(at))
	case m.poll > at.low:
		m.a.stir(m, m.poll)
	default:
		if n, from := m.coming(at); n > 0 {
			m.a.stir(m, from)
			return
		}
		if low := m.due(at, false); low > at.low {
			m.a.stir(m, low) // there is nothing to say before
			return
		}
		m.a.waits(m, at)
	}
}

func (m *shared) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > m.amount {
		return now, false
	}
	at := m.a.clock.at(now)
	wait := int64(0)
	if m.room(at) < n {
		m.lack(at, n)
		if m.room(at)+m.lendable(at) < n {
			wait = max(m.later(at, n)-at.low, 1)
		}
	}
	if wait > 0 {
		return now.Add(time.Duration(wait)), true
	}
	return now, true
}

func (m *shared) Take(now time.Time, n int64) {
	if n = min(max(n, 0), most); n == 0 {
		return
	}
	at := m.a.clock.at(now)
	m.unit = n
	waited := min(m.waiting, n)
	m.waiting -= waited
	m.pace.add(at.low, n-waited)
	m.spend(at, n)
	if m.waiting == 0 {
		m.first = 0
	}
}

// spend takes n from what is held, then from what may be taken without the store,
// and owes the rest.
func (m *shared) spend(at instant, n int64) {
	m.took, m.vain = at.low, 0
	if more := n - m.room(at); more > 0 {
		m.lend(at, min(more, m.lendable(at)))
	}
	last := m.present(at)
	for i := range m.holds { // what ends first goes first
		if h := &m.holds[i]; h.usable(at) {
			if x := min(n, h.free(at)); x > 0 {
				h.take(at.low, x)
				n -= x
			}
		}
	}
	if last != nil {
		m.look(at, last)
	}
	if n > 0 {
		if m.owed == 0 {
			m.since = at.low
		}
		m.owed = min(m.owed+n, most)
		m.a.stir(m, at.low)
	}
}

// look plans what follows from having taken something: more, before it runs out, or
// to give the rest back.
func (m *shared) look(at instant, h *hold) {
	switch {
	case m.flying:
	case m.room(at) < h.mark:
		h.mark /= 2
		if low := m.due(at, false); low <= at.low {
			m.a.stir(m, low)
			return
		}
		fallthrough
	case m.planned == never:
		m.a.stir(m, m.due(at, false))
	}
}

func (m *shared) Give(now, taken time.Time, n int64) {
	m.back(now, taken, n)
}

// back gives n back where it was taken from, if that is known. Of two holds it may be
// from, the first one: what the other one counts is counted for longer.
func (m *shared) back(now, taken time.Time, n int64) {
	at := m.a.clock.at(now)
	n = min(max(n, 0), most)
	low, known := m.a.clock.past(taken)
	if !known || n == 0 {
		return
	}
	for i := range m.holds {
		if h := &m.holds[i]; h.took(low) {
			x := min(n, h.used)
			h.used -= x
			n -= x
		}
	}
	if m.owed > 0 && low >= m.since {
		m.owed = max(m.owed-n, 0)
	}
	m.present(at)
	m.a.stir(m, m.due(at, false))
}

func (m *shared) Postpone(now, taken time.Time, n int64) {
	m.Give(now, taken, n)
	m.Take(now, n)
}

func (m *shared) Settle(now, taken time.Time, estimate, actual int64) {
	switch more := min(max(actual, 0), most) - min(max(estimate, 0), most); {
	case more > 0:
		m.spend(m.a.clock.at(now), more)
	case more < 0:
		m.back(now, taken, -more)
	}
}

// Done has nothing to do: each lease ends early enough for what is on its way.
func (m *shared) Done(time.Time, time.Time, int64, limit.Outcome) {}

// Left is what could be taken without asking anybody.
func (m *shared) Left(now time.Time) int64 {
	at := m.a.clock.at(now)
	return m.room(at) + m.lendable(at)
}

// Rest is what this instance could have at most, as far as it knows: what is leased,
// and what was left for anybody when the store was last heard.
func (m *shared) Rest(now time.Time) int64 {
	at := m.a.clock.at(now)
	rest := m.amount
	if m.known.set && m.known.over > at.low {
		rest = m.known.remaining
	}
	return max(min(rest+m.room(at)-m.owed, m.amount), 0)
}

// State is nil: the store has it.
func (m *shared) State() []byte { return nil }

// Restore has nothing to do.
func (m *shared) Restore(time.Time, []byte) error { return nil }

func (m *shared) Idle(now time.Time) bool {
	return m.done(m.a.clock.at(now))
}
