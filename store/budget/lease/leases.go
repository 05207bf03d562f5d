package lease

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/store"
)

// forgetAfter is the time after the end of a window after which it is forgotten, although
// the store may have recorded it as present.
const forgetAfter = 10 * second

// allWindows is the last possible window.
const allWindows = int64(math.MaxInt64)

// hold is an instance's part of one window: leased units, and units taken without the
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

// take counts n units used at low, the earliest that the time of the store can be.
func (h *hold) take(low, n int64) {
	h.firstTake = cmp.Or(h.firstTake, low)
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

// ended tells whether a hold has expired.
func (h *hold) ended(at instant) bool { return at.high >= h.until }

// free returns the unspent units that may be used now.
func (h *hold) free(at instant) int64 {
	if h.from > at.low {
		return max(min(h.usableEarly, h.n)-h.used, 0)
	}
	return max(h.n-h.used, 0)
}

// reserved returns the unspent units that may be used only later.
func (h *hold) reserved(at instant) int64 {
	if h.from > at.low {
		return max(h.n-max(h.used, h.usableEarly), 0)
	}
	return 0
}

// retain returns unused units except for n free ones and, if reserved is true, the reserved
// ones.
func (h *hold) retain(at instant, n int64, reserved bool) {
	free, later := min(h.free(at), n), int64(0)
	if reserved {
		later = h.reserved(at)
	}
	h.usableEarly = min(h.usableEarly, h.used+free)
	h.n = h.used + free + later
}

// leases are the units that an instance may spend of one budget: those that the store has
// leased to it and, while the store is away, those of the outage rule.
type leases struct {
	a      *Account
	budget budget
	holds  []hold   // sorted by window
	owed   int64    // units used without a lease, paid from the next lease
	since  int64    // start of the debt
	known  position // by the store's last answer
	record record

	outage      Outage
	unreadable  bool  // the store cannot read the budget's record
	notSaid     int64 // taken without the store since the last ask
	notReported int64 // taken without the store since the last Loan
}

// position is the state of the budget by the store's last answer.
type position struct {
	set       bool
	window    int64
	endedBy   int64 // low: the window has ended by then
	until     int64 // high: end of use of the window
	heardAt   int64 // low: time of the answer
	remaining int64
	counted   int64 // units that are not left by that, as of then
	heldHere  int64 // of these, held by this instance
	holders   int
	slept     int64 // clock.slept at that time
}

// span is the time of a window by an account's clock.
type span struct {
	window               int64
	from, until, endedBy int64
}

// record identifies the store's record of a budget, as an instance knows it.
type record struct {
	birth     string
	seen      time.Time // the latest time reported by the store
	counting  int64     // the first window that counted then
	past      int64     // windows up to this one were forgotten; allWindows: the record begins
	toldPast  int64     // past in the last ask
	settledAt int64     // low: after a loss, nothing is granted before; after a change of the store's clock, the last grant is not used before
	clockSets int       // number of changes of the store's clock at the last answer
}

// say puts the record into an ask.
func (r *record) say(ask *store.Ask) {
	ask.Birth, ask.Seen, ask.Past, r.toldPast = r.birth, r.seen, r.past, r.past
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

// present returns the last hold that can be used now, or nil. It pays debts first.
func (l *leases) present(at instant) (last *hold) {
	for i := range l.holds {
		h := &l.holds[i]
		if !h.usable(at) {
			continue
		}
		if x := min(l.owed, h.free(at)); x > 0 {
			l.owed -= x
			h.used += x
		}
		last = h
	}
	return last
}

// available returns the unspent units that can be used now.
func (l *leases) available(at instant) (n int64) {
	if l.present(at) == nil || l.owed > 0 {
		return 0
	}
	for i := range l.holds {
		if h := &l.holds[i]; h.usable(at) {
			n += h.free(at)
		}
	}
	return n
}

// reservedLater returns the units of later slots, and the time at which they become usable.
func (l *leases) reservedLater(at instant) (n, from int64) {
	if l.budget.kind != store.Rolling {
		return 0, 0
	}
	for i := range l.holds {
		if h := &l.holds[i]; h.reserved(at) > 0 {
			if n == 0 {
				from = h.from
			}
			n += h.reserved(at)
		}
	}
	return n, from
}

func (l *leases) hold(window int64) *hold {
	return lists.Find(l.holds, func(h *hold) bool { return h.window == window })
}

// open returns the hold of a window, and makes it if necessary.
func (l *leases) open(window int64, h hold) *hold {
	i, found := slices.BinarySearchFunc(l.holds, window, func(h hold, window int64) int {
		return int(min(max(h.window-window, -1), 1))
	})
	if !found {
		h.window = window
		l.holds = slices.Insert(l.holds, i, h)
	}
	return &l.holds[i]
}

// forget removes windows that no longer count: those before the store's first counted
// window or, without an answer for a while, those that ended long ago by this machine's
// clock. The latter returns no units.
func (l *leases) forget(at instant) {
	n := 0
	for ; n < len(l.holds); n++ {
		h := &l.holds[n]
		if h.window >= l.record.counting {
			if h.endedBy+l.budget.countsFor()+forgetAfter > at.low {
				break
			}
			l.record.past = max(l.record.past, h.window)
		}
		l.a.report.Granted += max(h.n-h.lent, 0)
		l.a.report.Spent += min(h.used, max(h.n-h.lent, 0))
	}
	l.holds = slices.Delete(l.holds, 0, n)
}

// endEarly ends the use of all windows at the end of the present one, by the first answer
// after the store's clock was set.
func (l *leases) endEarly(window, until int64) {
	if l.record.clockSets == l.a.store.sets {
		return
	}
	l.record.clockSets = l.a.store.sets
	for i := range l.holds {
		h := &l.holds[i]
		h.until = min(h.until, until+l.budget.ends(h.window)-l.budget.ends(window))
	}
}

func (l *leases) say(ask *store.Ask) {
	l.record.say(ask)
	if l.budget.kind != store.Rolling {
		ask.Counted, ask.Held = store.Holding{Window: l.known.window, N: l.known.counted}, l.known.heldHere
	}
}

// span returns the present window, also during an outage. ok is false between two windows,
// and before the first answer.
func (l *leases) span(at instant) (s span, ok bool) {
	k := &l.known
	if !k.set {
		return s, false
	}
	s = span{k.window, 0, k.until, k.endedBy}
	if past := at.low - k.endedBy; past >= 0 {
		number, since := l.budget.at(time.Unix(0, l.budget.ends(k.window)+past))
		ends := at.low - since + l.budget.length(number)
		s = span{number, at.low - since, k.until + ends - k.endedBy, ends}
	}
	return s, at.low >= s.from && at.high < s.until
}

// granted takes a grant of a window with the tightest times of all answers. grew tells
// whether the grant grew.
func (l *leases) granted(window, n, from, until, over int64) (h *hold, grew bool) {
	h = l.open(window, hold{from: from, until: until, endedBy: over})
	grew = n > h.lastSaid
	h.n = max(n, h.used)
	h.from, h.until = min(h.from, from), max(h.until, until)
	if h.endedBy = min(h.endedBy, over); h.endedBy <= from { // the store's clock has stood still
		h.endedBy = over
	}
	return h, grew
}

// betweenWindows tells whether the present window is about to end: nothing is sent in it
// any more, nor in the next one yet.
func (l *leases) betweenWindows(at instant) bool {
	k := &l.known
	return k.set && at.high >= k.until && at.low < k.endedBy && k.slept == at.slept() && !l.farFromLimit(at)
}

// expectsGrant tells whether the store will probably grant n units in advance. If not, it
// is better to ask when units wait: that ask is granted as a whole.
func (l *leases) expectsGrant(at instant, n int64) bool {
	k := &l.known
	return at.low >= k.endedBy || k.holders <= 1 || k.remaining/int64(2*k.holders) >= n/2
}

// farFromLimit tells whether a rolling limit was far from being reached by the store's last
// answer, so that the store will probably grant units of later slots at once.
func (l *leases) farFromLimit(at instant) bool {
	k := &l.known
	return l.budget.kind == store.Rolling && !l.budget.once && k.set && k.slept == at.slept() &&
		at.low < k.endedBy+l.budget.countsFor() && (k.remaining > l.budget.amount/2 || k.holders <= 1 && k.remaining > l.budget.amount/4)
}

// lendable returns the units that may be taken now without the store, beyond the leases.
func (l *leases) lendable(at instant) int64 {
	if !l.lends(at) {
		return 0
	}
	if !l.known.set {
		l.guessPosition(at)
	}
	s, ok := l.span(at)
	if !ok {
		return 0
	}
	return max(l.allowed(at, s, l.hold(s.window))-l.owed, 0)
}

// lends tells whether units may be taken now without the store. When the store is back,
// that ends a while before other instances ask for units, so that loans are reported by
// then.
func (l *leases) lends(at instant) bool {
	switch {
	case l.outage == Strict:
		return false
	case l.unreadable, l.a.storeAway(at), l.a.returnedAt > 0 && at.low < l.a.returnedAt+int64(store.RecoveryTime)-second:
		return true
	}
	return l.outage == Open && l.a.noWantsBefore > at.low
}

// wantsFrom returns the time before which nothing may be wanted. After an outage other
// instances report their loans first.
func (l *leases) wantsFrom(at instant) int64 {
	low := max(l.a.noWantsBefore, l.record.settledAt)
	if l.outage != Strict {
		low = max(low, l.a.settledAt(at))
	}
	return low
}

// mayWant tells whether an ask may want units. During an outage nobody knows the time at
// which the ask arrives, and the units that others have taken by then.
func (l *leases) mayWant(at instant) bool {
	return l.wantsFrom(at) <= at.low && !l.lentBeforeHeard() && (l.outage == Strict || !l.a.away)
}

// lentBeforeHeard tells whether units were taken without the store before its first answer.
// Leases of an earlier meter must be known first.
func (l *leases) lentBeforeHeard() bool { return l.record.past == allWindows && len(l.holds) > 0 }

// mayBeLent tells whether an answer's grant may have been taken without the store, by this
// or another instance, after the ask.
func (l *leases) mayBeLent(at instant, wanted bool) bool {
	return l.notSaid > 0 || l.outage != Strict && l.a.settledAt(at) > at.low && wanted
}

// allowed returns the units that the outage rule allows beyond hold h in a window.
func (l *leases) allowed(at instant, s span, h *hold) int64 {
	n, lent := int64(0), int64(0)
	if h != nil {
		n, lent = h.n, h.lent
	}
	if l.budget.slots > 0 { // sum up all slots that count
		n, lent = 0, 0
		for i := range l.holds {
			h := &l.holds[i]
			if h.endedBy+l.budget.countsFor() <= at.low {
				continue
			}
			lent += h.lent
			if h.window >= s.window {
				n += h.n
			} else {
				n += h.used
			}
		}
	}
	part := l.budget.amount / l.a.members()
	switch {
	case l.outage == Open:
		return max(l.budget.amount-n, 0)
	case at.low < l.known.endedBy+l.budget.countsFor():
		if h != nil {
			lent += max(h.n-h.used, 0)
		}
		return max(l.known.remaining/l.a.members()-lent, 0)
	}
	return max(part-n, 0)
}

// guessPosition assumes the position of a store with this machine's clock, until the first
// answer.
func (l *leases) guessPosition(at instant) {
	now := l.a.clock.time(at.low)
	window, since := l.budget.at(now)
	length := l.budget.length(window)
	end := at.low + length - since
	l.known = position{
		set: true, window: window, endedBy: end, until: end + at.high - at.low - margin(length),
		heardAt: at.low, remaining: l.budget.amount,
	}
}
