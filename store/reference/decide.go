package reference

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Amounts and sums are as package store counts them.
const (
	most  = int64(1) << 50
	brims = int64(1) << 52 // upper bound of sums
)

const (
	settling = int64(store.RecoveryTime / time.Microsecond)
	// spare is the time for which a record is stored longer than it may count, so that its
	// end is seldom written anew.
	spare = int64(time.Minute / time.Microsecond)
)

// turn identifies the asking instance, and has the store's clock and life at that time.
type turn struct {
	Instance string
	Now      int64  // by the store's clock, in microseconds
	Foreign  bool   // the store is not the one that the Batch is for
	Life     string // of the store
	Since    int64  // when that began, if it did with a loss of which all are told; 0: not known
	Birth    string // names the record, if it is made in this turn
	Known    bool   // a record is known to have been there, and that it still counts
}

// foreign says whether a Batch is for another life of the store than this one.
func foreign(b *store.Batch, generation string) bool {
	return b.Generation != generation && !b.Newcomer()
}

// decide records an Ask and answers it. It is the arithmetic of every store; redis.lua
// does the same. If lost is true, all instances must be told.
func decide(r *record, a *store.Ask, t turn) (said store.Answer, lost bool) {
	said = store.Answer{Key: a.Key, Seq: a.Seq}
	now := max(t.Now, r.Now, a.Seen.UnixMicro())
	s, ok := spanOf(a, now)
	if !ok {
		said.Status = store.Failed
		return said, false
	}
	known, there := r.Entries[t.Instance]
	if there && !known.over(s) && a.Seq <= known.Seq {
		said.Status = store.Stale
		return said, false
	}
	mine := entry{Seq: a.Seq, Said: s.window, Holds: since(a.Holds, max(s.first, a.Past+1))}
	lost = r.begin(a, t, mine.Holds)
	wait := r.Settles - t.Now
	if wait > settling { // the clock was set back
		r.Settles, wait = t.Now+settling, settling
	}
	if !there {
		r.Added++
	}
	r.Now, r.Life = now, t.Life

	// The new statement replaces the one before.
	r.forget(s, now)
	if s.window > a.Past {
		mine.Holds = r.keeps(a, s, mine.Holds)
	}
	r.remember(a, s, since(known.Holds, max(s.first, a.Past+1)), mine.Holds)
	r.use(known.Active, -1)
	for _, h := range since(known.Holds, max(s.first, a.Past+1)) {
		r.count(h.Window, -h.N)
	}
	for _, h := range mine.Holds {
		r.count(h.Window, h.N)
	}
	holders := int64(1)
	for _, u := range r.Active {
		holders += u.N
	}
	if mine.Active = using(a, s, now, mine.Holds); mine.Active > 0 {
		r.use(mine.Active, 1)
	}

	if t.Foreign || wait > 0 {
		said.Status, said.Recovery = store.Foreign, micro(max(wait, 0))
	} else {
		mine.Holds = r.grants(a, s, mine.Holds, holders)
	}
	if r.Entries == nil {
		r.Entries = map[string]entry{}
	}
	r.Entries[t.Instance] = mine
	r.sweep(s)
	if till := r.lasts(a, s); till > r.Until {
		r.Until = wholeSecond(till + spare)
	}

	said.Birth, said.Now = r.Birth, time.UnixMicro(now)
	said.Window, said.Ends = s.window, micro(s.ends-now)
	said.Granted = held(mine.Holds, s.window)
	if later := since(mine.Holds, s.next); len(later) > 0 {
		said.Later = slices.Clone(later)
	}
	said.Remaining = max(a.Amount-r.sum(a, s), 0)
	said.Holders = int(holders)
	return said, lost
}

// begin gives a record its birth mark if it is new, and another one if recorded data may be
// lost. Nothing is granted then until all instances had time to state their holdings.
func (r *record) begin(a *store.Ask, t turn, holds []store.Holding) (lost bool) {
	fresh := r.Birth == "" || r.Until < t.Now
	moved := r.Life != t.Life && !fresh
	switch {
	case fresh:
		// It has ended, unless somebody knows better.
		lost = t.Known || a.Birth != "" && (len(holds) > 0 || t.Now < a.Seen.UnixMicro()+spare)
	case moved:
		lost = true // a replica that took over, or an old copy, may lack the last that was written
	case a.Birth == r.Birth:
		lost = a.Seen.UnixMicro() > r.Now // an old copy does
	case a.Birth != "":
		lost = len(holds) > 0 && r.Settles == 0
	}
	young := fresh && t.Since+settling > t.Now && !t.Known
	switch {
	case t.Since > 0 && (moved || young): // everybody was told of a new life
		r.Birth, r.Settles, lost = t.Birth, t.Since+settling, false
	case lost:
		r.Birth, r.Settles = t.Birth, t.Now+settling
	case fresh:
		r.Birth, r.Settles = t.Birth, 0
	}
	if r.Birth == t.Birth {
		r.Before = before{}
	}
	return lost
}

// grants adds a grant to the holdings of an instance.
func (r *record) grants(a *store.Ask, s span, holds []store.Holding, holders int64) []store.Holding {
	amount, least := a.Amount, a.Least
	part := amount / (2 * holders)
	whole := min(a.Waits, part)
	left := amount - r.sum(a, s)
	got := grant(left, a.Want, least, whole, holders)
	slot := s.window
	if a.Kind == store.Rolling && got > 0 && left-got > plenty(amount, holders) {
		slot += int64(a.Lasts)
	}
	holds = add(holds, slot, got)
	r.count(slot, got)
	if slot > s.window {
		return holds
	}
	// A newcomer should find units of the next window, too.
	ahead := min(a.Ahead, max(part, least))
	if a.Kind == store.Rolling {
		return r.reserve(holds, a, s, ahead-got, least)
	}
	more := grant(amount-held(r.Totals, s.next), ahead-held(holds, s.next), least, whole, holders)
	r.count(s.next, more)
	return add(holds, s.next, more)
}

// grant returns the part of the units left that an instance gets. A single instance gets
// all it wants. Of several each gets a part of the units left, so that few are with
// instances that do not use them when the budget runs out, or the waiting units if these
// are more: they are used at once, so several small parts have no use. The last units go
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

// plenty returns the units left from which a Rolling budget is far from being used up. A
// single instance takes nothing away from others.
func plenty(amount, holders int64) int64 {
	if holders <= 1 {
		return amount / 4
	}
	return amount / 2
}
