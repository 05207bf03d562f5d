package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// due is the time from which there is something to ask. eager is for a source that joins a
// Batch made for others, a little earlier than on its own.
func (m *shared) due(at instant, eager bool) int64 {
	switch {
	case m.inFlight:
		return never
	case m.unreadable && m.pollAt > at.low:
		return m.pollAt
	case m.mustRestate:
		return at.low
	}
	m.forget(at)
	h, room, low := m.present(at), m.available(at), never
	wants := max(at.low, m.wantsFrom(at), m.pollAt)
	if m.fruitlessReturns > 0 {
		wants = max(wants, m.lastReturn+scarceReturnDelay<<m.fruitlessReturns)
	}
	if m.betweenWindows(at) {
		wants = max(wants, m.known.endedBy)
	}
	if from, enough := m.servedLater(at, room); enough {
		wants = max(wants, from)
	}
	if m.isShort(room) || m.needsSoon(at, h, room, eager) {
		low = wants
	}
	return min(low, m.nextWindowDue(at, eager), m.returnDue(at, h, room, eager))
}

// nextWindowDue is when to ask for units of the next window.
func (m *shared) nextWindowDue(at instant, eager bool) int64 {
	switch {
	case m.kind == store.Rolling:
		return m.renewal(at, eager)
	case m.a.releasing || !m.known.set || m.lastTake == 0 && m.waiting == 0:
		return never
	}
	s, _ := m.span(at)
	number, length := m.next(s.window)
	if m.aheadAsked == number {
		return never
	}
	t := s.endedBy - m.lead(length, eager)
	if t > at.low {
		return t
	}
	if m.wantedAhead(at) == 0 || m.fruitlessReturns > 0 {
		return never
	}
	return max(m.wantsFrom(at), at.low)
}

// ask makes the ask for the store.
func (m *shared) ask(now time.Time, at instant) store.Ask {
	h, room := m.present(at), m.available(at)
	ask := store.Ask{Key: m.key, Kind: m.kind, Amount: m.amount, Window: m.window, Slots: m.slots}
	m.say(&ask)
	if m.kind == store.Quota {
		ask.Edges = m.edges(now)
	}
	keeps, gives := room, false
	switch {
	case h == nil:
	case m.isShort(room) && (m.storeEmpty(at) || m.scarce(at)):
		keeps = 0 // useless here, and another instance may need it
	case m.returnDue(at, h, room, true) <= at.low:
		if m.a.releasing || m.idleAt(at, h, true) <= at.low {
			gives = true
			keeps, m.waiting, m.minimum, m.lastReturn = 0, 0, 0, at.low
			if m.lastTake < m.known.heardAt {
				m.fruitlessReturns = min(m.fruitlessReturns+1, 3)
			}
		} else {
			keeps = min(m.goal(at, h), room)
		}
	}
	idle := max(m.lastTake, m.known.heardAt)+idleBeforeReturn-idleBeforeReturn/5 <= at.low
	for i := len(m.holds) - 1; i >= 0; i-- { // keep the holds that end last
		o := &m.holds[i]
		switch {
		case o.usable(at):
			free := min(o.free(at), keeps)
			o.keep(at, free, !m.laterUnwanted(at, o) || !idle)
			keeps -= free
		case o.ended(at), m.a.releasing:
			o.n = o.used
		case m.laterUnwanted(at, o) && idle:
			o.n = o.used
		}
		o.lastSaid = o.n
	}
	for _, o := range m.holds {
		if o.n > 0 && o.window > m.past {
			ask.Holds = append(ask.Holds, store.Holding{Window: o.window, N: o.n})
		}
	}
	_, enough := m.servedLater(at, room)
	if m.mayWant(at) && !m.betweenWindows(at) && !gives && m.pollAt <= at.low && !enough {
		goal, room := m.goal(at, h), m.available(at)
		if m.isShort(room) {
			ask.Least = min(max(m.owed+m.minimum-room, 1), m.amount)
			ask.Want = min(max(m.owed+goal-room, ask.Least), m.amount)
			ask.Waits = min(max(m.owed+m.waiting-room, ask.Least), m.amount)
			m.lastMinimum = ask.Least
			if m.kind == store.Rolling && !m.once {
				ask.Ahead = m.reserveAhead(at, ask.Least, ask.Waits)
				if m.slotsTooShort() {
					ask.Ahead += ask.Want // the store subtracts what it grants at once
				}
			}
		} else if m.needsSoon(at, h, room, true) {
			ask.Want = goal - m.remainingThen(at, room, true)
			ask.Least = min(m.lastUnits, ask.Want)
			m.lastMinimum = ask.Least
		}
		ask.Lasts = m.laterSlots(at)
	}
	if m.kind != store.Rolling && m.mayWant(at) && m.nextWindowDue(at, true) <= at.low {
		s, _ := m.span(at)
		m.aheadAsked, _ = m.next(s.window)
		ask.Ahead = m.wantedAhead(at)
		if ask.Want == 0 && m.waiting > 0 {
			ask.Least = min(m.minimum, m.amount)
		}
	}
	m.inFlight, m.mustRestate, m.wantedUnits, m.unitsWaited = true, false, ask.Want > 0, ask.Waits > 0
	if !m.lentBeforeHeard() {
		m.notSaid = 0
	}
	return ask
}

