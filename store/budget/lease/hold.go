package lease

import (
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// hold is what an instance has of one window: leased units, and units taken without the
// store.
type hold struct {
	window   int64
	n        int64 // units that may be used in all
	lent     int64 // units taken without the store, stated or not
	used     int64
	askBelow int64 // ask for more when fewer are unspent
	lastSaid int64 // n in the last ask

	from        int64 // low: start of use
	usableEarly int64 // Rolling: units that may be used before from
	until       int64 // high: end of use
	endedBy     int64 // low: the window has ended by then, whatever the clocks

	firstTake, lastTake int64 // low: times of the first and the last take
}

func (h *hold) take(low, n int64) {
	if h.firstTake == 0 {
		h.firstTake = low
	}
	h.lastTake = low
	h.used += n
}

// took tells whether a take at that time was from this hold.
func (h *hold) took(low int64) bool {
	return h.firstTake != 0 && low >= h.firstTake && low <= h.lastTake
}

// usable tells whether the hold, or a part of it, may be used now.
func (h *hold) usable(at instant) bool {
	return (h.from <= at.low || h.usableEarly > 0) && at.high < h.until
}

// free is how many unspent units may be used now, and reserved how many only later.
func (h *hold) free(at instant) int64 {
	if h.from > at.low {
		return max(min(h.usableEarly, h.n)-h.used, 0)
	}
	return max(h.n-h.used, 0)
}

func (h *hold) reserved(at instant) int64 {
	if h.from > at.low {
		return max(h.n-max(h.used, h.usableEarly), 0)
	}
	return 0
}

// keep returns unused units except for n free ones and, if reserved is true, the reserved
// ones.
func (h *hold) keep(at instant, n int64, reserved bool) {
	free, rest := min(h.free(at), n), h.reserved(at)
	if !reserved {
		rest = 0
	}
	h.usableEarly = min(h.usableEarly, h.used+free)
	h.n = h.used + free + rest
}

// holdings are the leases of one budget, and the store's last answers about it.
type holdings struct {
	budget
	record
	a     *Account
	key   string
	holds []hold   // sorted by window
	owed  int64    // units used without a lease, paid from the next lease
	since int64    // start of the debt
	known position // by the last answer
}

// present is the last hold that can be used now, or nil. Debts are paid first.
func (m *holdings) present(at instant) (last *hold) {
	for i := range m.holds {
		h := &m.holds[i]
		if !h.usable(at) {
			continue
		}
		if x := min(m.owed, h.free(at)); x > 0 {
			m.owed -= x
			h.used += x
		}
		last = h
	}
	return last
}

// available is the unspent units that can be used now.
func (m *holdings) available(at instant) int64 {
	if m.present(at) == nil || m.owed > 0 {
		return 0
	}
	return m.availableAfter(at, 0)
}

// availableAfter is the unspent units that can be used now and still after span.
func (m *holdings) availableAfter(at instant, span int64) (n int64) {
	for i := range m.holds {
		if h := &m.holds[i]; h.usable(at) && at.high+span < h.until {
			n += h.free(at)
		}
	}
	return n
}

// reservedLater is the units of later slots, and when they become usable.
func (m *holdings) reservedLater(at instant) (n, from int64) {
	if m.kind != store.Rolling {
		return 0, 0
	}
	for i := range m.holds {
		if h := &m.holds[i]; h.reserved(at) > 0 {
			if n == 0 {
				from = h.from
			}
			n += h.reserved(at)
		}
	}
	return n, from
}

func (m *holdings) hold(window int64) *hold {
	i := slices.IndexFunc(m.holds, func(h hold) bool { return h.window == window })
	if i < 0 {
		return nil
	}
	return &m.holds[i]
}

// open returns the hold of a window, and makes it if necessary.
func (m *holdings) open(window int64, h hold) *hold {
	i, found := slices.BinarySearchFunc(m.holds, window, func(h hold, window int64) int {
		return int(min(max(h.window-window, -1), 1))
	})
	if !found {
		h.window = window
		m.holds = slices.Insert(m.holds, i, h)
	}
	return &m.holds[i]
}

// forget removes windows that no longer count: those before the store's first counted
// window or, without an answer for a while, those that ended long ago by this machine's
// clock. The latter returns no units.
func (m *holdings) forget(at instant) {
	n := 0
	for ; n < len(m.holds); n++ {
		h := &m.holds[n]
		if h.window >= m.counting {
			if h.endedBy+m.countsFor()+forgetAfter > at.low {
				break
			}
			m.past = max(m.past, h.window)
		}
		m.a.leased.granted += max(h.n-h.lent, 0)
		m.a.leased.spent += min(h.used, max(h.n-h.lent, 0))
	}
	m.holds = slices.Delete(m.holds, 0, n)
}

// forgetAfter is how long after its end a window is forgotten that the store may have
// recorded as present.
const forgetAfter = 10 * second

// allWindows is the last possible window.
const allWindows = int64(math.MaxInt64)

// record is what an instance knows of the store's record of a budget.
type record struct {
	birth     string
	seen      time.Time // the latest time reported by the store
	counting  int64     // the first window that counted then
	past      int64     // windows up to this one were forgotten; allWindows: the record begins
	toldPast  int64     // past in the last ask
	settledAt int64     // low: nothing is granted before, after a loss
	clockSets int       // number of changes of the store's clock at the last answer
	notBefore int64     // low: the last grant is not used before, after a change of the store's clock
}

// endEarly ends the use of all windows at the end of the present one, by the first answer
// after the store's clock was set.
func (m *holdings) endEarly(window, until int64) {
	if m.clockSets == m.a.store.sets {
		return
	}
	m.clockSets = m.a.store.sets
	end := m.begins(window) + m.length(window)
	for i := range m.holds {
		h := &m.holds[i]
		h.until = min(h.until, until+m.begins(h.window)+m.length(h.window)-end)
	}
}

// say puts the record into an ask.
func (r *record) say(ask *store.Ask) {
	ask.Birth, ask.Seen, ask.Past, r.toldPast = r.birth, r.seen, r.past, r.past
}

func (m *holdings) say(ask *store.Ask) {
	m.record.say(ask)
	if m.kind != store.Rolling {
		ask.Counted, ask.Held = store.Holding{Window: m.known.window, N: m.known.counted}, m.known.heldHere
	}
}

// receive takes an answer that is Done or Foreign. It makes the store's record known,
// except for windows forgotten meanwhile.
func (r *record) receive(at instant, ans *store.Answer, first int64) {
	r.birth, r.counting, r.settledAt = ans.Birth, max(r.counting, first), 0
	if ans.Now.After(r.seen) {
		r.seen = ans.Now
	}
	if ans.Status == store.Foreign {
		r.settledAt = at.low + int64(ans.Recovery)
	}
	if r.past == r.toldPast {
		r.past = 0
	}
}

// ended tells whether a hold has expired.
func (h *hold) ended(at instant) bool { return at.high >= h.until }

// position is the state of the budget by the store's last answer.
type position struct {
	set        bool
	window     int64
	endedBy    int64 // low: the window has ended by then
	until      int64 // high: end of use of the window
	nextExpiry int64 // low: Rolling: when counted units expire next
	heardAt    int64 // low: time of the answer
	remaining  int64
	counted    int64 // units that are not left by that, as of then
	heldHere   int64 // of these, held by this instance
	holders    int
	slept      int64 // clock.slept at that time
}

// span is the time of a window by an account's clock.
type span struct {
	window               int64
	from, until, endedBy int64
}

// span is the present window, also during an outage. ok is false between two windows, and
// before the first answer.
func (m *holdings) span(at instant) (s span, ok bool) {
	k := &m.known
	if !k.set {
		return s, false
	}
	s = span{k.window, 0, k.until, k.endedBy}
	if at.low >= k.endedBy && m.kind != store.Quota && m.width > 0 {
		n := (at.low-k.endedBy)/m.width + 1
		s = span{k.window + n, k.endedBy + (n-1)*m.width, k.until + n*m.width, k.endedBy + n*m.width}
	}
	for i := 0; m.kind == store.Quota && at.low >= s.endedBy && i < 1000; i++ {
		s = m.spanAfter(s)
	}
	return s, at.low >= s.from && at.high < s.until
}

func (m *holdings) spanAfter(s span) span {
	number, length := m.next(s.window)
	return span{number, s.endedBy, s.until + length, s.endedBy + length}
}

// presentEnd is when the present window has ended.
func (m *holdings) presentEnd(at instant) (low int64, known bool) {
	s, _ := m.span(at)
	return s.endedBy, m.known.set
}

// granted takes a grant of a window with the tightest times of all answers. more tells
// whether it grew.
func (m *holdings) granted(window, n, from, until, over int64) (h *hold, more bool) {
	h = m.open(window, hold{from: from, until: until, endedBy: over})
	more = h.receive(n)
	h.from, h.until = min(h.from, from), max(h.until, until)
	if h.endedBy = min(h.endedBy, over); h.endedBy <= from { // the store's clock has stood still
		h.endedBy = over
	}
	return h, more
}

// receive takes a grant and tells whether it grew.
func (h *hold) receive(granted int64) bool {
	more := granted > h.lastSaid
	h.n = max(granted, h.used)
	return more
}

// blockedUntil is until when a window may not be used because it has not begun by the
// store's clock as it was before it was set: the window present then may have been used. 0:
// it may be used.
func (b *budget) blockedUntil(c *storeClock, at instant, window int64) (until int64) {
	if !c.set {
		return 0
	}
	for _, s := range append(c.steps, step{at.low, at.low + c.low - c.tolerance(at), c.latest(at)}) {
		if b.begins(window) <= s.high {
			continue
		}
		present, since := b.at(time.Unix(0, s.high))
		until = max(until, s.at+(s.high-s.low)-since+b.length(present)+b.countsFor())
	}
	return until
}

// begins is the start of a window, in nanoseconds since 1970.
func (b *budget) begins(window int64) int64 {
	if b.kind == store.Quota {
		return window * int64(time.Second)
	}
	return window * b.width
}
