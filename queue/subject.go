package queue

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Subject is what a limit counts, whatever its amount and its window. Limits of one site
// with the same Unit and At are compared by what they count:
//
//   - A limit that comes anew begins with what was spent of one that counts the same, or
//     else of one that counts more, of which its own is a part that nobody knows.
//   - Where there is none, it begins with the sum of those that count a part of it.
//   - A limit without By counts what all those of a limit with By do. The other way round
//     nobody knows whose it was, so that begins anew.
type Subject struct {
	Unit         string // "": it is compared with none
	By           string // whose: each has a meter of its own
	At           string // the backend whose limit it is
	Method, Path string // of the requests; "": all. Of a path * is one segment, ** any number
}

// kin is how what a limit counts is related to what another one does.
type kin uint8

const (
	apart kin = iota
	some      // the other counts a part
	more      // the other counts all of it
	same
)

// to is how the other one is related.
func (s Subject) to(other Subject) kin {
	switch {
	case s.Unit == "" || s.Unit != other.Unit || s.At != other.At:
		return apart
	case s.By != other.By && s.By != "":
		return apart
	case s == other:
		return same
	}
	method := s.Method == other.Method || other.Method == ""
	switch {
	case !method && s.Method != "", !overlap(segments(s.Path), segments(other.Path)):
		return apart
	case s.By == other.By && method && within(segments(s.Path), segments(other.Path)):
		return more
	}
	return some
}

// segments are the parts of a path's pattern; nil is every path.
func segments(path string) []string {
	if path == "" {
		return []string{"**"}
	}
	return strings.Split(strings.Trim(path, "/"), "/")
}

// overlap tells whether some path may match both patterns.
func overlap(a, b []string) bool {
	switch {
	case len(a) == 0 && len(b) == 0:
		return true
	case len(a) > 0 && a[0] == "**":
		return overlap(a[1:], b) || len(b) > 0 && overlap(a, b[1:])
	case len(b) > 0 && b[0] == "**":
		return overlap(b, a)
	case len(a) == 0 || len(b) == 0:
		return false
	}
	return (strings.Contains(a[0], "*") || strings.Contains(b[0], "*") || a[0] == b[0]) && overlap(a[1:], b[1:])
}

// within tells whether all paths that match a pattern are known to match the other one.
func within(a, b []string) bool {
	switch {
	case len(b) > 0 && b[0] == "**":
		return within(a, b[1:]) || len(a) > 0 && within(a[1:], b)
	case len(a) == 0 || len(b) == 0:
		return len(a) == len(b)
	}
	return (b[0] == "*" && a[0] != "**" || a[0] == b[0]) && within(a[1:], b[1:])
}

// Succeed has limits that come anew begin with what was spent of those that they
// replace. It is called before they hold, with a zero time, and once more when they do,
// with the time of the first call: what went meanwhile by the old ones is taken too. of
// says of a site which limits hold until now and which are new; it never calls the gate.
func (g *Gate) Succeed(since time.Time, of func(site string) (old, fresh []Limit)) {
	g.each(func(s *site) {
		if len(s.slots) == 0 {
			return
		}
		old, fresh := of(s.name)
		now := time.Now()
		for i := range fresh {
			if l := &fresh[i]; l.Spec != nil && l.Make == nil {
				s.succeed(now, since, old, l)
			}
		}
		if len(fresh) > 0 && !since.IsZero() {
			s.step(now)
		}
	})
}

// succeed has the meters of one new limit begin with what was spent.
func (s *site) succeed(now, since time.Time, old []Limit, l *Limit) {
	for key, list := range s.spent(now, old, l) {
		if len(list) == 0 {
			continue
		}
		at := Scope{l.Name, key}
		e := s.entry(at)
		if !since.IsZero() {
			if n := recently(list, now.Sub(since)); n > 0 && e != nil && e.slot.meter != nil {
				e.slot.meter.Take(now, n)
				e.slot.stir()
			}
			continue
		}
		m, err := limit.Carry(now, list, *l.Spec)
		_, fresh, wrong := l.meter()
		if err != nil || wrong != nil {
			continue // who sends a request is told
		}
		kept := false
		if e == nil {
			e = &entry{slot: s.sched.Slot(l.label(key), nil, nil), own: l.By != ByNone, spec: l.Spec, of: l.Subject}
			e.slot.title = l.title()
			at = s.keep(l, at, e)
			m, kept = l.kept(s.name, at, m)
			e.slot.equip(now, m, fresh, kept)
		} else {
			m, kept = l.kept(s.name, at, m)
			s.sched.Change(now, e.slot, m, fresh, true)
			e.slot.keep(kept)
			e.slot.changed, e.slot.owed = now, 0
			e.spec, e.of, e.bare, e.own = l.Spec, l.Subject, false, l.By != ByNone
		}
		clear(s.known)
	}
}

// spent is what was spent of the limits that a new one replaces, by key: of those that hold
// until now, and of those that were taken away before and still remember something.
func (s *site) spent(now time.Time, old []Limit, l *Limit) map[string][]limit.Spent {
	if l.Subject == nil {
		return nil
	}
	subjects := make(map[string]*Subject, len(old)) // :: limit's name
	for i := range old {
		subjects[old[i].Name] = old[i].Subject
	}
	var was []Former
	for at, e := range s.slots {
		of := subjects[at.Limit]
		if of == nil && at.Limit != l.Name {
			of = e.of
		}
		if of != nil && l.Subject.to(*of) != apart && e.slot.meter != nil {
			was = append(was, Former{*of, at.Key, func(now time.Time) []limit.Spent { return limit.PastOf(now, e.slot.meter) }})
		}
	}
	return Inherit(now, *l.Subject, l.Key, was)
}

// Former is a meter of a limit that another one may replace.
type Former struct {
	Subject Subject
	Key     string // whose it is
	Past    func(now time.Time) []limit.Spent
}

// Inherit is what a limit begins with by those that it replaces, by whose it was; key is
// whose it is if it is everyone's.
func Inherit(now time.Time, s Subject, key string, was []Former) map[string][]limit.Spent {
	best := apart
	for _, one := range was {
		best = max(best, s.to(one.Subject))
	}
	all := map[string][]limit.Spent{}
	if best == apart {
		return all
	}
	for _, one := range was {
		if s.to(one.Subject) != best {
			continue
		}
		whose, list := one.Key, one.Past(now)
		if s.By == "" && one.Subject.By != "" {
			whose = key
		}
		switch {
		case best == some:
			list = append(list, all[whose]...)
			slices.SortStableFunc(list, func(a, b limit.Spent) int { return cmp.Compare(b.Ago, a.Ago) })
		case total(list) < total(all[whose]):
			continue // each of them is of all that the new one counts
		}
		all[whose] = list
	}
	return all
}

// recently is how much was spent within a time.
func recently(list []limit.Spent, within time.Duration) (n int64) {
	for _, one := range list {
		if one.Ago < within {
			n += one.N
		}
	}
	return n
}

func total(list []limit.Spent) int64 { return recently(list, 1<<63-1) }