// receive takes the store's answer.
func (m *shared) receive(_ time.Time, at, sent instant, ans *store.Answer) {
	m.inFlight, m.unreadable = false, false
	switch ans.Status {
	case store.Done:
		m.record.receive(at, ans, m.counted(ans.Window))
	case store.Foreign: // the account restates all meters if all answers are foreign
		m.mustRestate = m.mustRestate || m.lentBeforeHeard()
		m.record.receive(at, ans, m.counted(ans.Window))
		return
	case store.Failed:
		m.unreadable, m.mustRestate, m.pollAt = true, true, at.low+maxRetry
		return
	default:
		m.answerLost(at)
		return
	}
	ends, length := int64(ans.Ends), m.length(ans.Window)
	over, until := at.low+ends, sent.high+ends
	if m.mayBeLent(at, m.wantedUnits || m.aheadAsked != 0) {
		m.answerLost(at)
		m.updatePosition(at, ans, over, until-margin(length))
		return
	}
	m.endEarly(ans.Window, until-margin(length))
	from := max(at.low, m.blockedUntil(&m.a.store, at, ans.Window))
	h, got := m.granted(ans.Window, ans.Granted, from, until-margin(length), over)
	if m.notBefore = 0; h.from > at.low {
		m.notBefore = h.from
	}
	tooLate := got && m.kind == store.Rolling && at.high >= h.until // to be used in this slot
	got = got && !tooLate
	shift := int64(0)
	if from > at.low { // the following slots are delayed, too
		shift = from + length - over
	}
	if m.kind != store.Rolling {
		number, length := m.next(ans.Window)
		if ans.Ahead > 0 || m.hold(number) != nil {
			m.granted(number, ans.Ahead, over+shift, until+length-margin(length), over+length)
		}
	}
	for _, l := range ans.Later {
		d := (l.Window - ans.Window) * m.width
		h, more := m.granted(l.Window, l.N, over+d-m.width+shift, until+d-margin(length), over+d)
		if ans.Remaining > 0 && from == at.low { // all granted units fit
			h.usableEarly = h.n
		}
		got = got || more && h.usable(at) && !m.isShort(m.available(at))
	}
	m.updatePosition(at, ans, over, until-margin(length))
	if at.low-sent.low > second {
		m.mustRestate = true // when the answer was made is uncertain
	}
	m.planNextAsk(at, got)
	if tooLate && !got { // these units are returned, so the store would grant them again
		m.pollAt = max(m.pollAt, m.known.endedBy)
	}
}

// updatePosition takes what an answer tells about the budget, apart from grants.
func (m *shared) updatePosition(at instant, ans *store.Answer, over, until int64) {
	k := &m.known
	if k.set && k.window == ans.Window && m.wantsFrom(at) > at.low {
		ans.Remaining = min(ans.Remaining, k.remaining) // others have not stated their leases yet
	}
	if k.window != ans.Window {
		m.pollPause, m.pollAt = 0, 0
	}
	if m.windowKnown && k.window == ans.Window && k.endedBy > at.low { // a slow answer is less exact than an earlier one
		over, until = min(over, k.endedBy), max(until, k.until)
	}
	m.windowKnown = true
	*k = position{
		set: true, window: ans.Window, endedBy: over, until: until, nextExpiry: at.low + int64(ans.Free),
		heardAt: at.low, remaining: ans.Remaining, counted: max(m.amount-ans.Remaining, 0), heldHere: ans.Granted, holders: ans.Holders,
		slept: m.a.clock.slept,
	}
}

