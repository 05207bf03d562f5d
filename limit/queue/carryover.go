package queue

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// newMeter makes the meter of a limit for a key. It begins with what was spent of the limits that the limit replaces:
// those that the hooks do not have any more.
func (s *registry) newMeter(now time.Time, l *Limit, key string) (m limit.Meter, fresh func() limit.Meter, err error) {
	m, fresh, err = l.meter()
	if err != nil || l.Subject == nil || l.Spec == nil {
		return m, fresh, err
	}
	if g := s.gate.latest.Load(); g.number != s.generation {
		s.generation, s.gone = g.number, nil
		for at, e := range s.byScope {
			if e.subject != nil && g.hooks != nil && !g.hooks.HasLimit(s.name, at.Limit) {
				s.gone = append(s.gone, Predecessor{*e.subject, at.Key, func(now time.Time) []limit.Spent { return limit.PastOf(now, e.resource.meter) }})
			}
		}
	}
	if list := Inherit(now, *l.Subject, key, s.gone); len(list) > 0 {
		m, err = limit.Carry(now, list, *l.Spec)
	}
	return m, fresh, err
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

// Inherit returns the units that a limit begins with for a key, by the limits that it replaces.
func Inherit(now time.Time, s Subject, key string, was []Predecessor) (all []limit.Spent) {
	relation := func(p *Predecessor) relation {
		if p.Key != key && (s.By != "" || p.Subject.By == "") {
			return unrelated // of another key
		}
		return s.relationTo(p.Subject)
	}
	best := unrelated
	for i := range was {
		best = max(best, relation(&was[i]))
	}
	for i := range was {
		if best == unrelated || relation(&was[i]) != best {
			continue
		}
		switch list := was[i].Past(now); {
		case best == partial:
			all = append(all, list...)
			slices.SortStableFunc(all, func(a, b limit.Spent) int { return cmp.Compare(b.Ago, a.Ago) })
		case total(list) > total(all): // each of them is of all that the new one counts
			all = list
		}
	}
	return all
}

func total(list []limit.Spent) (n int64) {
	for _, one := range list {
		n += one.N
	}
	return n
}
