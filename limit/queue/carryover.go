package queue

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// CarryOver makes new limits begin with what was spent of the limits that they replace, and gives limits that stay
// their new numbers. It is called twice: before the limits are in force, with a zero time, and when they are, with
// the time of the first call, so that what was spent of the old limits meanwhile is taken too.
// of returns the limits that a site has had and those that it has; it is called under the lock of the site
// and never calls the gate.
func (g *Gate) CarryOver(since time.Time, of func(site string) (old, limits []Limit)) {
	g.each(func(s *site, now time.Time) {
		if len(s.registry.byScope) == 0 {
			return
		}
		old, limits := of(s.name)
		had, stay := map[string]*Subject{}, map[string]*Limit{} // :: limit's name
		for i := range old {
			had[old[i].Name] = old[i].Subject
		}
		for i := range limits {
			l := &limits[i]
			if _, stays := had[l.Name]; stays {
				stay[l.Name] = l
			} else if l.Spec != nil {
				s.succeed(now, since, had, l)
			}
		}
		if len(limits) > 0 && !since.IsZero() {
			for e := range s.registry.all() {
				if l := stay[e.at.Limit]; l != nil && e.outdated(l) {
					if m, fresh, err := l.meter(); err == nil { // the next request gets the error
						_ = s.registry.update(now, e, l, m, fresh)
					}
				}
			}
			s.step(now)
		}
	})
}

// succeed makes the meters of one new limit begin with what was spent of the limits that the site has had.
func (s *site) succeed(now, since time.Time, had map[string]*Subject, l *Limit) {
	for key, list := range s.spent(now, had, l) {
		if len(list) == 0 {
			continue
		}
		e := s.registry.entry(Scope{l.Name, key})
		if !since.IsZero() {
			if n := recently(list, now.Sub(since)); n > 0 && e != nil && e.resource.meter != nil {
				e.resource.meter.Take(now, n)
				e.resource.markDirty()
			}
			continue
		}
		m, err := limit.Carry(now, list, *l.Spec)
		_, fresh, wrong := l.meter()
		if err != nil || wrong != nil {
			continue // the next request gets the error
		}
		if e == nil {
			e = s.registry.newEntry(l, Scope{l.Name, key})
		}
		if !e.onlyCools { // what is in flight is of the meter before
			e.resource.changed, e.resource.owed, e.onlyCools = now, 0, true
		}
		_ = s.registry.update(now, e, l, m, fresh)
		e.resource.markDirty()
		s.registry.forgetFound()
	}
}

// spent returns the units spent of the limits that a new limit replaces, by key: of the limits in
// force until now, and of limits removed earlier whose meters are still in memory.
func (s *site) spent(now time.Time, had map[string]*Subject, l *Limit) map[string][]limit.Spent {
	if l.Subject == nil {
		return nil
	}
	var was []Predecessor
	for at, e := range s.registry.byScope {
		of := had[at.Limit]
		if of == nil && at.Limit != l.Name {
			of = e.subject
		}
		if of != nil && l.Subject.relationTo(*of) != unrelated && e.resource.meter != nil {
			was = append(was, Predecessor{*of, at.Key, func(now time.Time) []limit.Spent { return limit.PastOf(now, e.resource.meter) }})
		}
	}
	return Inherit(now, *l.Subject, l.Key, was)
}

// Subject names the things that a limit counts, whatever its amount and its window. Limits of one site
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

// relation compares the subjects of two limits.
type relation uint8

const (
	unrelated  relation = iota
	partial             // the other counts a part
	containing          // the other counts all of it
	identical
)

// relationTo returns the relation of the other subject to this one.
func (s Subject) relationTo(other Subject) relation {
	switch {
	case s.Unit == "" || s.Unit != other.Unit || s.At != other.At:
		return unrelated
	case s.By != other.By && s.By != "":
		return unrelated
	case s == other:
		return identical
	}
	method := s.Method == other.Method || other.Method == ""
	switch {
	case !method && s.Method != "", !overlap(segments(s.Path), segments(other.Path)):
		return unrelated
	case s.By == other.By && method && within(segments(s.Path), segments(other.Path)):
		return containing
	}
	return partial
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

// Predecessor is a meter of a limit that another one may replace.
type Predecessor struct {
	Subject Subject
	Key     string // whose it is
	Past    func(now time.Time) []limit.Spent
}

// Inherit returns the units a limit begins with by those that it replaces, by whose it was; key says
// whose it is if it is everyone's.
func Inherit(now time.Time, s Subject, key string, was []Predecessor) map[string][]limit.Spent {
	best := unrelated
	for _, one := range was {
		best = max(best, s.relationTo(one.Subject))
	}
	all := map[string][]limit.Spent{}
	if best == unrelated {
		return all
	}
	for _, one := range was {
		if s.relationTo(one.Subject) != best {
			continue
		}
		whose, list := one.Key, one.Past(now)
		if s.By == "" && one.Subject.By != "" {
			whose = key
		}
		switch {
		case best == partial:
			list = append(list, all[whose]...)
			slices.SortStableFunc(list, func(a, b limit.Spent) int { return cmp.Compare(b.Ago, a.Ago) })
		case recently(list, far) < recently(all[whose], far):
			continue // each of them is of all that the new one counts
		}
		all[whose] = list
	}
	return all
}

// recently returns the units spent within a time.
func recently(list []limit.Spent, within time.Duration) (n int64) {
	for _, one := range list {
		if one.Ago < within {
			n += one.N
		}
	}
	return n
}