// planNextAsk sets when to ask again if nothing was granted.
func (m *shared) planNextAsk(at instant, got bool) {
	h, room := m.present(at), m.available(at)
	if h != nil {
		h.askBelow = max(askThreshold(m.goal(at, h), false), (room+3)/4)
	}
	k := &m.known
	if !m.wantedUnits || got && (k.remaining > 0 || !m.isShort(room)) {
		if got {
			m.pollPause, m.pollAt = 0, 0
		}
		return
	}
	if n, from := m.reservedLater(at); n > 0 {
		m.pollPause, m.pollAt = 0, from
		return
	}
	if !m.unitsWaited {
		m.noPrefetchBefore = at.low + minRetry // unless requests wait
		return
	}
	if m.unwantedAnswers++; m.unwantedAnswers > maxUnwantedAnswers {
		m.waiting, m.minimum = 0, 0
	}
	// Asks without a grant should be rare, compared with successful asks.
	least := minRetry
	if crowd := float64(m.length(k.window)) * float64(max(k.holders, 1)) / 4 * float64(max(m.lastMinimum, 1)) / float64(m.amount); crowd > float64(least) {
		least = int64(min(crowd, float64(never/256)))
	}
	if m.kind == store.Rolling {
		m.pollPause = min(max(m.pollPause*2, least), max(maxRetry, 64*least))
	} else { // returns of others come soon, or not at all
		m.pollPause = max(m.pollPause*8, least, min((k.endedBy-at.low)/16, minPoll))
		m.pollPause = min(m.pollPause, max(least, maxPoll))
	}
	m.pollAt = min(at.low+m.pollPause, k.endedBy)
	switch {
	case m.once:
		m.pollPause = min(m.pollPause, max(least, second))
		m.pollAt = at.low + m.pollPause
	case m.kind == store.Rolling:
		m.pollAt = at.low + m.pollPause
		if k.nextExpiry > at.low {
			m.pollAt = min(m.pollAt, max(k.nextExpiry, at.low+least))
		}
	}
}

// answerLost restates what is held, because the result of the ask is unknown. That also
// returns units that may have been granted.
func (m *shared) answerLost(instant) { m.inFlight, m.mustRestate, m.aheadAsked = false, true, 0 }

func (m *shared) restate(instant) { m.mustRestate, m.aheadAsked, m.windowKnown = true, 0, false }

func (m *shared) name() string         { return m.key }
func (m *shared) plannedAt() int64     { return m.planned }
func (m *shared) setPlanned(low int64) { m.planned = low }

func (m *shared) forgettable(at instant) bool {
	m.forget(at)
	return len(m.holds) == 0 && m.owed == 0 && m.waiting == 0 && !m.inFlight && !m.mustRestate
}

// availableAt is when n units could be taken that cannot be taken now, as far as known.
func (m *shared) availableAt(at instant, n int64) int64 {
	t := m.storeAvailableAt(at, n)
	for i := range m.holds {
		if h := &m.holds[i]; h.reserved(at)-m.owed >= n {
			t = min(t, h.from)
		}
	}
	return t
}

func (m *shared) storeAvailableAt(at instant, n int64) int64 {
	k := &m.known
	reserved, from := m.reservedLater(at)
	switch {
	case m.betweenWindows(at):
		return k.endedBy
	case m.storeEmpty(at) && m.kind == store.Rolling:
		if m.pollAt > at.low {
			return m.pollAt
		}
		if k.nextExpiry > at.low {
			return k.nextExpiry
		}
		return k.endedBy
	case m.storeEmpty(at):
		rounds := (m.owed + n - 1) / m.amount
		if rounds > never/4/m.width {
			return never / 4
		}
		return k.endedBy + rounds*m.width
	case m.wantsFrom(at) > at.low:
		return m.wantsFrom(at)
	case reserved > 0 && !m.inFlight && (2*reserved >= m.waiting || m.pollAt > at.low):
		return from
	case m.kind == store.Rolling && m.pollAt > at.low && !m.a.away:
		return m.pollAt
	case m.a.storeAway(at) || m.unreadable:
		if end, known := m.presentEnd(at); known && m.outage != Strict && end > at.low {
			return end
		}
		return max(m.a.retryAt, at.low+minRetry)
	}
	return min(m.a.answerDeadline(at), at.low+checkAgainIn(m.a.waitStart(at), at))
}

func (m *shared) uses(time.Time, uint64) []store.Use { return nil }
