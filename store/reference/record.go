package reference

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// record is the record of one budget. An Ask needs its instance's entry and the sums of all
// instances, so that it costs the same for any number of them.
type record struct {
	Birth   string // names it; "" when nothing is written down
	Life    string // of the store, when it was written last
	Now     int64  // the latest time that it has seen, in microseconds since 1970, as all times
	Until   int64  // by the store's clock: nothing of it counts later
	Settles int64  // by the store's clock: nothing is granted before; 0: nothing was ever lost
	Totals  []store.Holding
	Active  []users
	Entries map[string]entry // :: instance → what it said last
	Kept    int              // Entries that there were after the last sweep
	Added   int              // and that came since
	Before  before
}

// before has the units that counted in a window before a loss, as far as any instance knew,
// and the part of them that was stated again or is recorded. The others were of instances
// that have ended.
type before struct {
	Counted store.Holding
	Known   int64
}

// gone returns the units that count in a window of instances that ended before a loss.
func (b *before) gone(window int64) int64 {
	if b.Counted.Window != window {
		return 0
	}
	return max(b.Counted.N-b.Known, 0)
}

// knewMore tells whether an Ask is of an instance that knew the budget before a loss, and
// not since.
func (r *record) knewMore(a *store.Ask) bool {
	return a.Birth != "" && a.Birth != r.Birth && (a.Kind == store.Fixed || a.Kind == store.Quota)
}

// keeps returns the holdings of an instance after a loss, with the units of the present
// window that it gives back: those were counted before the loss, and its next Ask gives
// them back.
func (r *record) keeps(a *store.Ask, s span, holds []store.Holding) []store.Holding {
	if r.knewMore(a) && a.Counted.Window == s.window {
		return add(holds, s.window, a.Held-held(holds, s.window))
	}
	return holds
}

// remember records what an instance knows of the time before a loss: the units that
// counted, and those it holds itself, in place of its recorded ones. Totals are still
// without them.
func (r *record) remember(a *store.Ask, s span, known, holds []store.Holding) {
	if !r.knewMore(a) {
		return
	}
	b := &r.Before
	if a.Counted.Window == s.window && a.Counted.N > 0 {
		if b.Counted.Window != s.window {
			*b = before{store.Holding{Window: s.window}, held(r.Totals, s.window)}
		}
		b.Counted.N = max(b.Counted.N, a.Counted.N)
	}
	if b.Counted.Window == s.window {
		b.Known = min(max(b.Known+held(holds, s.window)-held(known, s.window), 0), brims)
	}
}

// entry is the record of one instance in one budget.
type entry struct {
	Seq    uint64
	Said   int64           // the window in which it was said
	Active int64           // until when it is one of those who use the budget; 0: it is not
	Holds  []store.Holding // positive, in order
}

// users counts the instances that use a budget until a time.
type users struct{ Until, N int64 }

// over tells whether nothing of an entry is of use any more. It stays a little longer
// than what it holds counts, so that a message that comes late is known to be old.
func (e *entry) over(s span) bool {
	return e.Said < s.since && len(since(e.Holds, s.first)) == 0
}

// count adds to the total of a window. A total at its bound stays there.
func (r *record) count(window, n int64) {
	i, found := find(r.Totals, window)
	switch {
	case !found && n > 0:
		r.Totals = slices.Insert(r.Totals, i, store.Holding{Window: window, N: min(n, brims)})
	case found && r.Totals[i].N < brims:
		if r.Totals[i].N = min(r.Totals[i].N+n, brims); r.Totals[i].N <= 0 {
			r.Totals = slices.Delete(r.Totals, i, i+1)
		}
	}
}

// sum returns the units that count in the present: in its window, or in all slots.
func (r *record) sum(a *store.Ask, s span) int64 {
	if a.Kind != store.Rolling {
		return min(held(r.Totals, s.window)+r.Before.gone(s.window), brims)
	}
	total := int64(0)
	for _, h := range r.Totals {
		total = min(total+h.N, brims)
	}
	return total
}

