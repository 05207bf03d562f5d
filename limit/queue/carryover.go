package queue

import (
	"cmp"
	"maps"
	"slices"
	"sort"
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
		had, stay := map[string]bool{}, map[string]*Limit{} // :: limit's name
		for i := range old {
			had[old[i].Name] = true
		}
		for at, e := range s.registry.byScope {
			if had[at.Limit] {
				e.until = now
			}
		}
		for i := range limits {
			l := &limits[i]
			if had[l.Name] {
				stay[l.Name] = l
			} else if l.Spec != nil && l.Subject != nil {
				s.succeed(now, since, l)
			}
		}
		if len(limits) > 0 && !since.IsZero() {
			for _, e := range s.registry.byScope {
				if l := stay[e.at.Limit]; l != nil && e.outdated(l) {
					if m, fresh, err := l.meter(); err == nil { // the next request gets the error
						s.registry.update(now, e, l, m, fresh)
					}
				}
			}
			s.step(now)
		}
	})
}

// succeed makes the meters of one new limit begin with what was spent of the limits that the site has had, and that are
// still in memory. What the limit itself has counted while it was in force before is there already.
func (s *site) succeed(now, since time.Time, l *Limit) {
	var was []Predecessor
	for at, e := range s.registry.byScope {
		if e.subject != nil && l.Subject.relationTo(*e.subject) != unrelated && e.resource.meter != nil && (since.IsZero() || at.Limit != l.Name) {
			was = append(was, Predecessor{*e.subject, at.Key, now.Sub(e.until), limit.PastOf(now, e.resource.meter)})
		}
	}
	for key, list := range Inherit(*l.Subject, l.Key, was) {
		e := s.registry.entry(Scope{l.Name, key})
		if !since.IsZero() {
			if n := recently(list, now.Sub(since)); n > 0 && e != nil && e.resource.meter != nil {
				e.resource.meter.Take(now, n)
				e.resource.markDirty()
			}
			continue
		}
		before, fresh, err := l.meter()
		if err != nil {
			continue // the next request gets the error
		}
		if e != nil && e.resource.meter != nil {
			before = e.resource.meter
		}
		m, err := limit.Add(now, before, list, *l.Spec)
		if err != nil || m == before {
			continue
		}
		if e == nil {
			e = s.registry.newEntry(l, Scope{l.Name, key})
		}
		if !e.onlyCools { // what is in flight is of the meter before
			e.resource.changed, e.onlyCools = now, true
		}
		s.registry.update(now, e, l, m, fresh)
		e.resource.markDirty()
		s.registry.forgetFound()
	}
}

// Subject names the things that a limit counts, whatever its amount and its window. Limits of one site
// with the same Unit and At are compared by what they count:
//
//   - A limit that comes anew begins with what was spent of those that count the same.
//   - Of the time since the last of them was in force it begins with what was spent of those that
//     count more, of which its own is a part that nobody knows.
//   - Of the time in which none of these has counted anything, it begins with the sum of those that
//     count a part of it.
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
	partial             // the other counts a part, or what only some do
	containing          // the other may count all of it, and counts more
	identical           // the other counts the same
)

// relationTo returns the relation of the other subject to this one.
func (s Subject) relationTo(other Subject) relation {
	mine, its := segments(s.Path), segments(other.Path)
	more, less := s.Method == other.Method || s.Method == "", s.Method == other.Method || other.Method == ""
	switch {
	case s.Unit == "" || s.Unit != other.Unit || s.At != other.At || s.By != other.By && s.By != "":
		return unrelated
	case !more && !less || !overlap(mine, its):
		return unrelated
	case s.By != other.By:
		return partial
	case !more || !within(its, mine):
		return containing
	case !less || !within(mine, its):
		return partial
	}
	return identical
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
	Key     string        // whose it is
	Ended   time.Duration // ago: when it was in force last
	Past    []limit.Spent
}

// Inherit returns the units a limit begins with by those that it replaces, by whose it was; key says
// whose it is if it is everyone's.
func Inherit(s Subject, key string, was []Predecessor) map[string][]limit.Spent {
	all, known, parts := map[string][]limit.Spent{}, map[string]time.Duration{}, map[Subject]bool{}
	for r := identical; r >= containing; r-- {
		most, now := map[string][]limit.Spent{}, maps.Clone(known) // known is for how much of the time since far all is known
		for _, one := range was {
			switch s.relationTo(one.Subject) {
			case partial:
				parts[one.Subject] = true
			case r:
				most[one.Key] = limit.Union(most[one.Key], after(one.Past, far-known[one.Key]))
				now[one.Key] = max(now[one.Key], far-one.Ended)
			}
		}
		sum(all, most)
		known = now
	}
	more := map[string][]limit.Spent{}
	for part := range parts {
		if slices.ContainsFunc(slices.Collect(maps.Keys(parts)), func(other Subject) bool {
			return part.relationTo(other) == containing && other.relationTo(part) == partial
		}) {
			continue // what that counts includes it
		}
		for whose, list := range Inherit(part, key, was) {
			if part.By != s.By {
				whose = key
			}
			more[whose] = append(more[whose], after(list, far-known[whose])...)
		}
	}
	sum(all, more)
	return all
}

// sum adds lists of takes to those of the same owner, oldest first.
func sum(all, more map[string][]limit.Spent) {
	for whose, list := range more {
		all[whose] = append(all[whose], list...)
		slices.SortStableFunc(all[whose], func(a, b limit.Spent) int { return cmp.Compare(b.Ago, a.Ago) })
	}
}

// after returns the takes within a time.
func after(list []limit.Spent, within time.Duration) []limit.Spent {
	return list[sort.Search(len(list), func(i int) bool { return list[i].Ago <= within }):]
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
