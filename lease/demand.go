package lease

import (
	"hash/fnv"
	"time"

	"github.com/abide-proxy/abide/store"
)

const (
	// horizon is the part of a window for which is asked beforehand, and between
	// which lengths of time that is.
	horizonPart  = 16
	horizonLeast = int64(200 * time.Millisecond)
	horizonMost  = int64(5 * time.Second)
	// few is which part of a budget is so little that everybody takes only what he
	// needs at once, and gives back what he does not.
	few = 16
	// hurry is after what time unspent units go back when few are left.
	hurry = int64(50 * time.Millisecond)
	// rarely is how long it takes at first to ask again for what others may give back,
	// and rarest at last.
	rarely = 10 * second
	rarest = 900 * second
	// silent is how many answers in a row that brought nothing may pass without
	// anybody asking for the meter again: nobody waits then.
	silent = 3
)

// short tells whether somebody waits who cannot go with what there is.
func (m *shared) short(room int64) bool {
	return m.owed > 0 || m.waiting > 0 && room < max(m.first, 1)
}

// little tells whether not much is left for others.
func (m *shared) little(at instant) bool {
	k := &m.known
	return k.set && at.low < k.over && k.holders > 1 && k.remaining <= m.amount/few/int64(max(m.slots, 1))
}

// dry tells whether the store had nothing when it was last heard.
func (m *shared) dry(at instant) bool {
	return m.pause > 0 && at.low < m.known.over && m.known.slept == m.a.clock.slept
}

// gap tells whether the present window is about to end: nothing is sent in it any
// more, and nothing in the next.
func (m *shared) gap(at instant) bool {
	k := &m.known
	return k.set && at.high >= k.until && at.low < k.over && k.slept == m.a.clock.slept && !m.roomy(at)
}

// goal is how much there should be: what waits, and what will be taken soon.
func (m *shared) goal(at instant, h *hold) int64 {
	span := min(m.horizon(), m.pace.lasts(at.low))
	if h != nil && !m.roomy(at) {
		span = min(span, h.until-at.high)
	}
	if m.little(at) || m.a.releasing || m.pace.in(at.low, second) < 2 {
		span = 0
	}
	return m.large(at, min(m.waiting+m.pace.in(at.low, span), m.amount))
}

// due is from when on there is something to say; eager is for somebody who goes along
// with others, a little earlier than he would have gone by himself.
func (m *shared) due(at instant, eager bool) int64 {
	switch {
	case m.flying:
		return never
	case m.broken && m.poll > at.low:
		return m.poll
	case m.again:
		return at.low
	}
	m.forget(at)
	h, room, low := m.present(at), m.room(at), never
	wants := max(at.low, m.settled(at), m.poll)
	if m.vain > 0 {
		wants = max(wants, m.home+hurry<<m.vain)
	}
	if m.gap(at) {
		wants = max(wants, m.known.over)
	}
	if from, enough := m.served(at, room); enough {
		wants = max(wants, from)
	}
	if m.short(room) || m.soon(at, h, room, eager) {
		low = wants
	}
	return min(low, m.onward(at, eager), m.homeward(at, h, room, eager))
}

// soon tells whether there will not be enough soon.
func (m *shared) soon(at instant, h *hold, room int64, eager bool) bool {
	if h == nil || m.took <= m.home || at.low < m.soonest {
		return false
	}
	goal, room := m.goal(at, h), m.remains(at, room, eager)
	return room < mark(goal, eager) && m.plenty(at, goal-room)
}

// plenty tells whether the store may be expected to grant about so much beforehand. If
// not, it is better to ask when something waits: that is granted whole.
func (m *shared) plenty(at instant, n int64) bool {
	k := &m.known
	return at.low >= k.over || k.holders <= 1 || k.remaining/int64(2*k.holders) >= n/2
}

// mark is with how much left of what there should be more is asked for.
func mark(goal int64, eager bool) int64 {
	if eager {
		return (goal + 1) / 2
	}
	return (goal + 3) / 4
}

// onward is when to ask for some of the next window.
func (m *shared) onward(at instant, eager bool) int64 {
	switch {
	case m.kind == store.Rolling:
		return m.renewal(at, eager)
	case m.a.releasing || !m.known.set || m.took == 0 && m.waiting == 0:
		return never
	}
	s, _ := m.span(at)
	number, length := m.next(s.window)
	if m.forward == number {
		return never
	}
	t := s.over - m.lead(length, eager)
	if t > at.low {
		return t
	}
	if m.ahead(at) == 0 || m.vain > 0 {
		return never
	}
	return max(m.settled(at), at.low)
}

