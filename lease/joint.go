package lease

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
)

const (
	// mostUses is how many uses an account remembers of a budget that the store has not
	// answered yet.
	mostUses = 32
	// outageAfter is how long the store has to fail before a budget that several
	// processes use goes by what this one knows of it.
	outageAfter = 10 * second
	// reportAfter is how soon it is said what was taken of a budget that others use now.
	reportAfter = 10 * int64(time.Millisecond)
	// leastPause is how long it takes at first to ask again for what others have, and
	// mostPause at last.
	leastPause = 20 * int64(time.Millisecond)
	mostPause  = 500 * int64(time.Millisecond)
	// lookahead is for how long a process asks beforehand where others use the budget.
	lookahead = 200 * int64(time.Millisecond)
)

// joint is what a kept meter needs where other processes of this machine may use the
// budget, too. As long as no other one does, the meter is right and the store has a copy.
// While several do, the store is right, and the meter inside is a copy of what it
// answered last: ahead is what this process may take, and nothing else goes.
type joint struct {
	spec   limit.Spec
	from   store.Origin
	owned  bool // what was written last is from this meter, or From is
	on     bool // other processes use it
	others int64
	demand int64 // units that wait

	taken int64       // since the last Ask was made
	given []store.Use // the same of what was taken before that Ask
	said  []store.Use // in an Ask that was not answered yet
	asked time.Time   // when the last Ask was made

	ready int64 // low: when there may be enough for what waits, if others take nothing more
	poll  int64 // low: when it is asked whether others have given some back
	rests int64 // low: nothing is asked for before
	pause int64
}

// Joint is Kept for a budget that other processes of this machine may use at the same
// time. m has what was read of it, with its Origin.
func (a *Account) Joint(key string, spec limit.Spec, m limit.Meter, from store.Origin) limit.Meter {
	k := a.Kept(key, m).(*kept)
	if k.joint == nil {
		k.joint = &joint{from: from, owned: true}
	}
	k.joint.spec = spec
	return k
}

// use notes that n was taken.
func (j *joint) use(n int64) { j.taken = min(j.taken+n, most) }

// back notes that n of what was taken at a time was given back. What is not remembered
// counts as used.
func (j *joint) back(taken time.Time, n int64) {
	if !taken.Before(j.asked) {
		x := min(j.taken, n)
		j.taken -= x
		n -= x
	}
	if n > 0 && len(j.given) < mostUses {
		j.given = append(j.given, store.Use{At: taken, N: -n})
	}
}

// say has all that is to be said be in the Ask with that number.
func (j *joint) say(now time.Time, seq uint64) []store.Use {
	for i := range j.given {
		j.given[i].Seq = seq
	}
	said := j.said
	if j.taken > 0 {
		said = append(said, store.Use{Seq: seq, At: now, N: j.taken})
	}
	said = append(said, j.given...)
	j.taken, j.given, j.asked = 0, nil, now
	j.said = compact(said)
	return append([]store.Use(nil), j.said...)
}

// compact makes of too many uses a single one: it may count twice what the store knows.
func compact(uses []store.Use) []store.Use {
	if len(uses) <= 2*mostUses {
		return uses
	}
	all := store.Use{}
	for _, u := range uses {
		all.Seq, all.At = u.Seq, u.At
		all.N = min(all.N+max(u.N, 0), most)
	}
	return []store.Use{all}
}

// answered forgets what was in an Ask that was answered, and in those before.
func (j *joint) answered(seq uint64) {
	n := 0
	for n < len(j.said) && j.said[n].Seq <= seq {
		n++
	}
	j.said = j.said[n:]
}

// shape is the arithmetic of a budget that several processes use. Nobody knows whose
// request was the first, so a first-use window is kept as any window of that length.
func shape(s limit.Spec) limit.Spec {
	if s.As == limit.FirstUse {
		s.As = limit.Rolling
	}
	return s
}

// jointMeter is the meter of a budget that several processes use, from what is kept.
func jointMeter(now time.Time, spec limit.Spec, state []byte) (limit.Meter, error) {
	m, err := limit.New(shape(spec))
	if err != nil || len(state) == 0 {
		return m, err
	}
	if m.Restore(now, state) == nil || spec.As != limit.FirstUse {
		return m, nil // what makes no sense counts for nothing
	}
	alone, err := limit.New(spec)
	if err == nil && alone.Restore(now, state) == nil {
		m.Take(now, spec.Amount-alone.Left(now))
	}
	return m, nil
}

// merge is store.Joint's.
func merge(spec limit.Spec, least int64) func(time.Time, []byte, []store.Use, int64, int64) ([]byte, int64) {
	return func(now time.Time, state []byte, uses []store.Use, lapsed, others int64) ([]byte, int64) {
		m, err := jointMeter(now, spec, state)
		if err != nil {
			return state, 0
		}
		for _, u := range uses {
			switch {
			case u.N > 0:
				m.Take(now, u.N)
			case spec.As == limit.Bucket, spec.As == limit.Paced:
				// What has come back since then is not known, so it counts as used.
			default:
				limit.GiveRestored(now, u.At, m, -u.N)
			}
		}
		m.Take(now, lapsed)
		next := m.State()
		m.Take(now, others)
		left := m.Left(now)
		if spec.As == limit.Paced {
			left = min(left, least) // the next one waits for its own time
		}
		return next, left
	}
}

