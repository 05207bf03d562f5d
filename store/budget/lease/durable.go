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
)

// durable is a meter that survives its process, and that processes of this machine may use at
// the same time. The inner meter counts; the journal has a state of it, and how much may have
// been taken since that state was made. It is not safe for concurrent use; the account's lock
// guards it.
type durable struct {
	limit.Meter
	a       *Account
	key     string
	maxTake int64 // the largest amount that can be taken at once

	ahead     int64 // units that may be taken before the next journal write
	askBelow  int64 // ask when less than that is left
	rate      rateMeter
	lastTake  int64
	waiting   int64
	minimum   int64
	unwritten int64 // low: since when the journal lacks something; 0: it is complete

	planned      int64
	mustRestate  bool
	scarce       bool  // fewer units were left than should be ahead
	refusedUntil int64 // low: the journal could not read its entry; do not ask before

	// The record of the journal that is being written, or was written last.
	inFlight   bool
	written    int64 // the record's ahead
	since      int64 // units taken since the record was made
	aheadLimit int64 // upper bound of ahead, by the units left then
	writeTime  int64 // approximate duration of a write

	joint joint
}

// Durable makes a meter of spec that counts as m does and survives the process. m has the
// state that was read, with its Origin. A meter made for the key before must not be used any
// more: it may have been moved into m.
func (a *Account) Durable(key string, spec limit.Spec, m limit.Meter, from store.Origin) limit.Meter {
	k := &durable{Meter: m, a: a, key: key, planned: never, joint: joint{origin: from, owned: true}}
	if old, ok := a.sources[key].(*durable); ok {
		*k = *old
		k.Meter, k.planned, k.maxTake, k.mustRestate = m, never, 0, true
		a.add(k)
		a.schedule(k, a.clock.highest)
	}
	k.joint.spec = spec
	return k
}

// Restore brings m, a new meter of spec, to the state in a journal, with ahead units taken
// after that. An invalid state is an error and is ignored.
func Restore(now time.Time, spec limit.Spec, m limit.Meter, state []byte, ahead int64) error {
	firstUse := spec.Traits().Returns == limit.AfterFirstUse
	var err error
	if len(state) > 0 {
		err = m.Restore(now, state)
	}
	if err != nil && firstUse { // several processes have used it
		var all limit.Meter
		if all, err = limit.New(jointSpec(spec)); err == nil {
			err = all.Restore(now, state)
		}
		if err == nil {
			m.Take(now, spec.Amount-all.Left(now))
		}
	}
	if ahead = min(ahead, maxAmount); ahead <= 0 {
		return err
	}
	if firstUse && m.Idle(now) {
		// The units may have opened a window at an unknown time: so nothing may be taken
		// until that window has certainly ended.
		ahead = max(ahead, largestTake(now, m))
	}
	m.Take(now, ahead)
	return err
}

// OthersUse reports whether other processes use the budget now.
func (m *durable) OthersUse() bool { return m.joint.othersUse }

// Within returns the inner meter: the state of the limit, whatever is journaled.
func (m *durable) Within() limit.Meter { return m.Meter }

// Demand sets how many units wait for the meter and cannot be taken. Units that wait for
// the inner meter need no journal.
func (m *durable) Demand(_ time.Time, units int64) { m.joint.demand = units }

func (m *durable) When(now time.Time, n int64) (time.Time, bool) {
	if m.joint.othersUse {
		return m.whenJoint(now, n)
	}
	t, ok := m.Meter.When(now, n)
	if !ok || n <= m.ahead || n <= 0 || t.After(now) {
		return t, ok
	}
	at := m.a.clock.at(now)
	m.minimum, m.waiting = n, max(m.waiting, n)
	if !m.inFlight {
		m.a.setWaiting(m, at)
	}
	if m.waitsForStore(at) {
		return now.Add(time.Duration(m.answerIn(at))), true
	}
	asked := m.a.waitStart(at)
	by := asked + journalTimeout
	if m.a.away || at.low >= by || m.refusedUntil > at.low {
		return t, true
	}
	return now.Add(time.Duration(min(checkAgainIn(asked, at), by-at.low))), true
}

