package lease

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// due returns the time from which there is something to ask.
func (m *shared) due(at instant) int64 {
	d := &m.demand
	switch {
	case m.src.asked != 0:
		return never
	case m.held.unreadable && d.pollAt > at.low:
		return d.pollAt
	case m.src.mustRestate:
		return at.low
	}
	m.held.forget(at)
	h, room, low := m.held.present(at), m.held.available(at), never
	wants := max(at.low, m.held.wantsFrom(at), d.pollAt)
	if d.fruitlessReturns > 0 {
		wants = max(wants, d.lastReturn+returnPause<<d.fruitlessReturns)
	}
	if m.held.betweenWindows(at) {
		wants = max(wants, m.held.known.endedBy)
	}
	if from, enough := d.servedLater(at, room); enough {
		wants = max(wants, from)
	}
	if d.isShort(room) || d.needsSoon(at, h, room) {
		low = wants
	}
	return min(low, m.nextWindowDue(at), d.returnDue(at, h, room))
}

// nextWindowDue returns the time at which units of the next window should be asked for.
func (m *shared) nextWindowDue(at instant) int64 {
	d := &m.demand
	switch {
	case m.held.budget.kind == store.Rolling, m.a.releasing || !m.held.known.set || d.lastTake == 0 && d.waiting == 0:
		return never
	}
	s, _ := m.held.span(at)
	number, length := m.held.budget.next(s.window)
	if m.aheadAsked == number {
		return never
	}
	t := s.endedBy - d.lead(length)
	if t > at.low {
		return t
	}
	if d.wantedAhead(at) == 0 || d.fruitlessReturns > 0 {
		return never
	}
	return max(m.held.wantsFrom(at), at.low)
}

// ask makes the ask for the store.
func (m *shared) ask(now time.Time, at instant, _ uint64) store.Ask {
	b, d, held := &m.held.budget, &m.demand, m.held
	h, room := held.present(at), held.available(at)
	ask := store.Ask{Kind: b.kind, Amount: b.amount, Window: b.window, Slots: b.slots}
	held.say(&ask)
	if b.kind == store.Quota {
		ask.Edges = b.edges(now)
	}
	retained, gives := room, false
	switch {
	case h == nil:
	case d.isShort(room) && d.storeEmpty(at):
		retained = 0 // useless here, and another instance may need it
	case d.returnDue(at, h, room) <= at.low && (m.a.releasing || d.idleAt(at, h) <= at.low):
		gives = true
		retained, d.waiting, d.minimum, d.lastReturn = 0, 0, 0, at.low
		if d.lastTake < held.known.heardAt {
			d.fruitlessReturns = min(d.fruitlessReturns+1, 3)
		}
	}
	idle := max(d.lastTake, held.known.heardAt)+idleBeforeReturn <= at.low
	for i := len(held.holds) - 1; i >= 0; i-- { // retain the holds that end last
		o := &held.holds[i]
		switch {
		case o.usable(at):
			free := min(o.free(at), retained)
			o.retain(at, free, !d.laterUnwanted(at, o) || !idle)
			retained -= free
		case o.ended(at), m.a.releasing, d.laterUnwanted(at, o) && idle:
			o.n = o.used
		}
		o.lastSaid = o.n
	}
	for _, o := range held.holds {
		if o.n > 0 && o.window > held.record.past {
			ask.Holds = append(ask.Holds, store.Holding{Window: o.window, N: o.n})
		}
	}
	if held.mayWant(at) && !held.betweenWindows(at) && !gives && d.pollAt <= at.low {
		goal, room := d.goal(at, h), held.available(at)
		if d.isShort(room) {
			ask.Least = min(max(held.owed+d.minimum-room, 1), b.amount)
			ask.Want = min(max(held.owed+goal-room, ask.Least), b.amount)
			ask.Waits = min(max(held.owed+d.waiting-room, ask.Least), b.amount)
			if b.kind == store.Rolling && !b.once {
				ask.Ahead = d.reserveAhead(at, ask.Least, ask.Waits)
				if d.slotsTooShort() {
					ask.Ahead += ask.Want // the store subtracts what it grants at once
				}
			}
		} else if d.needsSoon(at, h, room) {
			ask.Want = goal - room
			ask.Least = min(d.lastUnits, ask.Want)
		}
		ask.Lasts = d.laterSlots(at)
	}
	if b.kind != store.Rolling && held.mayWant(at) && m.nextWindowDue(at) <= at.low {
		s, _ := held.span(at)
		m.aheadAsked, _ = b.next(s.window)
		ask.Ahead = d.wantedAhead(at)
	}
	m.want, m.least, m.waits = ask.Want, ask.Least, ask.Waits
	if !held.lentBeforeHeard() {
		held.notSaid = 0
	}
	return ask
}