// whenJoint is When while several processes use the budget.
func (m *kept) whenJoint(now time.Time, n int64) (time.Time, bool) {
	j := m.joint
	switch {
	case n <= 0, n <= m.ahead && j.spec.As != limit.Paced:
		return now, true
	case n <= m.ahead:
		return m.Meter.When(now, n) // one after the other
	}
	if m.whole == 0 {
		m.whole = largest(now, m.Meter)
	}
	if n > m.whole {
		return now, false
	}
	at := m.a.clock.at(now)
	if m.a.failing(at) {
		return m.Meter.When(now, n)
	}
	t, ok := m.Meter.When(now, min(n+j.others, m.whole))
	if !ok {
		return t, ok
	}
	m.first, m.waiting = n, max(m.waiting, n)
	j.ready = at.low
	if t.After(now) {
		j.ready = at.low + int64(t.Sub(now))
	}
	if low := m.due(at, false); low > at.low {
		m.a.stir(m, low)
	} else if !m.flying {
		m.a.waits(m, at)
	}
	if t.After(now) {
		return t, true
	}
	return now.Add(time.Duration(m.answerIn(at))), true
}

// answerIn is in how long it is worth to look whether an answer has come.
func (m *kept) answerIn(at instant) int64 {
	if low := m.wants(at); !m.flying && low > at.low {
		return low - at.low
	}
	if m.a.away {
		return max(m.a.retryAt-at.low, leastPause)
	}
	return min(shortly(m.a.asked(at), at), mostPause)
}

// dueJoint is due while several processes use the budget.
func (m *kept) dueJoint(at instant, eager bool) int64 {
	j, low := m.joint, never
	switch {
	case m.again, m.ahead < 0, m.a.releasing && (m.dirty != 0 || m.ahead > 0):
		return at.low
	case m.first > m.ahead:
		low = m.wants(at)
	}
	if m.dirty == 0 && m.ahead == 0 {
		return low
	}
	rest := quiet
	if j.others > 0 || m.first > m.ahead {
		rest = reportAfter
		if m.ahead > 0 {
			rest *= 10
		}
	}
	if eager {
		rest -= rest / 5
	}
	if m.ahead < mark(m.goalJoint(at), eager) && at.low < m.took+rest && m.wants(at) <= at.low {
		return at.low
	}
	return min(low, max(m.took, m.dirty)+rest)
}

// wants is when it is worth to ask for more: when there may be enough, or others may have
// given some back.
func (m *kept) wants(at instant) int64 {
	low := m.joint.ready
	if m.joint.others > 0 {
		low = min(low, m.joint.poll)
	}
	return max(low, m.joint.rests, at.low)
}

// goalJoint is how much there should be ahead beside what waits.
func (m *kept) goalJoint(at instant) int64 {
	if m.joint.spec.As == limit.Paced || m.pace.in(at.low, second) < 2 {
		return 0
	}
	return min(m.pace.in(at.low, lookahead), max(m.whole/portion, 1))
}

// askJoint completes what is asked of a budget that other processes may use.
func (m *kept) askJoint(now time.Time, at instant, ask *store.Ask) {
	j := m.joint
	waits := m.first > m.ahead && !m.a.releasing
	if j.on {
		n := int64(0)
		if !m.a.releasing && (waits || at.low < m.took+quiet-quiet/5) {
			n = m.goalJoint(at)
		}
		if waits {
			n += max(m.first, j.demand)
		}
		ask.Want = min(n, m.whole)
		ask.State = m.Meter.State()
	}
	ask.Joint = &store.Joint{
		Owned: j.owned && !j.on, From: j.from, Stays: j.spec.As == limit.FirstUse,
		Keep: min(m.ahead, ask.Want), Waits: waits, Merge: merge(j.spec, max(m.first, 1)),
	}
	if waits {
		ask.Joint.Least = m.first
	}
}

// hearJoint takes over what the store answers of a budget that others may use.
func (m *kept) hearJoint(now time.Time, at instant, ans *store.Answer) {
	j := m.joint
	j.answered(ans.Seq)
	j.on, j.others, j.owned, j.from = !ans.Owned, ans.Others, true, store.Origin{}
	if ans.State != nil {
		if fresh, err := jointMeter(now, j.spec, ans.State); err == nil {
			fresh.Take(now, m.since)
			m.Meter = fresh
		}
	}
	m.ahead = ans.Granted - m.since
	if ans.Granted >= max(m.first, 1) || m.first == 0 {
		j.pause, j.poll, j.rests = 0, 0, 0
		return
	}
	j.pause = min(max(2*j.pause, leastPause), mostPause)
	j.poll, j.rests = at.low+j.pause, at.low+leastPause
}

// failing tells whether the store has failed for so long that a budget goes by what
// this process knows of it.
func (a *Account) failing(at instant) bool { return a.away && at.low-a.awaySince >= outageAfter }

// waitsForStore tells whether nothing may go that is not written, since other processes
// go by that.
func (m *kept) waitsForStore(at instant) bool {
	return m.joint != nil && m.a.o.Several != nil && m.a.o.Several() && !m.a.failing(at)
}
