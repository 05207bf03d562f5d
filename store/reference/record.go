package reference

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// record is what is written down of one budget. What an Ask needs of it are its
// instance's entry and what all have together, so that it costs the same however many
// they are.
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

// before is what counted in a window before a loss, as far as anybody has heard, and what
// of it was said again or written down. The rest was of instances that have ended.
type before struct {
	Counted store.Holding
	Known   int64
}

// gone is what counts in a window of instances that have ended before a loss.
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

// keeps is what an instance holds after a loss, with what it gives back of the present
// window: that was counted before the loss, and is given back by its next Ask.
func (r *record) keeps(a *store.Ask, s span, holds []store.Holding) []store.Holding {
	if r.knewMore(a) && a.Counted.Window == s.window {
		return add(holds, s.window, a.Held-held(holds, s.window))
	}
	return holds
}

// remember hears what an instance knows of the time before a loss: what counted, and what
// it holds itself, in place of what is written down of it. Totals are still without that.
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

// entry is what is written down of one instance in one budget.
type entry struct {
	Seq    uint64
	Said   int64           // the window in which it was said
	Active int64           // until when it is one of those who use the budget; 0: it is not
	Holds  []store.Holding // positive, in order
	State  []byte          // Count
	Ahead  int64           // Count: may have been taken after State
}

// users is how many instances use a budget until a time.
type users struct{ Until, N int64 }

// over tells whether nothing of an entry is of use any more. It stays a little longer
// than what it holds counts, so that a message that comes late is known to be old.
func (e *entry) over(s span) bool {
	return e.Said < s.since && len(since(e.Holds, s.first)) == 0
}

// count adds to what all have in a window. What is too much to be counted stays so.
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

// sum is what counts in the present: in its window, or in all slots.
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

// Of those who have something or want some only these count when it is divided: who
// has waited for some, and who was there a moment ago. Whoever has died, or has done
// what he had to do, would make it smaller for all who go on.
const (
	awaited = int64(time.Minute / time.Microsecond)
	lately  = int64(2 * time.Second / time.Microsecond)
)

// using is until when an instance is one of those who use the budget, by what it says.
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

// wholeSecond is rounded up, as all times that are written down and need not be exact.
func wholeSecond(at int64) int64 {
	const second = int64(time.Second / time.Microsecond)
	return (at + second - 1) / second * second
}

// use says that one more, or with -1 one less, uses the budget until a time.
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

// forget drops what no longer counts of what all have together.
func (r *record) forget(s span, now int64) {
	r.Totals = since(r.Totals, s.first)
	i := 0
	for i < len(r.Active) && r.Active[i].Until < now {
		i++
	}
	r.Active = r.Active[i:]
}

// sweep drops the entries of those who are long gone, when there are twice as many as
// there were.
func (r *record) sweep(s span) {
	if r.Added <= r.Kept+sweeps {
		return
	}
	maps.DeleteFunc(r.Entries, func(_ string, e entry) bool { return e.over(s) })
	r.Kept, r.Added = len(r.Entries), 0
}

const sweeps = 32

// reserve adds some of later slots, as soon as there will be room, until that is as
// much as rest with what is held there already. Whoever comes next is after it: all
// from a slot on counts for what is granted in it, so no interval has too much.
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

// lasts is until when a record may count.
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