// When a budget is divided, only these instances count: those that waited for units within
// awaited, and those that held some within lately. Instances that have ended or have
// nothing more to do would make the parts of the others smaller.
const (
	awaited = int64(time.Minute / time.Microsecond)
	lately  = int64(2 * time.Second / time.Microsecond)
)

// using returns the time until which an instance counts as a user of the budget, by its Ask.
// It is a whole second, so that there are few such times.
func using(a *store.Ask, s span, now int64, holds []store.Holding) int64 {
	until := int64(0)
	switch {
	case a.Want > 0 || a.Ahead > 0:
		last := s.window
		if a.Kind == store.Fixed {
			last++
		}
		until = min(now+awaited, s.counts(a, last))
	case len(holds) > 0:
		until = min(now+lately, s.counts(a, holds[len(holds)-1].Window))
	default:
		return 0
	}
	return wholeSecond(until)
}

// wholeSecond rounds up, as for all recorded times that need not be exact.
func wholeSecond(at int64) int64 {
	const second = int64(time.Second / time.Microsecond)
	return (at + second - 1) / second * second
}

// use counts one more user of the budget until a time, or with -1 one less.
func (r *record) use(until, n int64) {
	i, found := slices.BinarySearchFunc(r.Active, until, func(u users, until int64) int { return cmp.Compare(u.Until, until) })
	switch {
	case found:
		if r.Active[i].N += n; r.Active[i].N <= 0 {
			r.Active = slices.Delete(r.Active, i, i+1)
		}
	case n > 0:
		r.Active = slices.Insert(r.Active, i, users{until, n})
	}
}

// forget drops the totals and users that no longer count.
func (r *record) forget(s span, now int64) {
	r.Totals = since(r.Totals, s.first)
	i := 0
	for i < len(r.Active) && r.Active[i].Until < now {
		i++
	}
	r.Active = r.Active[i:]
}

// sweep drops the entries of instances that are long gone, when their number is more than
// twice that after the last sweep, and sweeps.
func (r *record) sweep(s span) {
	if r.Added <= r.Kept+sweeps {
		return
	}
	maps.DeleteFunc(r.Entries, func(_ string, e entry) bool { return e.over(s) })
	r.Kept, r.Added = len(r.Entries), 0
}

const sweeps = 32

// reserve adds units of later slots, as soon as there will be room, until they are rest
// together with those held there already. A later Ask comes after them: all from a slot on
// counts for its grants, so no interval has too much.
func (r *record) reserve(holds []store.Holding, a *store.Ask, s span, rest, least int64) []store.Holding {
	for _, h := range since(holds, s.next) {
		rest -= h.N
	}
	total := r.sum(a, s)
	if rest <= 0 || total == brims {
		return holds
	}
	was := slices.Clone(r.Totals)
	for w := s.next; w <= s.next+slots(a) && rest > 0; w++ {
		total -= held(was, w-slots(a)-1)
		if n := min(a.Amount-total, rest); n >= min(least, rest) {
			holds = add(holds, w, n)
			r.count(w, n)
			total, rest = total+n, rest-n
		}
	}
	return holds
}

// lasts returns the time until which a record may count.
func (r *record) lasts(a *store.Ask, s span) int64 {
	last := s.window
	if n := len(r.Totals); n > 0 {
		last = max(last, r.Totals[n-1].Window)
	}
	switch a.Kind {
	case store.Fixed:
		return (last + 2) * width(a)
	case store.Rolling:
		return (last + slots(a) + 1) * width(a)
	}
	// Nothing says how long the window is that comes after the edges: as long as
	// twice the present one will do for every calendar.
	edge := max(a.Edges[len(a.Edges)-1].UnixMicro(), last*1_000_000)
	return edge + 2*(s.ends-s.window*1_000_000)
}

func (r *record) clone() *record {
	c := *r
	c.Totals, c.Active, c.Entries = slices.Clone(r.Totals), slices.Clone(r.Active), maps.Clone(r.Entries)
	for who, e := range c.Entries {
		e.Holds = slices.Clone(e.Holds)
		c.Entries[who] = e
	}
	return &c
}