// Asks tells whether n units, which the inner meter has, wait for the journal.
func (m *durable) Asks(now time.Time, n int64) bool {
	if n <= 0 || n <= m.ahead {
		return false
	}
	if !m.joint.othersUse {
		t, ok := m.Meter.When(now, n)
		return ok && !t.After(now)
	}
	if m.maxTake == 0 {
		m.maxTake = largestTake(now, m.Meter)
	}
	if n > m.maxTake || m.a.failing(m.a.clock.at(now)) {
		return false
	}
	t, ok := m.Meter.When(now, min(n+m.joint.others, m.maxTake))
	return ok && !t.After(now)
}

// Away implements queue.Remote: the inner meter lets requests go without the journal.
func (m *durable) Away(time.Time) bool { return false }

// Rate returns an adaptive meter's current rate per second; 0 for other meters.
func (m *durable) Rate(now time.Time) float64 {
	if inside, ok := m.Meter.(interface{ Rate(now time.Time) float64 }); ok {
		return inside.Rate(now)
	}
	return 0
}

// Change replaces the limit; units that were taken stay taken.
func (m *durable) Change(now time.Time, spec limit.Spec, _ limit.Meter) bool {
	m.joint.spec = spec
	if m.joint.othersUse {
		spec = jointSpec(spec)
	}
	inside, err := limit.Move(now, m.Meter, spec)
	if err != nil {
		return false
	}
	m.Meter, m.maxTake = inside, 0
	m.Lost(now)
	return true
}

// Past lists what was taken.
func (m *durable) Past(now time.Time) []limit.Spent { return limit.PastOf(now, m.Meter) }

// Lost tells that the journal may have lost records.
func (m *durable) Lost(now time.Time) {
	m.mustRestate = true
	m.a.schedule(m, m.a.clock.at(now).low)
}

func (m *durable) Take(now time.Time, n int64) {
	m.Meter.Take(now, n)
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
	if m.waiting == 0 {
		m.minimum = 0
	}
	m.ahead, m.scarce = max(m.ahead-n, -maxAmount), false
	m.since = min(m.since+n, maxAmount)
	m.joint.sinceAsk = min(m.joint.sinceAsk+n, maxAmount)
	m.unwritten = cmp.Or(m.unwritten, at.low)
	switch {
	case m.inFlight:
	case m.joint.othersUse:
		m.a.schedule(m, m.due(at, false))
	case m.ahead < 0, m.ahead < m.askBelow && m.due(at, false) <= at.low:
		m.askBelow = 0
		m.a.schedule(m, at.low)
	case m.planned == never:
		m.a.schedule(m, at.low+idleBeforeReturn)
	}
}

// Postpone takes the units again: the journal may only know the first take.
func (m *durable) Postpone(now, taken time.Time, n int64) {
	m.Meter.Postpone(now, taken, n)
	m.giveBack(taken, n)
	m.spend(now, n)
}

func (m *durable) Give(now, taken time.Time, n int64) {
	m.Meter.Give(now, taken, n)
	m.giveBack(taken, n)
	m.markUnwritten(now)
}

func (m *durable) giveBack(taken time.Time, n int64) {
	if n = min(max(n, 0), maxAmount); n > 0 {
		m.joint.recordReturn(taken, n)
	}
}

func (m *durable) Settle(now, taken time.Time, estimate, actual int64) {
	m.Meter.Settle(now, taken, estimate, actual)
	if actual > estimate {
		m.spend(now, min(max(actual, 0), maxAmount)-min(max(estimate, 0), maxAmount))
	} else {
		m.giveBack(taken, min(max(estimate, 0), maxAmount)-min(max(actual, 0), maxAmount))
		m.markUnwritten(now)
	}
}

// markUnwritten records that the meter has information that is not journaled. No request
// waits for the write.
func (m *durable) markUnwritten(now time.Time) {
	at := m.a.clock.at(now)
	m.unwritten = cmp.Or(m.unwritten, at.low)
	if !m.inFlight && m.planned > at.low+maxUnwrittenTime {
		m.a.schedule(m, at.low+maxUnwrittenTime)
	}
}

// Idle tells whether the inner meter is idle and the journal is complete.
func (m *durable) Idle(now time.Time) bool {
	return !m.inFlight && m.ahead == 0 && m.unwritten == 0 && m.Meter.Idle(now)
}

