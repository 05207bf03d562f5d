package lease

import (
	"cmp"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

const (
	// aheadPart and aheadOfLeftPart bound what is journaled in advance: amount/aheadPart,
	// and the units left/aheadOfLeftPart. So much can be lost in a crash.
	aheadPart       = 20
	aheadOfLeftPart = 200
	// aheadWrites is the number of journal writes for which units are journaled in advance,
	// and minAheadTime the minimum time: one limit causes no more frequent writes.
	aheadWrites  = 6
	minAheadTime = int64(40 * time.Millisecond)
	// unusedReturnDelay is the time after which units that were not taken are returned.
	unusedReturnDelay = int64(250 * time.Millisecond)
	// journalTimeout is the timeout of a journal that reports no error. It is longer than
	// for a shared store: otherwise a busy disk would make a crash lose what was taken
	// meanwhile.
	journalTimeout = second
	// maxUnwrittenTime is the longest time for which a server's report may stay unwritten.
	maxUnwrittenTime = int64(time.Second)

	// outageAfter is the duration of an outage after which this process alone decides about
	// a budget of several processes.
	outageAfter = 10 * second
	// reportAfter is the time after which takes of a budget are reported that other
	// processes use now.
	reportAfter = 10 * int64(time.Millisecond)
	// minPause and maxPause bound the pause between asks for units of other processes.
	minPause = 20 * int64(time.Millisecond)
	maxPause = 500 * int64(time.Millisecond)
	// lookahead is the time ahead for which a process asks for units of a budget that others
	// use.
	lookahead = 200 * int64(time.Millisecond)
)

// durable is a meter that survives its process, and that processes of this machine may use at
// the same time. It is not safe for concurrent use; the account's lock guards it.
//
// The store has a state of the inner meter, and how much may have been taken since that state
// was made: what may be taken stands in the store before. While no other process uses the
// budget, the inner meter is authoritative, the store has a copy, and a take waits for the
// store for journalTimeout at most. While several use it, the store is authoritative, and the
// inner meter is a copy of its last answer: only ahead may be taken.
type durable struct {
	limit.Meter
	a    *Account
	src  *source
	spec limit.Spec

	ahead     int64 // units that may be taken before the next write
	rate      rateMeter
	lastTake  int64
	waiting   int64 // the largest amount that was not ahead, since the last answer
	least     int64 // the smallest such amount; 0: none. Estimates ask for more than one request needs
	demand    int64 // units that wait for the meter
	takes     takes // that the store does not know
	unwritten int64 // low: since when the store lacks something; 0: it has all

	// The record that is being written, or was written last.
	written    int64 // the record's ahead
	aheadLimit int64 // upper bound of ahead, by the units left then
	owned      bool  // it is of this meter, or origin is
	origin     store.Origin
	lacks      bool // the record may lack what the inner meter has

	othersUse bool  // other processes use the budget
	others    int64 // how much they may take
	enoughAt  int64 // low: when enough may be left for waiting units, if other processes take none
	pollAt    int64 // low: when to ask whether others have returned some
	notBefore int64 // low: nothing is asked for before
	pause     int64
}

// Durable makes a meter of spec that counts as m does and survives the process. m has the
// state that was read, with its Origin. A meter made for the key before must not be used any
// more: it may have been moved into m.
func (a *Account) Durable(key string, spec limit.Spec, m limit.Meter, from store.Origin) limit.Meter {
	k := &durable{Meter: m, a: a, src: a.source(key), origin: from, owned: true}
	if old, ok := k.src.meter.(*durable); ok {
		*k = *old
		k.Meter, k.src.mustRestate = m, true
		a.schedule(k.src, a.clock.highest)
	}
	k.spec, k.src.meter = spec, k
	return k
}

// Restore brings m, a new meter of spec, to the state in a store, with ahead units taken
// after that. An invalid state is an error and is ignored. m must not be used any more.
func Restore(now time.Time, spec limit.Spec, m limit.Meter, state []byte, ahead int64) (limit.Meter, error) {
	m, err := restore(now, spec, jointSpec(spec), m, state) // of several processes
	if ahead = min(ahead, maxAmount); ahead <= 0 {
		return m, err
	}
	if spec.Traits().Returns != limit.AfterFirstUse || !m.Idle(now) {
		m.Take(now, ahead)
	} else if again, unfit := limit.Carry(now, append(limit.PastOf(now, m), limit.Spent{N: ahead}), spec); unfit == nil {
		m = again // they may have opened a window at any time
	}
	return m, err
}

// OthersUse reports whether other processes use the budget now.
func (m *durable) OthersUse() bool { return m.othersUse }

// Left returns the units that are left, as far as is known, but for those that other processes may take.
func (m *durable) Left(now time.Time) int64 { return m.Meter.Left(now) - m.others }

// Within returns the inner meter: the state of the limit, whatever the store has.
func (m *durable) Within() limit.Meter { return m.Meter }

// Demand sets how many units wait for the meter and cannot be taken.
func (m *durable) Demand(_ time.Time, units int64) { m.demand = units }

func (m *durable) When(now time.Time, n int64) (time.Time, bool) {
	t, ok := m.Meter.When(now, n)
	if !ok || n <= max(m.ahead, 0) {
		return t, ok
	}
	at := m.a.clock.at(now)
	switch {
	case m.othersUse && !m.a.failing(at):
		t, _ = m.Meter.When(now, min(n+m.others, m.spec.AtOnce()))
	case m.othersUse || t.After(now):
		return t, true
	}
	m.waiting = max(m.waiting, n)
	if m.least == 0 || n <= m.least {
		m.least, m.enoughAt = n, at.low+max(int64(t.Sub(now)), 0)
	}
	if low := m.due(at); low > at.low {
		m.a.schedule(m.src, low)
	} else {
		m.a.setWaiting(m.src, at)
	}
	asked := m.a.waitStart(at)
	switch {
	case t.After(now):
		return t, true
	case m.othersUse, m.a.present() > 1 && !m.a.failing(at): // others rely on the state
		return now.Add(time.Duration(m.answerIn(at))), true
	case m.a.away, at.low >= asked+journalTimeout:
		return t, true
	}
	return now.Add(time.Duration(min(checkAgainIn(asked, at), asked+journalTimeout-at.low))), true
}

// answerIn returns the time until the next check whether an answer has arrived.
func (m *durable) answerIn(at instant) int64 {
	if low := m.wantsFrom(at); m.src.asked == 0 && low > at.low {
		return low - at.low
	}
	if m.a.away {
		return max(m.a.retryAt-at.low, minPause)
	}
	return min(checkAgainIn(m.a.waitStart(at), at), maxPause)
}

// failing tells whether the store has failed for so long that this process decides alone.
func (a *Account) failing(at instant) bool { return a.away && at.low-a.awaySince >= outageAfter }

// Asks tells whether n units, which the inner meter has, wait for the store.
func (m *durable) Asks(now time.Time, n int64) bool {
	if n <= max(m.ahead, 0) || m.othersUse && m.a.failing(m.a.clock.at(now)) {
		return false
	}
	t, ok := m.Meter.When(now, max(n, min(n+m.others, m.spec.AtOnce())))
	return ok && !t.After(now)
}

// Away implements queue.Remote: the inner meter lets requests go without the journal.
func (m *durable) Away(time.Time) bool { return false }

// Change replaces the limit; units that were taken stay taken.
func (m *durable) Change(now time.Time, spec limit.Spec, _ limit.Meter) bool {
	m.spec = spec
	if m.othersUse {
		spec = jointSpec(spec)
	}
	inside, err := limit.Move(now, m.Meter, spec)
	if err != nil {
		return false
	}
	m.Meter = inside
	m.Lost(now)
	return true
}

// Past lists what was taken.
func (m *durable) Past(now time.Time) []limit.Spent { return limit.PastOf(now, m.Meter) }

// Lost tells that the journal may have lost records.
func (m *durable) Lost(now time.Time) {
	m.src.mustRestate, m.lacks = true, true
	m.a.schedule(m.src, m.a.clock.at(now).low)
}

func (m *durable) Take(now time.Time, n int64) {
	m.Meter.Take(now, n)
	m.takes.add(n)
	m.spend(now, n)
}

func (m *durable) spend(now time.Time, n int64) {
	if n = min(max(n, 0), maxAmount); n == 0 {
		return
	}
	at := m.a.clock.at(now)
	m.rate.add(at.low, n)
	m.lastTake = at.low
	m.waiting = max(m.waiting-n, 0)
	m.ahead = max(m.ahead-n, -maxAmount)
	m.unwritten = cmp.Or(m.unwritten, at.low)
	m.a.schedule(m.src, m.due(at))
}

// Postpone takes the units again: the journal may only know the first take.
func (m *durable) Postpone(now, taken time.Time, n int64) {
	m.Meter.Postpone(now, taken, n)
	m.takes.change(taken, min(max(n, 0), maxAmount))
	m.spend(now, n)
}

func (m *durable) Give(now, taken time.Time, n int64) {
	m.Meter.Give(now, taken, n)
	m.takes.change(taken, -min(max(n, 0), maxAmount))
	m.markUnwritten(now)
}

func (m *durable) Settle(now, taken time.Time, estimate, actual int64) {
	m.Meter.Settle(now, taken, estimate, actual)
	if extra := min(max(actual, 0), maxAmount) - min(max(estimate, 0), maxAmount); extra > 0 {
		m.takes.add(extra)
		m.spend(now, extra)
	} else {
		m.takes.change(taken, extra)
		m.markUnwritten(now)
	}
}

// markUnwritten records that the meter has information that is not journaled. No request
// waits for the write.
func (m *durable) markUnwritten(now time.Time) {
	at := m.a.clock.at(now)
	m.unwritten = cmp.Or(m.unwritten, at.low)
	if m.src.asked == 0 && m.src.planned > at.low+maxUnwrittenTime {
		m.a.schedule(m.src, at.low+maxUnwrittenTime)
	}
}

// Idle tells whether the inner meter is idle and the journal is complete.
func (m *durable) Idle(now time.Time) bool {
	return m.src.asked == 0 && m.ahead == 0 && m.unwritten == 0 && m.Meter.Idle(now)
}

// goal returns how many units should be ahead: those that wait, and those taken soon.
func (m *durable) goal(at instant) int64 {
	soon, most := m.rate.unitsIn(at.low, second), max(m.spec.AtOnce()/aheadPart, 1)
	switch {
	case soon < 2 || m.othersUse && m.spec.Traits().Spaced:
		soon = 0 // the next take may be far off, or is not due yet
	case m.othersUse:
		soon = min(m.rate.unitsIn(at.low, lookahead), most)
	case m.spec.Length() >= time.Minute: // units of a shorter window come back soon, so it is written less often
		part := max(m.rate.unitsIn(at.low, min(max(aheadWrites*m.a.usualAnswer, minAheadTime), second)), 1)
		if m.ahead <= 0 || m.waiting > m.ahead { // the last value was too small
			part = max(part, 2*m.written)
		} else {
			part = max(part, m.written*3/4)
		}
		soon = min(soon, part, max(m.aheadLimit, 1))
	}
	switch {
	case !m.othersUse: // units that wait for the inner meter are not needed yet
		return min(m.waiting+soon, most)
	case m.waiting > m.ahead:
		soon += max(m.waiting, m.demand)
	}
	return min(soon, m.spec.AtOnce())
}

func (m *durable) due(at instant) int64 {
	low := never
	switch {
	case m.src.asked != 0:
		return never
	case m.src.mustRestate, m.ahead < 0, m.a.releasing && (m.unwritten != 0 || m.ahead > 0):
		return at.low
	case m.waiting > m.ahead:
		low = m.wantsFrom(at)
	}
	if m.unwritten == 0 && m.ahead == 0 {
		return low
	}
	delay := m.writeDelay()
	if at.low < m.lastTake+min(delay, unusedReturnDelay) && m.ahead < askThreshold(m.goal(at)) && m.wantsFrom(at) <= at.low {
		return at.low
	}
	return min(low, max(m.lastTake, m.unwritten)+delay)
}

// wantsFrom returns the time from which more should be asked for: when enough may be left, or
// others may have returned some.
func (m *durable) wantsFrom(at instant) int64 {
	low := m.enoughAt
	if m.others > 0 {
		low = min(low, m.pollAt)
	}
	return max(low, m.notBefore, at.low)
}

// writeDelay returns the time without takes after which the state is written.
func (m *durable) writeDelay() int64 {
	delay := idleBeforeReturn
	switch {
	case m.others > 0 || m.othersUse && m.waiting > m.ahead:
		delay = reportAfter
		if m.ahead > 0 {
			delay *= 10
		}
	case m.ahead > 0:
		delay = unusedReturnDelay
	}
	return delay
}

func (m *durable) ask(now time.Time, at instant, seq uint64) store.Ask {
	n, left, most, waits := int64(0), m.Meter.Left(now), m.spec.AtOnce(), m.waiting > m.ahead && !m.a.releasing
	m.aheadLimit = max(left/aheadOfLeftPart, 1)
	if waits || !m.a.releasing && at.low < m.lastTake+unusedReturnDelay {
		n = min(max(m.goal(at), m.waiting), most)
	}
	if !m.othersUse && n > left {
		n = max(left, m.waiting)
	}
	ask := store.Ask{Kind: store.Count, Want: n, Joint: &store.Joint{
		Owned: m.owned && !m.othersUse, From: m.origin,
		Keep: min(m.ahead, n),
		Uses: m.takes.unansweredUses(now, seq),
	}}
	if n > 0 || !m.Meter.Idle(now) {
		ask.State = m.Meter.State()
	}
	var inner []byte
	if m.lacks {
		inner = ask.State
	}
	ask.Joint.Merge = merge(m.spec, max(m.waiting, 1), inner)
	if waits {
		ask.Least, ask.Waits = m.least, max(m.waiting, 1)
	}
	m.written, m.ahead, m.unwritten = n, min(m.ahead, n), 0
	return ask
}

func (m *durable) receive(now time.Time, at, _ instant, ans *store.Answer) {
	if ans.Status != store.Done {
		m.src.answerLost(at)
		return
	}
	m.takes.answered(ans.Seq)
	m.lacks = m.lacks && m.src.mustRestate // it was lost again since the ask
	m.othersUse, m.others, m.owned, m.origin = ans.Holders > 1, ans.Others, true, store.Origin{}
	if ans.State != nil && !m.lacks {
		if fresh, err := jointMeter(now, m.spec, ans.State); err == nil {
			fresh.Take(now, m.takes.sinceAsk)
			m.Meter = fresh
		}
	}
	if m.ahead = ans.Granted - m.takes.sinceAsk; m.ahead > 0 {
		m.lastTake = at.low // waiting requests may ask again
	}
	if ans.Granted >= m.waiting {
		m.pause, m.pollAt, m.notBefore = 0, 0, 0
	} else {
		m.pause = min(max(2*m.pause, minPause), maxPause)
		m.pollAt, m.notBefore = at.low+m.pause, at.low+minPause
	}
	m.waiting, m.least = 0, 0
}

// answerLost does not change ahead: it is less than any record has left.
func (m *durable) answerLost(at instant) {
	m.owned, m.unwritten = false, cmp.Or(m.unwritten, at.low)
}

func (m *durable) forgettable(instant) bool { return m.ahead == 0 && m.unwritten == 0 }
