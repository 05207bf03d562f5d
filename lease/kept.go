package lease

import (
	"bytes"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

const (
	// portion is the part of a limit that is journaled beforehand at most, and share the
	// part of what is left of it: so much can be lost in a crash.
	portion = 20
	share   = 200
	// writes is for how many writes of the journal is asked beforehand, and soonLeast
	// for how long at least: more often nothing is written because of one limit.
	writes    = 6
	soonLeast = int64(40 * time.Millisecond)
	// unused is after what time what was not taken goes back.
	unused = int64(250 * time.Millisecond)
	// journal is how long the journal is waited for that does not fail. It is longer than
	// for a store that others have, or a disk that is busy would have a crash forget
	// what was taken meanwhile.
	journal = second
	// stale is how long what was heard from a server may be known to nobody else.
	stale = int64(time.Second)
)

// kept is a meter that survives its process. What counts is in the meter inside; the
// journal has a state of it, and how much may have been taken since that was made.
//
// At every instant, for each record that may be the one in the journal:
//
//	its state + its ahead >= what has been taken
//
// where what is taken, or postponed, after a state was made counts against the ahead
// of that record. ahead is the least that any of them has left. A record is one of
// them from when it is sent, whatever becomes of it, until a later one is known to
// have been written: what has a smaller Seq cannot take its place any more.
//
// While the journal does not answer, the promise is suspended: a file that is full
// must not stop requests. ahead is less than nothing then, and is made good by the
// first record that is written.
type kept struct {
	limit.Meter
	a     *Account
	key   string
	whole int64 // the largest amount that can be taken at once

	ahead   int64 // may be taken before the journal knows
	mark    int64 // ask when less than that is left
	pace    pace
	took    int64
	waiting int64
	first   int64
	dirty   int64 // low: since when the journal does not know all; 0: it does

	planned int64
	writing
	again   bool
	scarce  bool  // there was less to take than there should be ahead
	refused int64 // low: the journal could not make sense of it before

	joint *joint // nil: no other process uses the budget
}

// writing is the record that is under way, or was last.
type writing struct {
	flying  bool
	written int64 // its ahead
	since   int64 // what was taken since it was made
	share   int64 // how much may be ahead of what was left then
	takes   int64 // how long a write takes, about
}

// Kept is a meter that counts as m does and survives the process. One that was made
// for the key before must not be used any more: it may have been moved into m.
func (a *Account) Kept(key string, m limit.Meter) limit.Meter {
	k := &kept{Meter: m, a: a, key: key, planned: never}
	if old, is := a.meters[key].(*kept); is {
		*k = *old
		k.Meter, k.planned, k.whole, k.again = m, never, 0, true
		a.join(k)
		a.stir(k, a.clock.last)
	}
	return k
}

// Restore brings a new meter to where a journal says that it may have been: as in
// state, and ahead taken after that. A state that makes no sense is an error, and
// counts for nothing.
func Restore(now time.Time, m limit.Meter, state []byte, ahead int64) error {
	var err error
	if len(state) > 0 {
		err = m.Restore(now, state)
	}
	if err != nil && firstUse(m) {
		err = restoreJoint(now, m, state)
	}
	if ahead = min(ahead, most); ahead <= 0 {
		return err
	}
	if firstUse(m) && m.Idle(now) {
		// It may have been what opened a window, and nobody knows when: so nothing goes
		// until that has ended, whenever it was.
		ahead = max(ahead, largest(now, m))
	}
	m.Take(now, ahead)
	return err
}

// firstUse tells whether a meter's windows open with what is taken.
func firstUse(m limit.Meter) bool {
	of, err := limit.New(limit.Spec{As: limit.FirstUse, Amount: 1, Window: 1})
	return err == nil && len(m.State()) > 1 && bytes.Equal(m.State()[:2], of.State()[:2])
}

// restoreJoint brings a new first-use meter to where several processes have left it.
func restoreJoint(now time.Time, m limit.Meter, state []byte) error {
	amount := largest(now, m)
	all, err := limit.New(limit.Spec{As: limit.Rolling, Amount: amount, Window: 365 * 24 * time.Hour})
	if err != nil {
		return err
	}
	if err := all.Restore(now, state); err != nil {
		return err
	}
	m.Take(now, amount-all.Left(now))
	return nil
}

// Demand says how much waits for the meter and cannot go. What waits for the meter
// inside needs no journal.
func (m *kept) Demand(_ time.Time, units int64) {
	if m.joint != nil {
		m.joint.demand = units
	}
}

func (m *kept) When(now time.Time, n int64) (time.Time, bool) {
	if m.joint != nil && m.joint.on {
		return m.whenJoint(now, n)
	}
	t, ok := m.Meter.When(now, n)
	if !ok || n <= m.ahead || n <= 0 || t.After(now) {
		return t, ok
	}
	at := m.a.clock.at(now)
	m.first, m.waiting = n, max(m.waiting, n)
	if !m.flying {
		m.a.waits(m, at)
	}
	if m.waitsForStore(at) {
		return now.Add(time.Duration(m.answerIn(at))), true
	}
	asked := m.a.asked(at)
	by := asked + journal
	if m.a.away || at.low >= by || m.refused > at.low {
		return t, true
	}
	return now.Add(time.Duration(min(shortly(asked, at), by-at.low))), true
}

// Rate is that of an adaptive meter, now, per second; 0 of others.
func (m *kept) Rate(now time.Time) float64 {
	if inside, ok := m.Meter.(interface{ Rate(now time.Time) float64 }); ok {
		return inside.Rate(now)
	}
	return 0
}

// Change has the limit be another one, by which as much was taken.
func (m *kept) Change(now time.Time, spec limit.Spec, _ limit.Meter) bool {
	to := spec
	if m.joint != nil {
		if m.joint.spec = spec; m.joint.on {
			to = shape(spec)
		}
	}
	inside, err := limit.Move(now, m.Meter, to)
	if err != nil {
		return false
	}
	m.Meter, m.whole = inside, 0
	m.Lost(now)
	return true
}

// Past is what was taken.
func (m *kept) Past(now time.Time) []limit.Spent { return limit.PastOf(now, m.Meter) }

// Lost says that the journal may have lost what it was told.
func (m *kept) Lost(now time.Time) {
	m.again = true
	m.a.stir(m, m.a.clock.at(now).low)
}

func (m *kept) Take(now time.Time, n int64) {
	m.Meter.Take(now, n)
	m.spend(now, n)
}

func (m *kept) spend(now time.Time, n int64) {
	if n = min(max(n, 0), most); n == 0 {
		return
	}
	at := m.a.clock.at(now)
	m.pace.add(at.low, n)
	m.took = at.low
	m.waiting = max(m.waiting-n, 0)
	if m.waiting == 0 {
		m.first = 0
	}
	m.ahead, m.scarce = max(m.ahead-n, -most), false
	m.since = min(m.since+n, most)
	if m.joint != nil {
		m.joint.use(n)
	}
	if m.dirty == 0 {
		m.dirty = at.low
	}
	switch {
	case m.flying:
	case m.joint != nil && m.joint.on:
		m.a.stir(m, m.due(at, false))
	case m.ahead < 0, m.ahead < m.mark && m.due(at, false) <= at.low:
		m.mark = 0
		m.a.stir(m, at.low)
	case m.planned == never:
		m.a.stir(m, at.low+quiet)
	}
}

// Postpone takes anew: the journal may know only when it was taken at first.
func (m *kept) Postpone(now, taken time.Time, n int64) {
	m.Meter.Postpone(now, taken, n)
	m.back(taken, n)
	m.spend(now, n)
}

func (m *kept) Give(now, taken time.Time, n int64) {
	m.Meter.Give(now, taken, n)
	m.back(taken, n)
	m.soil(now)
}

func (m *kept) back(taken time.Time, n int64) {
	if n = min(max(n, 0), most); m.joint != nil && n > 0 {
		m.joint.back(taken, n)
	}
}

func (m *kept) Settle(now, taken time.Time, estimate, actual int64) {
	m.Meter.Settle(now, taken, estimate, actual)
	if actual > estimate {
		m.spend(now, min(max(actual, 0), most)-min(max(estimate, 0), most))
	} else {
		m.back(taken, min(max(estimate, 0), most)-min(max(actual, 0), most))
		m.soil(now)
	}
}

// soil notes that the meter knows more than the journal, which nobody waits for.
func (m *kept) soil(now time.Time) {
	at := m.a.clock.at(now)
	if m.dirty == 0 {
		m.dirty = at.low
	}
	if !m.flying && m.planned > at.low+stale {
		m.a.stir(m, at.low+stale)
	}
}

// Idle is of the meter inside, and that the journal knows of it.
func (m *kept) Idle(now time.Time) bool {
	return !m.flying && m.ahead == 0 && m.dirty == 0 && m.Meter.Idle(now)
}

// goal is how much there should be ahead: what waits, and what is taken while the journal
// writes a few times.
func (m *kept) goal(at instant) int64 {
	soon := m.pace.in(at.low, second)
	switch {
	case soon < 2:
		soon = 0 // the next one may be long in coming
	case m.lasts():
		part := max(m.pace.in(at.low, min(max(writes*m.takes, soonLeast), second)), 1)
		if m.ahead <= 0 || m.first > m.ahead { // it was not enough
			part = max(part, 2*m.written)
		} else {
			part = max(part, m.written*3/4)
		}
		soon = min(soon, part, max(m.share, 1))
	}
	return min(m.waiting+soon, max(m.whole/portion, 1))
}

// lasts tells whether what is lost is lost for long. Of a short window it soon comes back,
// and the file is written less often.
func (m *kept) lasts() bool {
	return m.joint == nil || m.joint.spec.As == limit.Quota || m.joint.spec.Window >= time.Minute
}

func (m *kept) due(at instant, eager bool) int64 {
	if m.flying {
		return never
	}
	if m.refused > at.low {
		return m.refused
	}
	if m.joint != nil && m.joint.on {
		return m.dueJoint(at, eager)
	}
	goal := m.goal(at)
	rest := m.rest(eager)
	switch {
	case m.again, m.ahead < 0, m.first > m.ahead:
		return at.low
	case m.a.releasing && (m.dirty != 0 || m.ahead > 0):
		return at.low
	case at.low < m.took+min(rest, unused) && m.ahead < mark(goal, eager) && !m.scarce && !m.a.releasing:
		return at.low
	case m.dirty != 0 && m.took < m.dirty && m.ahead == 0: // heard, not taken
		return m.dirty + stale
	case m.dirty != 0 || m.ahead > 0:
		return max(m.took, m.dirty) + rest
	}
	return never
}

// rest is how long nothing is taken before that is written down.
func (m *kept) rest(eager bool) int64 {
	rest := quiet
	if m.ahead > 0 {
		rest = unused
	}
	if eager {
		rest -= rest / 5
	}
	return rest
}

func (m *kept) ask(now time.Time, at instant) store.Ask {
	if m.whole == 0 {
		m.whole = largest(now, m.Meter)
	}
	n, left := int64(0), m.Meter.Left(now)
	m.scarce, m.share = false, max(left/share, 1)
	if !m.a.releasing && (m.first > m.ahead || at.low < m.took+unused-unused/5) {
		n = max(m.goal(at), m.first)
		if n > left {
			n, m.scarce = max(left, m.first), true
		}
	}
	ask := store.Ask{Key: m.key, Kind: store.Count, Want: n}
	if n > 0 || !m.Meter.Idle(now) {
		ask.State = m.Meter.State()
	}
	if m.joint != nil {
		m.askJoint(now, at, &ask)
		n = ask.Want
	}
	m.flying, m.again, m.dirty = true, false, 0
	m.written, m.since = n, 0
	m.ahead = min(m.ahead, n)
	return ask
}

func (m *kept) hear(now time.Time, at, sent instant, ans *store.Answer) {
	if ans.Status != store.Done {
		m.lost(at)
		if ans.Status == store.Failed {
			m.refused = at.low + retriesMost
		}
		return
	}
	m.flying = false
	m.takes += (at.low - sent.low - m.takes) / 4
	m.ahead = max(m.written-m.since, -most)
	if m.joint != nil {
		m.hearJoint(now, at, ans)
	}
	if m.ahead > 0 {
		m.took = at.low // whoever wanted it may ask again
	}
	m.mark = max(mark(m.goal(at), false), (m.ahead+3)/4)
	m.first, m.waiting = 0, 0
	if m.since > 0 && m.dirty == 0 {
		m.dirty = at.low
	}
}

// lost leaves ahead as it is: less than any record has left.
func (m *kept) lost(at instant) {
	m.flying, m.again = false, true
	if m.joint != nil {
		m.joint.owned = false
	}
	if m.dirty == 0 {
		m.dirty = at.low
	}
}

func (m *kept) renew(instant) { m.again = true }

func (m *kept) name() string   { return m.key }
func (m *kept) when() int64    { return m.planned }
func (m *kept) plan(low int64) { m.planned = low }

func (m *kept) done(instant) bool {
	return !m.flying && !m.again && m.ahead == 0 && m.dirty == 0
}

// largest is the most that can be taken at once.
func largest(now time.Time, m limit.Meter) int64 {
	low, high := int64(1), most
	for low < high {
		n := low + (high-low+1)/2
		if _, ok := m.When(now, n); ok {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}
