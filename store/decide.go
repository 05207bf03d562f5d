package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// A store counts in whole microseconds, as Redis does, and in amounts up to most,
// so that sums of them are exact in the floating point of its scripts.
const (
	most  = int64(1) << 50
	brims = int64(1) << 52 // where sums stop to grow
)

// record is what is written down of one budget.
type record struct {
	Now     int64            // the latest time that it has seen, in microseconds since 1970
	Entries map[string]entry // :: instance → what it said last
}

// entry is what is written down of one instance in one budget.
type entry struct {
	Seq   uint64
	Said  int64     // the window in which it was said
	Heard int64     // when, in microseconds since 1970; 0: nobody has written that down
	Wants bool      // something was wanted then
	Holds []Holding // that count, positive, in order
	State []byte    // Count
	Ahead int64     // Count: may have been taken after State
}

// turn is who asks, and when.
type turn struct {
	Instance string
	Now      int64 // by the store's clock, in microseconds
	Foreign  bool  // the store is not the one that the Batch is for
}

// foreign says whether a Batch is for another life of the store than this one.
//
// An instance that has not heard of any yet ("") and holds nothing is a newcomer, and
// is answered like everybody else. One that has not, but holds something, has taken
// that while it could not reach the store, so others may have as well, or it has
// lived through a life of the store of which nobody has told it: it says what it
// holds first, and gets something when it knows the generation. That a newcomer does
// not take what those have who did not yet come back after a loss is not known here:
// it asks for nothing while Pulse.Since is less than Settling.
func foreign(b *Batch, generation string) bool {
	return b.Generation != generation && !newcomer(b)
}

func newcomer(b *Batch) bool {
	return b.Generation == "" && !slices.ContainsFunc(b.Asks, func(a Ask) bool {
		return slices.ContainsFunc(a.Holds, func(h Holding) bool { return h.N > 0 })
	})
}

// budget is the name under which a budget is written down. The shape belongs to it:
// numbers of windows of one length mean nothing among those of another, as when the
// configuration has changed and not everybody has it yet.
func budget(a *Ask) string {
	switch a.Kind {
	case Fixed:
		return fmt.Sprintf("fixed/%d/%s", width(a), a.Key)
	case Rolling:
		return fmt.Sprintf("rolling/%d/%d/%s", width(a), slots(a), a.Key)
	case Quota:
		return "quota/" + a.Key
	case Count:
		return "count/" + a.Key
	}
	return "kind" + strconv.Itoa(int(a.Kind)) + "/" + a.Key
}

// Width is how long a window (or slot) with a number is by a store's clock: Window,
// or a slot of it, in whole microseconds, rounded up so that Slots of them are never
// less than a Window. It is 0 for kinds whose windows have no fixed length.
func Width(a *Ask) time.Duration { return time.Duration(width(a)) * time.Microsecond }

func width(a *Ask) int64 {
	var ns, n int64
	switch a.Kind {
	case Fixed:
		ns, n = int64(a.Window), 1
	case Rolling:
		ns, n = int64(a.Window), slots(a)
	}
	if ns <= 0 {
		return 0
	}
	each := (ns-1)/n + 1
	return (each-1)/1000 + 1
}

func slots(a *Ask) int64 { return int64(max(a.Slots, 1)) }

// span is where the present is among the windows of an Ask.
type span struct {
	window int64 // the number of the present one
	next   int64 // of the next
	ends   int64 // when the present one ends, in microseconds since 1970
	first  int64 // the number of the first one that counts
	since  int64 // of the first in which wanting something still counts
}

// spanOf is false when the Ask does not say in which window now is.
func spanOf(a *Ask, now int64) (span, bool) {
	switch a.Kind {
	case Fixed:
		if width(a) > 0 {
			w := now / width(a)
			return span{window: w, next: w + 1, ends: (w + 1) * width(a), first: w, since: w - 1}, true
		}
	case Rolling:
		if width(a) > 0 {
			w := now / width(a)
			return span{window: w, next: w + 1, ends: (w + 1) * width(a), first: w - slots(a), since: w - slots(a)}, true
		}
	case Quota:
		i, found := slices.BinarySearchFunc(a.Edges, now, func(e time.Time, now int64) int {
			return cmp.Compare(e.UnixMicro(), now)
		})
		if !found {
			i-- // the last edge that is not after now
		}
		if i < 0 || i+1 >= len(a.Edges) {
			return span{}, false
		}
		w := a.Edges[i].Unix()
		return span{
			window: w, next: a.Edges[i+1].Unix(), ends: a.Edges[i+1].UnixMicro(),
			first: w, since: a.Edges[max(i-1, 0)].Unix(),
		}, true
	}
	return span{}, false
}