// lead is how long before the end of a window that is: not all instances come at once.
func (m *shared) lead(length int64, eager bool) int64 {
	lead := min(max(length/20, retries+2*m.a.usual+margin(length)), 2*second)
	f := fnv.New32a()
	_, _ = f.Write([]byte(m.a.o.Instance))
	lead -= lead / 4 * int64(f.Sum32()%256) / 256
	if eager {
		lead += lead / 5
	}
	return lead
}

// ahead is how much of the next window is wanted.
func (m *shared) ahead(at instant) int64 {
	return min(max(m.waiting, m.pace.in(at.low, m.horizon())), m.amount)
}

// homeward is when to give back what is unspent.
func (m *shared) homeward(at instant, h *hold, room int64, eager bool) int64 {
	low := never
	for i := range m.holds {
		o := &m.holds[i]
		switch {
		case o.n <= o.used:
		case m.a.releasing && m.waiting == 0:
			return at.low
		case m.unwanted(at, o):
			low = min(low, max(m.took, m.known.at)+quiet)
		case m.kind == store.Rolling && o.ended(at) && m.restful(at) > 0: // with the next ask
		case m.kind == store.Rolling && o.ended(at):
			if late := o.over + int64(m.window)/horizonPart/8; !eager && late > at.low {
				low = min(low, late)
				continue
			}
			return at.low // it counts for long
		case m.kind == store.Rolling:
			low = min(low, o.over)
		case o.from > at.low:
			low = min(low, o.from+quiet)
		}
	}
	if h == nil || room == 0 || m.short(room) {
		return low
	}
	if at.low >= m.known.at+quiet && room > 4*m.goal(at, h)+8 && m.restful(at) == 0 {
		return at.low
	}
	return min(low, m.rests(at, h, eager))
}

// unwanted tells whether something is of a later slot, and nobody waits any more.
func (m *shared) unwanted(at instant, h *hold) bool {
	return m.kind == store.Rolling && h.reserved(at) > 0 && m.waiting == 0
}

// rests is when nothing has been taken for long enough.
func (m *shared) rests(at instant, h *hold, eager bool) int64 {
	rest := quiet
	if m.waiting == 0 && m.little(at) { // otherwise somebody may wait for another budget as well
		rest = hurry
	}
	rest = max(rest, m.restful(at))
	if eager {
		rest -= rest / 5
	}
	if h.from > at.low { // and some of it may be used before
		return max(m.took, m.known.at) + rest
	}
	return max(m.took, m.known.at, h.from) + rest
}