// receive takes the store's answer.
func (m *shared) receive(_ time.Time, at, sent instant, ans *store.Answer) {
	b, held := &m.held.budget, m.held
	held.unreadable = false
	switch ans.Status {
	case store.Done:
		held.record.receive(at, ans, b.counted(ans.Window))
	case store.Foreign: // the account restates all meters if all answers are foreign
		m.src.mustRestate = m.src.mustRestate || held.lentBeforeHeard()
		held.record.receive(at, ans, b.counted(ans.Window))
		return
	case store.Failed:
		held.unreadable, m.src.mustRestate, m.demand.pollAt = true, true, at.low+maxRetry
		return
	default:
		m.src.answerLost(at)
		return
	}
	ends, length := int64(ans.Ends), b.length(ans.Window)
	over, until := at.low+ends, sent.high+ends
	if held.mayBeLent(at, m.want > 0 || m.aheadAsked != 0) {
		m.src.answerLost(at)
		m.updatePosition(at, ans, over, until-margin(length))
		return
	}
	held.endEarly(ans.Window, until-margin(length))
	from := max(at.low, b.blockedUntil(&m.a.store, at, ans.Window))
	h, grown := held.granted(ans.Window, ans.Granted, from, until-margin(length), over)
	if h.from > at.low {
		held.record.settledAt = h.from
	}
	shift := int64(0)
	if from > at.low { // the following slots are delayed, too
		shift = from + length - over
	}
	for _, l := range ans.Later {
		length, later := b.length(l.Window), b.ends(l.Window)-b.ends(ans.Window)
		h, grew := held.granted(l.Window, l.N, over+later-length+shift, until+later-margin(length), over+later)
		if b.kind == store.Rolling && ans.Remaining > 0 && from == at.low { // all granted units fit
			h.usableEarly = h.n
		}
		grown = grown || grew && h.usable(at) && !m.demand.isShort(held.available(at))
	}
	m.updatePosition(at, ans, over, until-margin(length))
	if at.low-sent.low > second {
		m.src.mustRestate = true // when the answer was made is uncertain
	}
	m.planNextAsk(at, grown)
}

// updatePosition takes what an answer tells about the budget, apart from grants.
func (m *shared) updatePosition(at instant, ans *store.Answer, over, until int64) {
	k := &m.held.known
	if k.set && k.window == ans.Window && m.held.wantsFrom(at) > at.low {
		ans.Remaining = min(ans.Remaining, k.remaining) // others have not stated their leases yet
	}
	if k.window != ans.Window {
		m.demand.pollPause, m.demand.pollAt = 0, 0
	}
	if m.windowKnown && k.window == ans.Window && k.endedBy > at.low { // a slow answer is less exact than an earlier one
		over, until = min(over, k.endedBy), max(until, k.until)
	}
	m.windowKnown = true
	*k = position{
		set: true, window: ans.Window, endedBy: over, until: until,
		heardAt: at.low, remaining: ans.Remaining, counted: max(m.held.budget.amount-ans.Remaining, 0), heldHere: ans.Granted, holders: ans.Holders,
		slept: at.slept(),
	}
}

