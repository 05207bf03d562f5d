package queue

import "time"

// toll is how long one limit has held requests back, in all: three that waited
// for two seconds are six.
type toll struct {
	name    string
	seconds float64
	holds   int // how many it holds back
	since   time.Time

	observed float64 // seconds for which it would have held back what was only observed
}

// count adds what the limit has held back until now, and then changes how many it
// holds back.
func (t *toll) count(now time.Time, by int) {
	t.seconds, t.since = t.upTo(now), now
	t.holds += by
}

func (t *toll) upTo(now time.Time) float64 {
	if t.holds == 0 {
		return t.seconds
	}
	return t.seconds + float64(t.holds)*max(now.Sub(t.since), 0).Seconds()
}

// What is not a limit that the operator wrote has these names.
const (
	tollOfSite  = "cooldown"
	tollOfRetry = "retry"
)

// toll is the one of a name. Clients and routes share that of their limit.
func (s *Scheduler) toll(name string) *toll {
	t := s.tolls[name]
	if t == nil {
		t = &toll{name: name}
		if s.tolls == nil {
			s.tolls = map[string]*toll{}
		}
		s.tolls[name] = t
	}
	return t
}

// paying is the toll of what a slot holds back.
func (s *Slot) paying() *toll {
	if s.toll == nil {
		s.toll = s.s.toll(s.title)
	}
	return s.toll
}

// rename gives a slot another name, and a title that it shares with the slots of
// other clients and routes.
func (s *Slot) rename(name, title string) { s.name, s.title, s.toll = name, title, nil }

// charge lets a slot count for all the holds of a lane: what keeps the first one
// keeps the others too.
func (s *Scheduler) charge(l *lane, slot *Slot) {
	t := slot.paying()
	if t == l.toll {
		return
	}
	if l.toll != nil {
		l.toll.count(s.now, -l.holds)
	}
	t.count(s.now, l.holds)
	l.toll = t
	if len(l.kept) == mostKeptFrom {
		l.kept = l.kept[:copy(l.kept, l.kept[mostKeptFrom/2:])]
	}
	l.kept = append(l.kept, keptFrom{t, s.now})
}

// keptFrom is what keeps a lane from a time on.
type keptFrom struct {
	toll *toll
	from time.Time
}

// mostKeptFrom bounds what a lane remembers: what kept it long before does not matter.
const mostKeptFrom = 32

// longest is the limit that kept the lane for longest between two times, and for how
// long. Of equal ones it is the last. It allocates nothing: each hold that leaves asks.
func (l *lane) longest(from, to time.Time) (limit string, longest time.Duration) {
	if to.After(from) && len(l.kept) > 0 {
		if last := l.kept[len(l.kept)-1]; !last.from.After(from) {
			return last.toll.name, to.Sub(from) // the usual case
		}
	}
	var total [mostKeptFrom]struct {
		toll *toll
		kept time.Duration
	}
	for i := len(l.kept) - 1; i >= 0 && to.After(from); i-- {
		one := l.kept[i]
		begun := one.from
		if begun.Before(from) {
			begun = from
		}
		at := 0
		for total[at].toll != nil && total[at].toll != one.toll {
			at++
		}
		total[at].toll = one.toll
		total[at].kept += to.Sub(begun)
		if limit == "" || total[at].kept > longest {
			limit, longest = one.toll.name, total[at].kept
		}
		to = begun
	}
	if limit == "" {
		limit = l.toll.name
	}
	return limit, longest
}

// keptBy notes what has kept the hold, unless something else did for longer.
func (h *Hold) keptBy(limit string, kept time.Duration) {
	if kept >= h.keptFor {
		h.kept, h.keptFor = limit, kept
	}
}

// tick is the time of what happens, which never goes back.
func (s *Scheduler) tick(now time.Time) {
	if now.After(s.now) {
		s.now = now
	}
}

// Blocked is how long a limit has held requests back since it was first seen.
type Blocked struct {
	Site, Limit string
	Seconds     float64 // times requests
}

// Blocked are the limits of all sites that are remembered which have held
// something back. A site that is forgotten begins again.
func (g *Gate) Blocked() []Blocked {
	var list []Blocked
	g.each(func(s *site) {
		now := time.Now()
		for name, t := range s.sched.tolls {
			if seconds := t.upTo(now); seconds > 0 {
				list = append(list, Blocked{s.name, name, seconds})
			}
		}
	})
	return list
}
