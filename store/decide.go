package store

import (
	"slices"
	"time"
)

// A store counts in whole microseconds, as Redis does, and in amounts up to most,
// so that sums of them are exact in the floating point of its scripts.
const (
	most  = int64(1) << 50
	brims = int64(1) << 52 // where sums stop to grow
)

const (
	settling = int64(Settling / time.Microsecond)
	// spare is how much longer than it may count a record is kept, and how much is
	// known of it at least: so seldom its end is written down anew.
	spare = int64(time.Minute / time.Microsecond)
)

// turn is who asks, and when.
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
//
// An instance that has not heard of any yet ("") and holds nothing is a newcomer, and
// is answered like everybody else. One that has not, but holds something, has taken
// that while it could not reach the store, so others may have as well, or it has
// lived through a life of the store of which nobody has told it: it says what it
// holds first, and gets something when it knows the generation.
func foreign(b *Batch, generation string) bool {
	return b.Generation != generation && !newcomer(b)
}

func newcomer(b *Batch) bool {
	return b.Generation == "" && !slices.ContainsFunc(b.Asks, func(a Ask) bool {
		return slices.ContainsFunc(a.Holds, func(h Holding) bool { return h.N > 0 })
	})
}

// decide writes an Ask down and answers it. It is the arithmetic of every store; the
// script of Redis says the same in its language. When it returns that something was
// lost, everybody is to be told.
func decide(r *record, a *Ask, t turn) (said Answer, lost bool) {
	said = Answer{Key: a.Key, Seq: a.Seq}
	if a.Kind == Count {
		return r.keep(a, t), false
	}
	now := max(t.Now, r.Now, seen(a))
	s, ok := spanOf(a, now)
	if !ok {
		said.Status = Failed
		return said, false
	}
	known, there := r.Entries[t.Instance]
	if there && !known.over(s) && a.Seq <= known.Seq {
		said.Status = Stale
		return said, false
	}
	mine := entry{Seq: a.Seq, Said: s.window, Holds: since(normal(a.Holds), max(s.first, past(a)+1))}
	lost = r.begin(a, t, mine.Holds)
	wait := r.Settles - t.Now
	if wait > settling { // the clock was set back
		r.Settles, wait = t.Now+settling, settling
	}
	if !there {
		r.Added++
	}
	r.Now, r.Life = now, t.Life

	// What it has said before is exchanged for what it says now.
	r.forget(s, now)
	if s.window > past(a) {
		mine.Holds = r.keeps(a, s, mine.Holds)
	}
	r.remember(a, s, since(known.Holds, max(s.first, past(a)+1)), mine.Holds)
	r.use(known.Active, -1)
	for _, h := range since(known.Holds, max(s.first, past(a)+1)) {
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
		said.Status, said.Settles = Foreign, micro(max(wait, 0))
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
	if a.Kind == Rolling {
		if len(r.Totals) > 0 {
			said.Free = micro(s.counts(a, r.Totals[0].Window) - now)
		}
		if later := since(mine.Holds, s.next); len(later) > 0 {
			said.Later = slices.Clone(later)
		}
	} else {
		said.Ahead = held(mine.Holds, s.next)
	}
	said.Remaining = max(clamp(a.Amount)-r.sum(a, s), 0)
	said.Holders = int(holders)
	return said, lost
}

// keep is decide for a Count. Nothing that somebody else says would change the answer,
// so it does not matter for which life of the store it was.
func (r *record) keep(a *Ask, t turn) Answer {
	said := Answer{Key: a.Key, Seq: a.Seq}
	if known, there := r.Entries[t.Instance]; there && a.Seq <= known.Seq {
		said.Status = Stale
		return said
	}
	if r.Entries == nil {
		r.Entries = map[string]entry{}
	}
	const month = 31 * 24 * int64(time.Hour/time.Microsecond)
	r.Now = max(t.Now, r.Now)
	r.Until = r.Now + month // it is of use until its process comes back
	r.Entries[t.Instance] = entry{Seq: a.Seq, State: slices.Clone(a.State), Ahead: clamp(a.Want)}
	said.Granted, said.Holders = clamp(a.Want), 1
	return said
}

// begin gives a record its birth mark if it is new, and another one if something that
// was written down may be lost. Nothing is granted then until everybody has had time to
// say what he holds.
func (r *record) begin(a *Ask, t turn, holds []Holding) (lost bool) {
	fresh := r.Birth == "" || r.Until < t.Now
	moved := r.Life != t.Life && !fresh
	switch {
	case fresh:
		// It has ended, unless somebody knows better.
		lost = t.Known || a.Birth != "" && (len(holds) > 0 || t.Now < seen(a)+spare)
	case moved:
		lost = true // a replica that took over, or an old copy, may lack the last that was written
	case a.Birth == r.Birth:
		lost = seen(a) > r.Now // an old copy does
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

// grants is what an instance holds with what it is granted.
func (r *record) grants(a *Ask, s span, holds []Holding, holders int64) []Holding {
	amount, least := clamp(a.Amount), max(a.Least, 1)
	part := amount / (2 * holders)
	whole := min(clamp(a.Waits), part)
	left := amount - r.sum(a, s)
	got := grant(left, clamp(a.Want), least, whole, holders)
	slot := s.window
	if a.Kind == Rolling && got > 0 && left-got > plenty(amount, holders) {
		slot += lasts(a)
	}
	holds = add(holds, slot, got)
	r.count(slot, got)
	if slot > s.window {
		return holds
	}
	// A newcomer should find some of the next window as well.
	ahead := min(clamp(a.Ahead), max(part, least))
	if a.Kind == Rolling {
		return r.reserve(holds, a, s, ahead-got, least)
	}
	more := grant(amount-held(r.Totals, s.next), ahead-held(holds, s.next), least, whole, holders)
	r.count(s.next, more)
	return add(holds, s.next, more)
}

// grant is how much of what is left somebody gets. One alone gets all he wants. Of
// several each gets a part of what is left, so that little is with those who will not
// use it when it comes to an end, or what waits if that is more: that is used at once,
// so there is no reason for several small parts. And the last ones go one by one.
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

// plenty is how much is left of a Rolling budget that is far from being used up. One alone
// takes nothing away from others.
func plenty(amount, holders int64) int64 {
	if holders <= 1 {
		return amount / 4
	}
	return amount / 2
}

// seen is the latest time that an instance has heard of a budget, or 0.
func seen(a *Ask) int64 {
	if a.Seen.IsZero() {
		return 0
	}
	return min(max(a.Seen.UnixMicro(), 0), brims)
}

// past is Ask.Past in the exact range of a script's numbers; 0 is none.
func past(a *Ask) int64 {
	if a.Past <= 0 {
		return -1
	}
	return min(a.Past, 2*brims-2)
}