// decide writes an Ask down and answers it. It is the arithmetic of every store; the
// script of Redis says the same in its language.
func decide(r *record, a *Ask, t turn) Answer {
	said := Answer{Key: a.Key, Seq: a.Seq}
	now := max(t.Now, r.Now)
	s, ok := spanOf(a, now)
	if !ok && a.Kind != Count {
		said.Status = Failed
		return said
	}
	if a.Kind != Count {
		r.forget(s)
	}
	if known, there := r.Entries[t.Instance]; there && a.Seq <= known.Seq {
		said.Status = Stale
		return said
	}
	r.Now = now
	if a.Kind == Count {
		// Nothing that somebody else says would change this answer, so it does not
		// matter for which life of the store it was.
		r.write(t.Instance, entry{Seq: a.Seq, State: slices.Clone(a.State), Ahead: clamp(a.Want)})
		said.Granted, said.Holders = clamp(a.Want), 1
		return said
	}
	mine := entry{Seq: a.Seq, Said: s.window, Heard: now, Wants: a.Want > 0 || a.Ahead > 0}
	mine.Holds = since(normal(a.Holds), s.first)
	r.write(t.Instance, mine)

	amount, least := clamp(a.Amount), max(a.Least, 1)
	holders := int64(1)
	for who, e := range r.Entries {
		if who != t.Instance && e.active(now) {
			holders++
		}
	}
	if t.Foreign {
		said.Status = Foreign
	} else {
		left, waits := amount-r.sum(a, s), clamp(a.Waits)
		got := grant(left, clamp(a.Want), least, fair(waits, amount, holders), holders)
		mine.Holds = add(mine.Holds, s.window, got)
		r.write(t.Instance, mine)
		if a.Kind == Rolling {
			rest := min(clamp(a.Ahead), max(amount/(2*holders), least)) - got
			mine.Holds = r.reserve(mine.Holds, s.window, slots(a), amount, rest, least)
		} else {
			left = amount - r.sumOf(s.next)
			has := held(mine.Holds, s.next)
			// A newcomer should find some of the next window as well.
			want := min(clamp(a.Ahead), max(amount/(2*holders), least)) - has
			mine.Holds = add(mine.Holds, s.next, grant(left, want, least, fair(waits, amount, holders), holders))
		}
		r.write(t.Instance, mine)
	}
	said.Window, said.Ends = s.window, micro(s.ends-now)
	said.Granted = held(mine.Holds, s.window)
	if a.Kind == Rolling {
		if oldest, any := r.oldest(); any {
			said.Free = micro((oldest+slots(a)+1)*width(a) - now)
		}
		if later := since(mine.Holds, s.next); len(later) > 0 {
			said.Later = slices.Clone(later)
		}
	} else {
		said.Ahead = held(mine.Holds, s.next)
	}
	said.Remaining = max(amount-r.sum(a, s), 0)
	said.Holders = int(holders)
	return said
}

// Of those who have something or want some only these count when it is divided: who
// has waited for some, and who was there a moment ago. Whoever has died, or has done
// what he had to do, would make it smaller for all who go on.
const (
	awaited = int64(time.Minute / time.Microsecond)
	lately  = int64(2 * time.Second / time.Microsecond)
)

// active tells whether somebody uses the budget.
func (e *entry) active(now int64) bool {
	switch {
	case e.Wants:
		return e.Heard == 0 || now-e.Heard <= awaited
	case len(e.Holds) == 0:
		return false
	}
	return e.Heard == 0 || now-e.Heard <= lately
}

// fair is as much of what waits as may be granted whole: it is used at once, so there
// is no reason for several small parts, but for others who want some of the window.
func fair(waits, amount, holders int64) int64 { return min(waits, amount/(2*holders)) }

// grant is how much of what is left somebody gets. One alone gets all he wants. Of
// several each gets a part of what is left, so that little is with those who will not
// use it when it comes to an end, or what waits if that is more; and the last ones go
// one by one.
func grant(left, want, least, waits, holders int64) int64 {
	if want < least || left < least {
		return 0
	}
	if holders > 1 {
		part := (left-1)/(2*holders) + 1
		want = min(want, max(part, least, waits))
	}
	return min(want, left)
}

// reserve adds some of later slots, as soon as there will be room, until that is as
// much as rest with what is held there already. Whoever comes next is after it: all
// from a slot on counts for what is granted in it, so no interval has too much.
func (r *record) reserve(holds []Holding, window, slots, amount, rest, least int64) []Holding {
	for _, h := range since(holds, window+1) {
		rest -= h.N
	}
	if rest <= 0 {
		return holds
	}
	sums, total := map[int64]int64{}, int64(0)
	for _, e := range r.Entries {
		for _, h := range e.Holds {
			sums[h.Window] = min(sums[h.Window]+h.N, brims)
			total = min(total+h.N, brims)
		}
	}
	if total == brims {
		return holds
	}
	for w := window + 1; w <= window+slots+1 && rest > 0; w++ {
		total -= sums[w-slots-1]
		if n := min(amount-total, rest); n >= min(least, rest) {
			holds = add(holds, w, n)
			total, rest = total+n, rest-n
		}
	}
	return holds
}

