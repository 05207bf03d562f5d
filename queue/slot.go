package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Slot is one meter of a site (everyone's, a client's, a route's, a token's)
// and the cooldown of what it stands for. It belongs to the scheduler that made
// it.
type Slot struct {
	// What every request looks at is together at the beginning, in as few lines of
	// the processor's cache as can be: there are many slots, and most are cold.
	meter   limit.Meter // nil: only a cooldown
	bench   *bench      // nil while nobody waits for it
	ramp    *ramp       // the way out of a cooldown; usually nil
	hotAt   int         // index in Scheduler.hot plus one
	users   int         // holds and permits that name it
	flying  int64       // taken by what is not finished
	thirst  int64       // bytes that draws wait for because of it
	cool    time.Time   // not before
	changed time.Time   // when the meter last replaced another

	name    string
	title   string // without whose it is
	toll    *toll  // nil until it holds something back
	fresh   func() limit.Meter
	id      uint32
	inWake  int32
	s       *Scheduler
	coolWhy string
	owed    int64 // of what is flying, what is older than the meter and more than it could hold

	holder *lane // the first of the bench, when it is known to wait
	wake   time.Time

	queued [classes]int64 // units that waiting holds want, by priority

	pace pace

	beyond int64     // bytes that are lent as Slack
	demand Demanding // the meter, if it wants to know what waits
	told   int64     // what it knows of that
	kept   bool      // Gate.With may change the meter
	listed bool      // in Scheduler.blocking

	choices []*choice // alternatives that need it

	pending      []byte    // state of the meter that it will have; see site.restore
	pendingUntil time.Time // when that is worth nothing any more
	minded       bool      // in Scheduler.minded
}

// Name is what the slot was made with.
func (s *Slot) Name() string { return s.name }

// Left is what could be taken at once, or soon if the meter's store grants it; -1 when
// there is no meter.
func (s *Slot) Left(now time.Time) int64 {
	switch {
	case s.cool.After(now), s.full(now):
		return 0
	case s.meter == nil:
		return -1
	}
	if shared, ok := s.meter.(interface{ Rest(now time.Time) int64 }); ok {
		return shared.Rest(now)
	}
	return s.meter.Left(now)
}

// Meter is the slot's own, for its State; nil if it only cools.
func (s *Slot) Meter() limit.Meter { return s.meter }

// idle tells whether nothing would change if the slot were made anew.
func (s *Slot) idle(now time.Time) bool {
	return s.users == 0 && !s.cool.After(now) && !s.recovers(now) && !s.pendingUntil.After(now) && (s.meter == nil || s.meter.Idle(now))
}

// far is later than any wait: an answer beyond it means "when something
// happens", as for a limit on what is in flight.
const far = 5 * 365 * 24 * time.Hour

// when is when n could be taken, were nobody else waiting.
func (s *Slot) when(now time.Time, n int64) time.Time {
	if s.ramp != nil && s.full(now) {
		return now.Add(2 * far)
	}
	at := now
	if s.meter != nil && n > 0 {
		t, ok := s.meter.When(now, n)
		if !ok {
			return now.Add(2 * far)
		}
		if t.After(at) {
			at = t
		}
	}
	if s.cool.After(at) {
		at = s.cool
	}
	if s.thirst > 0 && n > 0 && !at.After(now) {
		return now.Add(2 * far) // when those have drawn that are under way
	}
	return at
}

// stir asks for another look at who is first.
func (s *Slot) stir() {
	if len(s.choices) > 0 {
		s.touch()
	}
	if s.thirst > 0 {
		s.s.parched = true
	}
	if s.hotAt == 0 && s.bench != nil {
		s.s.hot = append(s.s.hot, s)
		s.hotAt = len(s.s.hot)
	}
}

// settle is the opposite of stir.
func (s *Slot) settle() {
	if s.hotAt == 0 {
		return
	}
	hot := s.s.hot
	last := hot[len(hot)-1]
	hot[s.hotAt-1], last.hotAt = last, s.hotAt
	hot[len(hot)-1] = nil
	s.s.hot, s.hotAt = hot[:len(hot)-1], 0
}

// wakeAt says when the slot is worth another look; zero is not by time alone.
func (s *Slot) wakeAt(at time.Time) {
	wakes := &s.s.wakes
	if at.IsZero() {
		if wakes.has(s) {
			wakes.remove(s)
		}
		s.wake = at
		return
	}
	s.wake = at
	if wakes.has(s) {
		wakes.fix(s)
	} else {
		wakes.push(s)
	}
}

