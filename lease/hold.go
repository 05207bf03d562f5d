package lease

import (
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// hold is what an instance has of one window: leased, or taken without the store.
type hold struct {
	window int64
	n      int64 // what may be used in all
	lent   int64 // taken up without the store, whether or not it was told since
	used   int64
	mark   int64 // ask for more when less than that is unspent
	said   int64 // of n, what was in the last ask

	from  int64 // low: it is not used before
	early int64 // Rolling: but so much of n, used or not
	until int64 // high: nor from here on
	over  int64 // low: the window has ended by here, whatever the clocks

	opened, latest int64 // low: the first and the last time that something was taken
}

func (h *hold) take(low, n int64) {
	if h.opened == 0 {
		h.opened = low
	}
	h.latest = low
	h.used += n
}

// took tells whether what was taken at a moment was taken from here.
func (h *hold) took(low int64) bool { return h.opened != 0 && low >= h.opened && low <= h.latest }

// usable tells whether a hold, or some of it, may be used now.
func (h *hold) usable(at instant) bool {
	return (h.from <= at.low || h.early > 0) && at.high < h.until
}

// free is what of a usable hold may be used now and was not, and reserved what may not.
func (h *hold) free(at instant) int64 {
	if h.from > at.low {
		return max(min(h.early, h.n)-h.used, 0)
	}
	return max(h.n-h.used, 0)
}

func (h *hold) reserved(at instant) int64 {
	if h.from > at.low {
		return max(h.n-max(h.used, h.early), 0)
	}
	return 0
}

// keep gives back what is neither used nor among n that are free, nor reserved if that is
// wanted.
func (h *hold) keep(at instant, n int64, reserved bool) {
	free, rest := min(h.free(at), n), h.reserved(at)
	if !reserved {
		rest = 0
	}
	h.early = min(h.early, h.used+free)
	h.n = h.used + free + rest
}

// present is the hold that can be used now, of several the last, or nil. What is owed is
// paid first.
func (m *shared) present(at instant) (last *hold) {
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

// room is what is unspent of the holds that can be used now.
func (m *shared) room(at instant) int64 {
	if m.present(at) == nil || m.owed > 0 {
		return 0
	}
	return m.lasting(at, 0)
}

// lasting is what is unspent of the holds that can be used now and after a length of time.
func (m *shared) lasting(at instant, span int64) (n int64) {
	for i := range m.holds {
		if h := &m.holds[i]; h.usable(at) && at.high+span < h.until {
			n += h.free(at)
		}
	}
	return n
}

// coming is what there is of later slots, and from when on.
func (m *shared) coming(at instant) (n, from int64) {
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

// served tells whether much of what waits has a place in a later slot, and from when on.
func (m *shared) served(at instant, room int64) (from int64, enough bool) {
	n, from := m.coming(at)
	return from, n > 0 && 2*n >= m.waiting-room
}

func (m *shared) hold(window int64) *hold {
	i := slices.IndexFunc(m.holds, func(h hold) bool { return h.window == window })
	if i < 0 {
		return nil
	}
	return &m.holds[i]
}

// open is the hold of a window, made if it is not there.
func (m *shared) open(window int64, h hold) *hold {
	i, found := slices.BinarySearchFunc(m.holds, window, func(h hold, window int64) int {
		return int(min(max(h.window-window, -1), 1))
	})
	if !found {
		h.window = window
		m.holds = slices.Insert(m.holds, i, h)
	}
	return &m.holds[i]
}

// forget leaves out windows that count no more: those before what the store has named.
// When nothing was heard of it for a while, those that have long ended by this machine's
// clock, which gives nothing of them back.
func (m *shared) forget(at instant) {
	n := 0
	for ; n < len(m.holds); n++ {
		h := &m.holds[n]
		if h.window >= m.counting {
			if h.over+m.counts()+forgetAfter > at.low {
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
// written down as present.
const forgetAfter = 10 * second

// everything is the last window of all.
const everything = int64(math.MaxInt64)

// record is what an instance knows of what the store has written down of a budget.
type record struct {
	birth    string
	seen     time.Time // the latest time that the store has named
	counting int64     // the first window that counted then
	past     int64     // windows up to this one were forgotten; everything: it begins
	told     int64     // past, in the last ask
	settles  int64     // low: nothing is granted before, after a loss
	sets     int       // how often the store's clock had been set when it was heard
	bar      int64     // low: what was granted last is not used before, after the store's clock was set
}

// curb has no window be used for longer than an answer says, which is the first one since
// the store's clock was set: when the present one ends.
func (m *shared) curb(window, until int64) {
	if m.sets == m.a.store.sets {
		return
	}
	m.sets = m.a.store.sets
	end := m.begins(window) + m.length(window)
	for i := range m.holds {
		h := &m.holds[i]
		h.until = min(h.until, until+m.begins(h.window)+m.length(h.window)-end)
	}
}

// say puts into an ask what is known.
func (r *record) say(ask *store.Ask) {
	ask.Birth, ask.Seen, ask.Past, r.told = r.birth, r.seen, r.past, r.past
}

func (m *shared) say(ask *store.Ask) {
	m.record.say(ask)
	if m.kind != store.Rolling {
		ask.Counted, ask.Held = store.Holding{Window: m.known.window, N: m.known.counted}, m.known.held
	}
}

// hear takes over what an answer says that is Done or Foreign. What the store has written
// down of this instance is known then, but for what was forgotten meanwhile.
func (r *record) hear(at instant, ans *store.Answer, first int64) {
	r.birth, r.counting, r.settles = ans.Birth, max(r.counting, first), 0
	if ans.Now.After(r.seen) {
		r.seen = ans.Now
	}
	if ans.Status == store.Foreign {
		r.settles = at.low + int64(ans.Settles)
	}
	if r.past == r.told {
		r.past = 0
	}
}

// ended tells whether a hold is of no use any more.
func (h *hold) ended(at instant) bool { return at.high >= h.until }

// position is where the store was when it was last heard.
type position struct {
	set       bool
	window    int64
	over      int64 // low: when the window has ended, at the latest
	until     int64 // high: when nothing of it is to be used any more
	free      int64 // low: Rolling: when something ends that counts now
	at        int64 // low: when that was heard
	remaining int64
	counted   int64 // less than the amount by that, as it was then
	held      int64 // of that, by this instance
	holders   int
	slept     int64 // the clock's, then
}

// span is a window on an account's clock.
type span struct {
	window            int64
	from, until, over int64
}

// span is the present window, whether or not the store is there to say so. ok is
// false in the moments between two, and when no store was heard.
func (m *shared) span(at instant) (s span, ok bool) {
	k := &m.known
	if !k.set {
		return s, false
	}
	s = span{k.window, 0, k.until, k.over}
	if at.low >= k.over && m.kind != store.Quota && m.width > 0 {
		n := (at.low-k.over)/m.width + 1
		s = span{k.window + n, k.over + (n-1)*m.width, k.until + n*m.width, k.over + n*m.width}
	}
	for i := 0; m.kind == store.Quota && at.low >= s.over && i < 1000; i++ {
		s = m.follows(s)
	}
	return s, at.low >= s.from && at.high < s.until
}

func (m *shared) follows(s span) span {
	number, length := m.next(s.window)
	return span{number, s.over, s.until + length, s.over + length}
}

// ends is when the present window has ended.
func (m *shared) ends(at instant) (low int64, known bool) {
	s, _ := m.span(at)
	return s.over, m.known.set
}