// lasts is until when a record may count, in microseconds since 1970.
func (r *record) lasts(a *Ask) int64 {
	const month = 31 * 24 * int64(time.Hour/time.Microsecond)
	s, ok := spanOf(a, r.Now)
	if !ok {
		return r.Now + month // a Count is of use until its process comes back
	}
	last := s.window
	for _, e := range r.Entries {
		if n := len(e.Holds); n > 0 {
			last = max(last, e.Holds[n-1].Window)
		}
	}
	switch a.Kind {
	case Fixed:
		return (last + 2) * width(a)
	case Rolling:
		return (last + slots(a) + 1) * width(a)
	}
	// Nothing says how long the window is that comes after the edges: as long as
	// twice the present one will do for every calendar.
	edge := max(a.Edges[len(a.Edges)-1].UnixMicro(), last*1_000_000)
	return edge + 2*(s.ends-s.window*1_000_000)
}

// forget drops what no longer counts. An entry without anything stays a little, so
// that a message that comes late is still known to be old.
func (r *record) forget(s span) {
	for who, e := range r.Entries {
		early := e.Said < s.since
		holds := since(e.Holds, s.first)
		switch {
		case early && len(holds) == 0:
			delete(r.Entries, who)
		case len(holds) < len(e.Holds), early && e.Wants:
			e.Holds, e.Wants = holds, e.Wants && !early
			r.Entries[who] = e
		}
	}
}

func (r *record) write(who string, e entry) {
	if r.Entries == nil {
		r.Entries = map[string]entry{}
	}
	r.Entries[who] = e
}

// sum is what counts in the present: in its window, or in all slots.
func (r *record) sum(a *Ask, s span) int64 {
	if a.Kind != Rolling {
		return r.sumOf(s.window)
	}
	total := int64(0)
	for _, e := range r.Entries {
		for _, h := range e.Holds {
			total = min(total+h.N, brims)
		}
	}
	return total
}

func (r *record) sumOf(window int64) int64 {
	total := int64(0)
	for _, e := range r.Entries {
		total = min(total+held(e.Holds, window), brims)
	}
	return total
}

// oldest is the first window in which anybody has something.
func (r *record) oldest() (int64, bool) {
	window, any := int64(0), false
	for _, e := range r.Entries {
		if len(e.Holds) > 0 && (!any || e.Holds[0].Window < window) {
			window, any = e.Holds[0].Window, true
		}
	}
	return window, any
}

func (r *record) clone() *record {
	c := &record{Now: r.Now, Entries: maps.Clone(r.Entries)}
	for who, e := range c.Entries {
		e.Holds = slices.Clone(e.Holds)
		c.Entries[who] = e
	}
	return c
}

// normal are holdings in order, each window once, and positive.
func normal(holds []Holding) []Holding {
	list := slices.Clone(holds)
	slices.SortFunc(list, func(a, b Holding) int { return cmp.Compare(a.Window, b.Window) })
	n := 0
	for _, h := range list {
		switch h.N = clamp(h.N); {
		case h.N == 0:
		case n > 0 && list[n-1].Window == h.Window:
			list[n-1].N = min(list[n-1].N+h.N, most)
		default:
			list[n] = h
			n++
		}
	}
	return list[:n]
}

func since(holds []Holding, first int64) []Holding {
	i := slices.IndexFunc(holds, func(h Holding) bool { return h.Window >= first })
	if i < 0 {
		return nil
	}
	return holds[i:]
}

func held(holds []Holding, window int64) int64 {
	if i, found := find(holds, window); found {
		return holds[i].N
	}
	return 0
}

// add makes a new list: what is written down is never changed in place.
func add(holds []Holding, window, n int64) []Holding {
	if n <= 0 {
		return holds
	}
	i, found := find(holds, window)
	holds = slices.Clone(holds)
	if found {
		holds[i].N = min(holds[i].N+n, most)
		return holds
	}
	return slices.Insert(holds, i, Holding{Window: window, N: n})
}

func find(holds []Holding, window int64) (int, bool) {
	return slices.BinarySearchFunc(holds, window, func(h Holding, window int64) int {
		return cmp.Compare(h.Window, window)
	})
}

func clamp(n int64) int64 { return min(max(n, 0), most) }

func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
