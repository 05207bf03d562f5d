package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

const (
	// maxUses bounds the uses that the store has not confirmed.
	maxUses = 32
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

// joint has the part of other processes of this machine in the budget of a durable meter.
// While no other process uses it, the meter is authoritative and the store has a copy.
// While several use it, the store is authoritative and the inner meter is a copy of its
// last answer: only ahead may be taken.
type joint struct {
	spec      limit.Spec
	origin    store.Origin
	owned     bool // the last written state is from this meter, or origin is
	othersUse bool // other processes use it
	others    int64
	demand    int64 // units that wait

	sinceAsk   int64       // units taken since the last ask
	earlier    []store.Use // units taken before that ask
	unanswered []store.Use // in an ask without an answer yet
	asked      time.Time   // time of the last ask

	enoughAt  int64 // low: when enough may be left for waiting units, if other processes take none
	pollAt    int64 // low: when to ask whether others have returned some
	notBefore int64 // low: nothing is asked for before
	pause     int64
}

// recordReturn records that n units taken at a time were returned. Takes that are not
// recorded any more count as used.
func (j *joint) recordReturn(taken time.Time, n int64) {
	if !taken.Before(j.asked) {
		x := min(j.sinceAsk, n)
		j.sinceAsk -= x
		n -= x
	}
	if n > 0 && len(j.earlier) < maxUses {
		j.earlier = append(j.earlier, store.Use{At: taken, N: -n})
	}
}

// unansweredUses moves all uses into the ask with that number, and returns them.
func (j *joint) unansweredUses(now time.Time, seq uint64) []store.Use {
	for i := range j.earlier {
		j.earlier[i].Seq = seq
	}
	said := j.unanswered
	if j.sinceAsk > 0 {
		said = append(said, store.Use{Seq: seq, At: now, N: j.sinceAsk})
	}
	said = append(said, j.earlier...)
	j.sinceAsk, j.earlier, j.asked = 0, nil, now
	j.unanswered = compact(said)
	return append([]store.Use(nil), j.unanswered...)
}

// compact merges each two of too many uses, at the later time. That may count twice what the
// store knows, and what was given back stays used.
func compact(uses []store.Use) []store.Use {
	if len(uses) <= 2*maxUses {
		return uses
	}
	uses = slices.DeleteFunc(uses, func(u store.Use) bool { return u.N <= 0 })
	for i, u := range uses {
		if i%2 == 1 {
			u.N = min(u.N+uses[i/2].N, maxAmount)
		}
		uses[i/2] = u
	}
	return uses[:(len(uses)+1)/2]
}

// answered forgets the uses of an answered ask, and of asks before it.
func (j *joint) answered(seq uint64) {
	n := 0
	for n < len(j.unanswered) && j.unanswered[n].Seq <= seq {
		n++
	}
	j.unanswered = j.unanswered[n:]
}

// jointSpec is the limit by which several processes share a budget. Which process made the
// first request is unknown, so a first-use window counts as a rolling window of that
// length.
func jointSpec(s limit.Spec) limit.Spec {
	if s.Traits().Returns == limit.AfterFirstUse {
		s.As = limit.Rolling
	}
	return s
}

// jointMeter restores the meter of a budget that several processes use.
func jointMeter(now time.Time, spec limit.Spec, state []byte) (limit.Meter, error) {
	m, err := limit.New(jointSpec(spec))
	if err != nil || len(state) == 0 {
		return m, err
	}
	if m.Restore(now, state) == nil || spec.Traits().Returns != limit.AfterFirstUse {
		return m, nil // an invalid state is ignored
	}
	alone, err := limit.New(spec)
	if err == nil && alone.Restore(now, state) == nil {
		m.Take(now, spec.Amount-alone.Left(now))
	}
	return m, nil
}

// merge is store.Ask.Joint: it merges the uses of processes into a state.
func merge(spec limit.Spec, least int64) func(time.Time, []byte, []store.Use, int64, int64) ([]byte, int64) {
	return func(now time.Time, state []byte, uses []store.Use, lapsed, others int64) ([]byte, int64) {
		m, err := jointMeter(now, spec, state)
		if err != nil {
			return state, 0
		}
		m = takeUses(now, spec, m, uses)
		for _, u := range uses {
			// Units that were returned continuously since then are unknown, so they count as used.
			if u.N < 0 && spec.Traits().Returns != limit.Continuously {
				limit.GiveRestored(now, u.At, m, -u.N)
			}
		}
		m.Take(now, lapsed)
		next := m.State()
		m.Take(now, others)
		left := m.Left(now)
		if spec.Traits().Spaced {
			left = min(left, least) // the next unit is not due yet
		}
		return next, left
	}
}

// takeUses takes the units of uses. After an outage these count from when they were taken, so
// that what has come back since is not owed: see limit.Carry.
func takeUses(now time.Time, spec limit.Spec, m limit.Meter, uses []store.Use) limit.Meter {
	list, late := limit.PastOf(now, m), false
	for _, u := range uses {
		if ago := max(now.Sub(u.At), 0); u.N > 0 {
			list, late = append(list, limit.Spent{Ago: ago, N: u.N}), late || int64(ago) > journalTimeout
		}
	}
	if late {
		slices.SortStableFunc(list, func(a, b limit.Spent) int { return cmp.Compare(b.Ago, a.Ago) })
		if again, err := limit.Carry(now, list, jointSpec(spec)); err == nil {
			return again
		}
	}
	for _, u := range uses {
		m.Take(now, max(u.N, 0))
	}
	return m
}

// whenJoint is When while several processes use the budget.
func (m *durable) whenJoint(now time.Time, n int64) (time.Time, bool) {
	j := &m.joint
	switch {
	case n <= 0, n <= m.ahead && !j.spec.Traits().Spaced:
		return now, true
	case n <= m.ahead:
		return m.Meter.When(now, n) // requests queue up
	}
	if m.maxTake == 0 {
		m.maxTake = largestTake(now, m.Meter)
	}
	if n > m.maxTake {
		return now, false
	}
	at := m.a.clock.at(now)
	if m.a.failing(at) {
		return m.Meter.When(now, n)
	}
	t, ok := m.Meter.When(now, min(n+j.others, m.maxTake))
	if !ok {
		return t, ok
	}
	m.minimum, m.waiting = n, max(m.waiting, n)
	j.enoughAt = at.low
	if t.After(now) {
		j.enoughAt = at.low + int64(t.Sub(now))
	}
	if low := m.due(at, false); low > at.low {
		m.a.schedule(m, low)
	} else if !m.inFlight {
		m.a.setWaiting(m, at)
	}
	if t.After(now) {
		return t, true
	}
	return now.Add(time.Duration(m.answerIn(at))), true
}

// answerIn returns the time until the next check whether an answer has arrived.
func (m *durable) answerIn(at instant) int64 {
	if low := m.wants(at); !m.inFlight && low > at.low {
		return low - at.low
	}
	if m.a.away {
		return max(m.a.retryAt-at.low, minPause)
	}
	return min(checkAgainIn(m.a.waitStart(at), at), maxPause)
}

// dueJoint is due while several processes use the budget.
func (m *durable) dueJoint(at instant, eager bool) int64 {
	j, low := &m.joint, never
	switch {
	case m.mustRestate, m.ahead < 0, m.a.releasing && (m.unwritten != 0 || m.ahead > 0):
		return at.low
	case m.minimum > m.ahead:
		low = m.wants(at)
	}
	if m.unwritten == 0 && m.ahead == 0 {
		return low
	}
	delay := idleBeforeReturn
	if j.others > 0 || m.minimum > m.ahead {
		delay = reportAfter
		if m.ahead > 0 {
			delay *= 10
		}
	}
	if eager {
		delay -= delay / 5
	}
	if m.ahead < askThreshold(m.goalJoint(at), eager) && at.low < m.lastTake+delay && m.wants(at) <= at.low {
		return at.low
	}
	return min(low, max(m.lastTake, m.unwritten)+delay)
}

// wants returns the time from which more should be asked for: when enough may be left, or
// others may have returned some.
func (m *durable) wants(at instant) int64 {
	low := m.joint.enoughAt
	if m.joint.others > 0 {
		low = min(low, m.joint.pollAt)
	}
	return max(low, m.joint.notBefore, at.low)
}

// goalJoint returns how many units should be ahead, beside those that wait.
func (m *durable) goalJoint(at instant) int64 {
	if m.joint.spec.Traits().Spaced || m.rate.unitsIn(at.low, second) < 2 {
		return 0
	}
	return min(m.rate.unitsIn(at.low, lookahead), max(m.maxTake/aheadPart, 1))
}

// askJoint completes an ask for a budget that other processes may use.
func (m *durable) askJoint(now time.Time, at instant, ask *store.Ask, seq uint64) {
	j := &m.joint
	waits := m.minimum > m.ahead && !m.a.releasing
	if j.othersUse {
		n := int64(0)
		if !m.a.releasing && (waits || at.low < m.lastTake+idleBeforeReturn-idleBeforeReturn/5) {
			n = m.goalJoint(at)
		}
		if waits {
			n += max(m.minimum, j.demand)
		}
		ask.Want = min(n, m.maxTake)
		ask.State = m.Meter.State()
	}
	ask.Joint = &store.Joint{
		Owned: j.owned && !j.othersUse, From: j.origin, Stays: j.spec.Traits().Returns == limit.AfterFirstUse,
		Keep: min(m.ahead, ask.Want), Waits: waits,
		Merge: merge(j.spec, max(m.minimum, 1)), Uses: j.unansweredUses(now, seq),
	}
	if waits {
		ask.Joint.Least = m.minimum
	}
}

// hearJoint takes the answer for a budget that other processes may use.
func (m *durable) hearJoint(now time.Time, at instant, ans *store.Answer) {
	j := &m.joint
	j.answered(ans.Seq)
	j.othersUse, j.others, j.owned, j.origin = !ans.Owned, ans.Others, true, store.Origin{}
	if ans.State != nil {
		if fresh, err := jointMeter(now, j.spec, ans.State); err == nil {
			fresh.Take(now, m.since)
			m.Meter = fresh
		}
	}
	m.ahead = ans.Granted - m.since
	if ans.Granted >= max(m.minimum, 1) || m.minimum == 0 {
		j.pause, j.pollAt, j.notBefore = 0, 0, 0
		return
	}
	j.pause = min(max(2*j.pause, minPause), maxPause)
	j.pollAt, j.notBefore = at.low+j.pause, at.low+minPause
}

// failing tells whether the store has failed for so long that this process decides alone.
func (a *Account) failing(at instant) bool { return a.away && at.low-a.awaySince >= outageAfter }

// waitsForStore tells whether units must be written before they are taken, because other
// processes rely on the state.
func (m *durable) waitsForStore(at instant) bool {
	return m.a.o.Several != nil && m.a.o.Several() && !m.a.failing(at)
}