// ask is what there is to say.
func (m *shared) ask(now time.Time, at instant) store.Ask {
	h, room := m.present(at), m.room(at)
	ask := store.Ask{Key: m.key, Kind: m.kind, Amount: m.amount, Window: m.window, Slots: m.slots}
	m.say(&ask)
	if m.kind == store.Quota {
		ask.Edges = m.edges(now)
	}
	keeps, gives := room, false
	switch {
	case h == nil:
	case m.short(room) && (m.dry(at) || m.little(at)):
		keeps = 0 // it is of no use here, and perhaps what another one lacks
	case m.homeward(at, h, room, true) <= at.low:
		if m.a.releasing || m.rests(at, h, true) <= at.low {
			gives = true
			keeps, m.waiting, m.first, m.home = 0, 0, 0, at.low
			if m.took < m.known.at {
				m.vain = min(m.vain+1, 3)
			}
		} else {
			keeps = min(m.goal(at, h), room)
		}
	}
	idle := max(m.took, m.known.at)+quiet-quiet/5 <= at.low
	for i := len(m.holds) - 1; i >= 0; i-- { // what ends last is kept first
		o := &m.holds[i]
		switch {
		case o.usable(at):
			free := min(o.free(at), keeps)
			o.keep(at, free, !m.unwanted(at, o) || !idle)
			keeps -= free
		case o.ended(at), m.a.releasing:
			o.n = o.used
		case m.unwanted(at, o) && idle:
			o.n = o.used
		}
		o.said = o.n
	}
	for _, o := range m.holds {
		if o.n > 0 && o.window > m.past {
			ask.Holds = append(ask.Holds, store.Holding{Window: o.window, N: o.n})
		}
	}
	_, enough := m.served(at, room)
	if m.mayWant(at) && !m.gap(at) && !gives && m.poll <= at.low && !enough {
		goal, room := m.goal(at, h), m.room(at)
		if m.short(room) {
			ask.Least = min(max(m.owed+m.first-room, 1), m.amount)
			ask.Want = min(max(m.owed+goal-room, ask.Least), m.amount)
			ask.Waits = min(max(m.owed+m.waiting-room, ask.Least), m.amount)
			m.lacks = ask.Least
			if m.kind == store.Rolling && !m.once {
				ask.Ahead = m.reserves(at, ask.Least, ask.Waits)
				if m.brief() {
					ask.Ahead += ask.Want // of which the store takes off what it grants at once
				}
			}
		} else if m.soon(at, h, room, true) {
			ask.Want = goal - m.remains(at, room, true)
			ask.Least = min(m.unit, ask.Want)
			m.lacks = ask.Least
		}
		ask.Lasts = m.lasts(at)
	}
	if m.kind != store.Rolling && m.mayWant(at) && m.onward(at, true) <= at.low {
		s, _ := m.span(at)
		m.forward, _ = m.next(s.window)
		ask.Ahead = m.ahead(at)
		if ask.Want == 0 && m.waiting > 0 {
			ask.Least = min(m.first, m.amount)
		}
	}
	m.flying, m.again, m.wanted, m.lacking = true, false, ask.Want > 0, ask.Waits > 0
	if !m.hides() {
		m.unsaid = 0
	}
	return ask
}

// hear is the answer to that.
func (m *shared) hear(_ time.Time, at, sent instant, ans *store.Answer) {
	m.flying, m.broken = false, false
	switch ans.Status {
	case store.Done:
		m.record.hear(at, ans, m.counted(ans.Window))
	case store.Foreign: // the account has every meter say again what it holds, if all is foreign
		m.again = m.again || m.hides()
		m.record.hear(at, ans, m.counted(ans.Window))
		return
	case store.Failed:
		m.broken, m.again, m.poll = true, true, at.low+retriesMost
		return
	default:
		m.lost(at)
		return
	}
	ends, length := int64(ans.Ends), m.length(ans.Window)
	over, until := at.low+ends, sent.high+ends
	if m.doubts(at) {
		m.lost(at)
		m.place(at, ans, over, until-margin(length))
		return
	}
	m.curb(ans.Window, until-margin(length))
	from := max(at.low, m.bars(&m.a.store, at, ans.Window))
	h, got := m.granted(ans.Window, ans.Granted, from, until-margin(length), over)
	if m.bar = 0; h.from > at.low {
		m.bar = h.from
	}
	shift := int64(0)
	if from > at.low { // what follows is later as well
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
		if ans.Remaining > 0 && from == at.low { // there is room for all that anybody has been granted
			h.early = h.n
		}
		got = got || more && h.usable(at) && !m.short(m.room(at))
	}
	m.place(at, ans, over, until-margin(length))
	if at.low-sent.low > second {
		m.again = true // nobody knows when in that time the answer was given
	}
	m.rest(at, got)
}

// place notes what an answer says of the budget, apart from what it grants.
func (m *shared) place(at instant, ans *store.Answer, over, until int64) {
	k := &m.known
	if k.set && k.window == ans.Window && m.settled(at) > at.low {
		ans.Remaining = min(ans.Remaining, k.remaining) // others have not said yet what they hold
	}
	if k.window != ans.Window {
		m.pause, m.poll = 0, 0
	}
	if m.sure && k.window == ans.Window && k.over > at.low { // a slow answer says less than another one has
		over, until = min(over, k.over), max(until, k.until)
	}
	m.sure = true
	*k = position{
		set: true, window: ans.Window, over: over, until: until, free: at.low + int64(ans.Free),
		at: at.low, remaining: ans.Remaining, counted: max(m.amount-ans.Remaining, 0), held: ans.Granted, holders: ans.Holders,
		slept: m.a.clock.slept,
	}
}

