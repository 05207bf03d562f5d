package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

// maxUses bounds the uses that the store has not confirmed.
const maxUses = 32

// takes are the units taken that a store may not know.
type takes struct {
	sinceAsk   int64       // since the last ask
	earlier    []store.Use // what was returned of units taken before that ask
	unanswered []store.Use // in an ask without an answer yet
	asked      time.Time   // time of the last ask
}

// recordReturn records that n units taken at a time were returned. Takes that are not
// recorded any more count as used.
func (t *takes) recordReturn(taken time.Time, n int64) {
	n = min(max(n, 0), maxAmount)
	if !taken.Before(t.asked) {
		x := min(t.sinceAsk, n)
		t.sinceAsk -= x
		n -= x
	}
	if n > 0 && len(t.earlier) < maxUses {
		t.earlier = append(t.earlier, store.Use{At: taken, N: -n})
	}
}

// unansweredUses moves all uses into the ask with that number, and returns them.
func (t *takes) unansweredUses(now time.Time, seq uint64) []store.Use {
	for i := range t.earlier {
		t.earlier[i].Seq = seq
	}
	said := t.unanswered
	if t.sinceAsk > 0 {
		said = append(said, store.Use{Seq: seq, At: now, N: t.sinceAsk})
	}
	said = append(said, t.earlier...)
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
		if i%2 == 1 {
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
		_ = restore(now, m, spec, state) // an invalid state is ignored
	}
	return m, err
}

// restore brings a new meter to a state, which may be empty. Of a state of the other limit it takes what is used.
func restore(now time.Time, m limit.Meter, other limit.Spec, state []byte) error {
	if len(state) == 0 || m.Restore(now, state) == nil {
		return nil
	}
	was, err := limit.New(other)
	if err == nil {
		err = was.Restore(now, state)
	}
	if err == nil {
		m.Take(now, other.Amount-was.Left(now))
	}
	return err
}

// merge is store.Ask.Joint: it merges the uses of processes into a state. inner is the state of the asking process, where
// the record may lack what that has, and nil otherwise.
func merge(spec limit.Spec, least int64, inner []byte) func(time.Time, []byte, []store.Use, int64, int64) ([]byte, int64, time.Time) {
	return func(now time.Time, state []byte, uses []store.Use, lapsed, others int64) ([]byte, int64, time.Time) {
		m, err := jointMeter(now, spec, state)
		if err != nil {
			return state, 0, now
		}
		m = takeUses(now, spec, m, uses)
		for _, u := range uses {
			// Units that were returned continuously since then are unknown, so they count as used.
			if u.N < 0 && spec.Traits().Returns != limit.Continuously {
				limit.GiveRestored(now, u.At, m, -u.N)
			}
		}
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

// takeUses takes the units of uses. After an outage these count from when they were taken, so
// that what has come back since is not owed: see limit.Carry.
func takeUses(now time.Time, spec limit.Spec, m limit.Meter, uses []store.Use) limit.Meter {
	list, late := limit.PastOf(now, m), false
	for _, u := range uses {
		if ago := max(now.Sub(u.At), 0); u.N > 0 {
			list, late = append(list, limit.Spent{Ago: ago, N: u.N}), late || int64(ago) > journalTimeout
		}
	}
	if late {
		slices.SortStableFunc(list, func(a, b limit.Spent) int { return cmp.Compare(b.Ago, a.Ago) })
		if again, err := limit.Carry(now, list, jointSpec(spec)); err == nil {
			return again
		}
	}
	for _, u := range uses {
		m.Take(now, max(u.N, 0))
	}
	return m
}
