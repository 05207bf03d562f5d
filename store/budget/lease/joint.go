package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

// maxUses bounds the uses that the store has not confirmed.
const maxUses = 256

// takes are the units taken that a store may not know.
type takes struct {
	sinceAsk   int64       // since the last ask
	earlier    []store.Use // what was returned or postponed of units taken before that ask
	unanswered []store.Use // in an ask without an answer yet
	asked      time.Time   // time of the last ask
}

// add records that n units were taken.
func (t *takes) add(n int64) { t.sinceAsk = min(t.sinceAsk+min(max(n, 0), maxAmount), maxAmount) }

// change records that of units taken at a time -n were returned or, if n is positive, n are sent only now. What is too
// much to remember counts as used, at both times.
func (t *takes) change(taken time.Time, n int64) {
	change := store.Use{At: taken.Truncate(time.Microsecond), N: n, Postponed: n > 0} // the store does not know the rest of the time
	if !taken.Before(t.asked) {
		recent := min(t.sinceAsk, max(n, -n))
		if n < 0 {
			t.sinceAsk -= recent
			recent = -recent
		}
		change.N -= recent
	}
	switch last := len(t.earlier) - 1; {
	case change.N == 0:
	case last >= 0 && t.earlier[last].At.Equal(change.At) && t.earlier[last].Postponed == change.Postponed:
		t.earlier[last].N += change.N
	case len(t.earlier) < maxUses:
		t.earlier = append(t.earlier, change)
	default:
		t.add(change.N)
	}
}

// unansweredUses moves all uses into the ask with that number, and returns them.
func (t *takes) unansweredUses(now time.Time, seq uint64) []store.Use {
	for i := range t.earlier {
		t.earlier[i].Seq = seq
	}
	said := append(t.unanswered, t.earlier...)
	if t.sinceAsk > 0 {
		said = append(said, store.Use{Seq: seq, At: now, N: t.sinceAsk})
	}
	t.sinceAsk, t.earlier, t.asked = 0, nil, now
	t.unanswered = compact(said)
	return slices.Clone(t.unanswered)
}

// compact merges each two of too many uses, at the later time. That may count twice what the
// store knows, and what was given back stays used.
func compact(uses []store.Use) []store.Use {
	if len(uses) <= 2*maxUses {
		return uses
	}
	uses = slices.DeleteFunc(uses, func(u store.Use) bool { return u.N <= 0 })
	for i, u := range uses {
		if u.Postponed = false; i%2 == 1 {
			u.N = min(u.N+uses[i/2].N, maxAmount)
		}
		uses[i/2] = u
	}
	return uses[:(len(uses)+1)/2]
}

// answered forgets the uses of an answered ask, and of asks before it.
func (t *takes) answered(seq uint64) {
	t.unanswered = slices.DeleteFunc(t.unanswered, func(u store.Use) bool { return u.Seq <= seq })
}

// jointSpec is the limit by which several processes share a budget. Which process made the
// first request is unknown, so a first-use window counts as a rolling window of that
// length.
func jointSpec(s limit.Spec) limit.Spec {
	if s.Traits().Returns == limit.AfterFirstUse {
		s.As = limit.Rolling
	}
	return s
}

// jointMeter restores the meter of a budget that several processes use.
func jointMeter(now time.Time, spec limit.Spec, state []byte) (limit.Meter, error) {
	m, err := limit.New(jointSpec(spec))
	if err == nil {
		m, _ = restore(now, jointSpec(spec), spec, m, state) // an invalid state is ignored
	}
	return m, err
}

// restore brings m, a new meter of spec, to a state, which may be empty. Of a state of the other limit it counts the takes.
func restore(now time.Time, spec, other limit.Spec, m limit.Meter, state []byte) (limit.Meter, error) {
	if len(state) == 0 || m.Restore(now, state) == nil {
		return m, nil
	}
	was, err := limit.New(other)
	if err == nil {
		err = was.Restore(now, state)
	}
	if err != nil {
		return m, err
	}
	return limit.Move(now, was, spec)
}

// merge is store.Ask.Joint: it merges the uses of processes into a state. inner is the state of the asking process, where
// the record may lack what that has, and nil otherwise.
func merge(spec limit.Spec, least int64, inner []byte) func(time.Time, []byte, []store.Use, int64, int64) ([]byte, int64, time.Time) {
	return func(now time.Time, state []byte, uses []store.Use, lapsed, others int64) ([]byte, int64, time.Time) {
		m, err := jointMeter(now, spec, state)
		if err != nil {
			return state, 0, now
		}
		m = applyUses(now, spec, m, uses)
		if fuller, err := jointMeter(now, spec, inner); err == nil && fuller.Left(now) < m.Left(now) {
			m = fuller // it has the uses, too
		}
		m.Take(now, lapsed)
		next := m.State()
		m.Take(now, others)
		left := m.Left(now)
		if spec.Traits().Spaced {
			left = min(left, least) // the next unit is not due yet
		}
		enough, _ := m.When(now, least)
		return next, left, enough
	}
}

// applyUses takes the units of uses, and gives back what was returned. After an outage units count from when they were
// taken, so that what has come back since is not owed: see limit.Carry.
func applyUses(now time.Time, spec limit.Spec, m limit.Meter, uses []store.Use) limit.Meter {
	list, late := limit.PastOf(now, m), false
	for _, u := range uses {
		if ago := max(now.Sub(u.At), 0); u.N > 0 && !u.Postponed {
			list, late = append(list, limit.Spent{Ago: ago, N: u.N}), late || int64(ago) > journalTimeout
		}
	}
	if late {
		slices.SortStableFunc(list, func(a, b limit.Spent) int { return cmp.Compare(b.Ago, a.Ago) })
		if again, err := limit.Carry(now, list, jointSpec(spec)); err == nil {
			m = again
		}
	}
	for _, u := range uses {
		switch {
		case u.Postponed:
			m.Postpone(now, u.At, u.N)
		case u.N < 0:
			m.Give(now, u.At, -u.N)
		case !late:
			m.Take(now, u.N)
		}
	}
	return m
}