// granted takes over what the store has granted of a window, and when that is: the
// tightest that any answer has said. It tells whether that is more than before.
func (m *shared) granted(window, n, from, until, over int64) (h *hold, more bool) {
	h = m.open(window, hold{from: from, until: until, over: over})
	more = h.hear(n)
	h.from, h.until = min(h.from, from), max(h.until, until)
	if h.over = min(h.over, over); h.over <= from { // the store's time has stood still
		h.over = over
	}
	return h, more
}

// rest says when to ask again, if there was nothing.
func (m *shared) rest(at instant, got bool) {
	h, room := m.present(at), m.room(at)
	if h != nil {
		h.mark = max(mark(m.goal(at, h), false), (room+3)/4)
	}
	k := &m.known
	if !m.wanted || got && (k.remaining > 0 || !m.short(room)) {
		if got {
			m.pause, m.poll = 0, 0
		}
		return
	}
	if n, from := m.coming(at); n > 0 {
		m.pause, m.poll = 0, from
		return
	}
	if !m.lacking {
		m.soonest = at.low + retries // somebody who waits may ask before
		return
	}
	if m.silence++; m.silence > silent {
		m.waiting, m.first = 0, 0
	}
	// Those who come in vain should be few, compared with those who get something.
	least := retries
	if crowd := float64(m.length(k.window)) * float64(max(k.holders, 1)) / 4 * float64(max(m.lacks, 1)) / float64(m.amount); crowd > float64(least) {
		least = int64(min(crowd, float64(never/256)))
	}
	if m.kind == store.Rolling {
		m.pause = min(max(m.pause*2, least), max(retriesMost, 64*least))
	} else { // what others give back comes soon, or not at all
		m.pause = max(m.pause*8, least, min((k.over-at.low)/16, rarely))
		m.pause = min(m.pause, max(least, rarest))
	}
	m.poll = min(at.low+m.pause, k.over)
	switch {
	case m.once:
		m.pause = min(m.pause, max(least, second))
		m.poll = at.low + m.pause
	case m.kind == store.Rolling:
		m.poll = at.low + m.pause
		if k.free > at.low {
			m.poll = min(m.poll, max(k.free, at.low+least))
		}
	}
}

// hear takes over what the store has granted, and tells whether that is more.
func (h *hold) hear(granted int64) bool {
	more := granted > h.said
	h.n = max(granted, h.used)
	return more
}

// lost is that nobody knows what became of what was said: what is held is said again,
// which gives back what may have been granted.
func (m *shared) lost(instant) { m.flying, m.again, m.forward = false, true, 0 }

func (m *shared) renew(instant) { m.again, m.forward, m.sure = true, 0, false }

func (m *shared) name() string   { return m.key }
func (m *shared) when() int64    { return m.planned }
func (m *shared) plan(low int64) { m.planned = low }

func (m *shared) done(at instant) bool {
	m.forget(at)
	return len(m.holds) == 0 && m.owed == 0 && m.waiting == 0 && !m.flying && !m.again
}

// later is when n could be taken that cannot be taken now, as far as that can be said.
func (m *shared) later(at instant, n int64) int64 {
	t := m.comes(at, n)
	for i := range m.holds {
		if h := &m.holds[i]; h.reserved(at)-m.owed >= n {
			t = min(t, h.from)
		}
	}
	return t
}

func (m *shared) comes(at instant, n int64) int64 {
	k := &m.known
	reserved, from := m.coming(at)
	switch {
	case m.gap(at):
		return k.over
	case m.dry(at) && m.kind == store.Rolling:
		if m.poll > at.low {
			return m.poll
		}
		if k.free > at.low {
			return k.free
		}
		return k.over
	case m.dry(at):
		rounds := (m.owed + n - 1) / m.amount
		if rounds > never/4/m.width {
			return never / 4
		}
		return k.over + rounds*m.width
	case m.settled(at) > at.low:
		return m.settled(at)
	case reserved > 0 && !m.flying && (2*reserved >= m.waiting || m.poll > at.low):
		return from
	case m.kind == store.Rolling && m.poll > at.low && !m.a.away:
		return m.poll
	case m.a.alone(at) || m.broken:
		if end, known := m.ends(at); known && m.outage != Strict && end > at.low {
			return end
		}
		return max(m.a.retryAt, at.low+retries)
	}
	return min(m.a.answers(at), at.low+shortly(m.a.asked(at), at))
}