// planNextAsk sets when to ask again if nothing was granted.
func (m *shared) planNextAsk(at instant, got bool) {
	b, d := &m.held.budget, &m.demand
	h, room := m.held.present(at), m.held.available(at)
	if h != nil {
		h.askBelow = max(askThreshold(d.goal(at, h)), (room+3)/4)
	}
	k := &m.held.known
	if m.want == 0 || got && (k.remaining > 0 || !d.isShort(room)) {
		if got {
			d.pollPause, d.pollAt = 0, 0
		}
		return
	}
	if n, from := m.held.reservedLater(at); n > 0 {
		d.pollPause, d.pollAt = 0, from
		return
	}
	if m.waits == 0 {
		d.noPrefetchBefore = at.low + minRetry // unless requests wait
		return
	}
	if d.unwantedAnswers++; d.unwantedAnswers > maxUnwantedAnswers {
		d.waiting, d.minimum = 0, 0
	}
	// Asks without a grant should be rare, compared with successful asks.
	least := minRetry
	if crowd := float64(b.length(k.window)) * float64(max(k.holders, 1)) / 4 * float64(max(m.least, 1)) / float64(b.amount); crowd > float64(least) {
		least = int64(min(crowd, float64(never/256)))
	}
	if b.kind == store.Rolling {
		d.pollPause = min(max(d.pollPause*2, least), max(least, maxRetry))
		d.pollAt = at.low + d.pollPause
		return
	}
	// Returns of others come soon, or not at all.
	d.pollPause = max(d.pollPause*8, least, min((k.endedBy-at.low)/16, minPoll))
	d.pollPause = min(d.pollPause, max(least, maxPoll))
	d.pollAt = min(at.low+d.pollPause, k.endedBy)
}

// answerLost restates what is held, because the result of the ask is unknown. That also
// returns units that may have been granted.
func (m *shared) answerLost(instant) { m.aheadAsked = 0 }

func (m *shared) restate() { m.aheadAsked, m.windowKnown = 0, false }

func (m *shared) forgettable(at instant) bool {
	m.held.forget(at)
	return len(m.held.holds) == 0 && m.held.owed == 0 && m.demand.waiting == 0
}

// availableAt returns the time at which n units could be taken that cannot be taken now,
// as far as known.
func (m *shared) availableAt(at instant, n int64) int64 {
	t := m.storeAvailableAt(at, n)
	for i := range m.held.holds {
		if h := &m.held.holds[i]; h.reserved(at)-m.held.owed >= n {
			t = min(t, h.from)
		}
	}
	return t
}

func (m *shared) storeAvailableAt(at instant, n int64) int64 {
	b, d, held := &m.held.budget, &m.demand, m.held
	k := &held.known
	reserved, from := held.reservedLater(at)
	switch {
	case held.betweenWindows(at):
		return k.endedBy
	case d.storeEmpty(at) && b.kind == store.Rolling:
		if d.pollAt > at.low {
			return d.pollAt
		}
		return k.endedBy
	case d.storeEmpty(at):
		rounds := (held.owed + n - 1) / b.amount
		if rounds > never/4/b.width {
			return never / 4
		}
		return k.endedBy + rounds*b.width
	case held.wantsFrom(at) > at.low:
		return held.wantsFrom(at)
	case reserved > 0 && m.src.asked == 0 && (2*reserved >= d.waiting || d.pollAt > at.low):
		return from
	case b.kind == store.Rolling && d.pollAt > at.low && !m.a.away:
		return d.pollAt
	case m.a.storeAway(at) || held.unreadable:
		if s, _ := held.span(at); k.set && held.outage != Strict && s.endedBy > at.low {
			return s.endedBy
		}
		return max(m.a.retryAt, at.low+minRetry)
	}
	return min(m.a.answerDeadline(at), at.low+checkAgainIn(m.a.waitStart(at), at))
}