type byWake struct{}

func (byWake) before(a, b *Slot) bool { return a.wake.Before(b.wake) }
func (byWake) place(s *Slot) *int32   { return &s.inWake }

// seatLane puts a lane on the slot's bench, once.
func (s *Slot) seatLane(l *lane) {
	if s.bench == nil {
		s.bench = s.s.borrow()
		s.holds()
	}
	// The lane that sat down last is known, so that one which sits on a thousand benches
	// does not look for each of them among its seats.
	if last := s.bench.last; last < len(l.seats) && l.seats[last].slot == s {
		return
	}
	// A lane rises and sits down all the time: it keeps its seats.
	n := len(l.seats)
	if n < cap(l.seats) && l.seats[:n+1][n] != nil {
		l.seats = l.seats[:n+1]
		l.seats[n].slot = s
	} else {
		l.seats = append(l.seats, &seat{lane: l, slot: s})
	}
	s.bench.sit(l.seats[n])
	s.bench.last = n
}

// raise takes a lane from all benches where it waits.
func (l *lane) raise() {
	for _, seat := range l.seats {
		s := seat.slot
		s.bench.rise(seat)
		if s.holder == l {
			s.holder = nil
			s.stir()
		}
		if s.bench.lanes == 0 && s != &s.s.open {
			s.s.spare, s.bench = append(s.s.spare, s.bench), nil
			s.settle()
			s.wakeAt(time.Time{})
			s.mind()
		}
	}
	l.seats = l.seats[:0]
}

// change replaces the meter by one of another arithmetic. What the old one had
// spent counts as spent now in the new one, which is the most that it can have
// been: so a reload never makes room that the site did not give.
func (s *Slot) change(now time.Time, m limit.Meter, fresh func() limit.Meter) {
	old, oldFresh, flying := s.meter, s.fresh, s.inFlight(now)
	s.equip(now, m, fresh, false)
	if m == nil {
		return
	}
	spent := s.flying
	if old != nil && oldFresh != nil && fresh != nil && !flying && !s.inFlight(now) {
		spent = oldFresh().Left(now) - old.Left(now)
	}
	s.changed, s.owed = now, max(spent, 0)
	if n := min(spent, m.Left(now)); n > 0 {
		if at, ok := m.When(now, n); ok && !at.After(now) {
			m.Take(now, n)
			s.owed -= n
		}
	}
}

// inFlight tells whether the meter counts what is in flight, which is given back
// when it is done and not with time.
func (s *Slot) inFlight(now time.Time) bool {
	p := s.measure(now)
	return p.known && p.whole > 0 && p.each == 0
}

func (s *Slot) take(now time.Time, n int64) {
	s.users++
	s.flying += n
	if s.meter != nil && n > 0 {
		s.meter.Take(now, n)
	}
}

// postpone takes now what a hold took before. Nobody can have it in between.
func (s *Slot) postpone(now time.Time, h *Hold, need Need) {
	if s.meter == nil || need.N <= 0 || s.foreign(h) {
		return
	}
	s.meter.Postpone(now, h.taken, need.N)
	s.stir()
}

// foreign tells whether a hold took from the meter before this one.
func (s *Slot) foreign(h *Hold) bool {
	return !s.changed.IsZero() && !h.taken.Add(-h.late).After(s.changed)
}

// finish ends what a hold took.
func (s *Slot) finish(now time.Time, h *Hold, need Need, r Result) {
	s.users--
	s.flying -= need.N
	s.stir()
	if s.meter == nil || need.N <= 0 {
		return
	}
	n, taken := need.N, h.taken
	actual := n
	switch {
	case need.Of == Cost && r.Cost > 0:
		actual = r.Cost
	case need.Of == Bytes && (r.Bytes > 0 || r.Exact):
		actual = r.Bytes
	}
	switch {
	case s.foreign(h): // which only can owe more
		at := now
		if s.fresh == nil {
			at, taken = s.changed, s.changed // when it took it, if it remembers each
		}
		if actual > n && !r.Unsent {
			s.meter.Settle(now, at, n, actual)
		}
		swallowed := min(s.owed, n)
		s.owed -= swallowed
		n -= swallowed
	case r.Unsent:
		s.meter.Give(now, taken, n)
		return
	case actual != n:
		s.meter.Settle(now, taken, n, actual)
	}
	if n = min(n, actual); n > 0 {
		s.meter.Done(now, taken, n, r.Outcome)
	}
}