// goal returns how many units should be ahead: those that wait, and those taken during
// some journal writes.
func (m *durable) goal(at instant) int64 {
	soon := m.rate.unitsIn(at.low, second)
	switch {
	case soon < 2:
		soon = 0 // the next take may be far off
	case m.joint.spec.Length() >= time.Minute: // units of a shorter window come back soon, so it is written less often
		part := max(m.rate.unitsIn(at.low, min(max(aheadWrites*m.writeTime, minAheadTime), second)), 1)
		if m.ahead <= 0 || m.minimum > m.ahead { // the last value was too small
			part = max(part, 2*m.written)
		} else {
			part = max(part, m.written*3/4)
		}
		soon = min(soon, part, max(m.aheadLimit, 1))
	}
	return min(m.waiting+soon, max(m.maxTake/aheadPart, 1))
}

func (m *durable) due(at instant, eager bool) int64 {
	if m.inFlight {
		return never
	}
	if m.refusedUntil > at.low {
		return m.refusedUntil
	}
	if m.joint.othersUse {
		return m.dueJoint(at, eager)
	}
	goal := m.goal(at)
	delay := m.writeDelay(eager)
	switch {
	case m.mustRestate, m.ahead < 0, m.minimum > m.ahead:
		return at.low
	case m.a.releasing && (m.unwritten != 0 || m.ahead > 0):
		return at.low
	case at.low < m.lastTake+min(delay, unusedReturnDelay) && m.ahead < askThreshold(goal, eager) && !m.scarce && !m.a.releasing:
		return at.low
	case m.unwritten != 0 && m.lastTake < m.unwritten && m.ahead == 0: // heard, not taken
		return m.unwritten + maxUnwrittenTime
	case m.unwritten != 0 || m.ahead > 0:
		return max(m.lastTake, m.unwritten) + delay
	}
	return never
}

// writeDelay returns the time without takes after which the state is written.
func (m *durable) writeDelay(eager bool) int64 {
	delay := idleBeforeReturn
	if m.ahead > 0 {
		delay = unusedReturnDelay
	}
	if eager {
		delay -= delay / 5
	}
	return delay
}

func (m *durable) ask(now time.Time, at instant, seq uint64) store.Ask {
	if m.maxTake == 0 {
		m.maxTake = largestTake(now, m.Meter)
	}
	n, left := int64(0), m.Meter.Left(now)
	m.scarce, m.aheadLimit = false, max(left/aheadOfLeftPart, 1)
	if !m.a.releasing && (m.minimum > m.ahead || at.low < m.lastTake+unusedReturnDelay-unusedReturnDelay/5) {
		n = max(m.goal(at), m.minimum)
		if n > left {
			n, m.scarce = max(left, m.minimum), true
		}
	}
	ask := store.Ask{Key: m.key, Kind: store.Count, Want: n}
	if n > 0 || !m.Meter.Idle(now) {
		ask.State = m.Meter.State()
	}
	m.askJoint(now, at, &ask, seq)
	n = ask.Want
	m.inFlight, m.mustRestate, m.unwritten = true, false, 0
	m.written, m.since = n, 0
	m.ahead = min(m.ahead, n)
	return ask
}

func (m *durable) receive(now time.Time, at, sent instant, ans *store.Answer) {
	if ans.Status != store.Done {
		m.answerLost(at)
		if ans.Status == store.Failed {
			m.refusedUntil = at.low + maxRetry
		}
		return
	}
	m.inFlight = false
	m.writeTime += (at.low - sent.low - m.writeTime) / 4
	m.hearJoint(now, at, ans)
	if m.ahead > 0 {
		m.lastTake = at.low // waiting requests may ask again
	}
	m.askBelow = max(askThreshold(m.goal(at), false), (m.ahead+3)/4)
	m.minimum, m.waiting = 0, 0
	if m.since > 0 && m.unwritten == 0 {
		m.unwritten = at.low
	}
}

// answerLost does not change ahead: it is less than any record has left.
func (m *durable) answerLost(at instant) {
	m.inFlight, m.mustRestate = false, true
	m.joint.owned = false
	m.unwritten = cmp.Or(m.unwritten, at.low)
}

func (m *durable) restate() { m.mustRestate = true }

func (m *durable) name() string { return m.key }

func (m *durable) plannedAt() int64 { return m.planned }

func (m *durable) setPlanned(low int64) { m.planned = low }

func (m *durable) forgettable(instant) bool {
	return !m.inFlight && !m.mustRestate && m.ahead == 0 && m.unwritten == 0
}

// largestTake returns the most that can be taken at once.
func largestTake(now time.Time, m limit.Meter) int64 {
	low, high := int64(1), maxAmount
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
