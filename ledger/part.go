package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// A part is what has budgets of its own though the server calls all of them by one
// name: a channel, a project. Its zero value is of routes that no value tells apart.
type part struct {
	apart int    // the depth of the segment that says which
	name  string // "channels/41771983423143937"
	shape string // of the path so far, the same for all parts: "/channels/*/messages"
}

// Bounds of the parts: their values are as many as clients ask for.
const (
	mostParted  = 2000 // limits of parts
	spareParted = 200  // how many are forgotten at once when there are more, and how many those of one answer may be
	fewer       = 16   // times, that each of them remembers less than another limit
)

// below is the part of what stands below a place.
func (p part) below(segment string) part {
	if p.apart > 0 {
		p.shape += "/" + segment
	}
	return p
}

// partOf is the part of a path by the segment that tells budgets apart. The path
// begins after its first slash. A name before the value is part of it.
func partOf(path string, apart int) part {
	if apart <= 0 || apart > mostDepth {
		return part{}
	}
	var before, value string
	more := true
	for n := 0; n < apart; n++ {
		if !more {
			return part{}
		}
		before = value
		value, path, more = strings.Cut(path, "/")
	}
	if !tells(value) {
		return part{}
	}
	if before == "" || isValue(before, false) {
		before = "*"
	}
	return part{apart: apart, name: before + "/" + keyOf(value)}
}

// tells says whether a segment can tell budgets apart. A star stands in the place of
// one that nobody knows.
func tells(segment string) bool { return segment != "" && segment != "*" && segment != "**" }

// keyOf is a value as it is kept: a short one as it is. What is longer than an
// identifier may be a secret.
func keyOf(segment string) string {
	if isPlain(segment) {
		return strings.Clone(segment)
	}
	var room [longestSum]byte
	return string(sumOf(room[:0], segment))
}

// value is what follows a value that tells budgets apart, or nil.
func (p *node) value(segment string) *node {
	if isPlain(segment) {
		return p.values[segment]
	}
	var room [longestSum]byte
	return p.values[string(sumOf(room[:0], segment))]
}

// grown is value, which it makes if it has to.
func (p *node) grown(segment string, of part) *node {
	if next := p.value(segment); next != nil {
		return next
	}
	key := keyOf(segment)
	of.shape = p.text + "/*"
	next := &node{up: p, text: p.text + "/" + key, depth: p.depth + 1, host: p.host, part: of}
	if p.values == nil {
		p.values = make(map[string]*node, 1)
	}
	p.values[key] = next
	return next
}

// isPlain says whether a value is kept as it is.
func isPlain(s string) bool {
	if len(s) > longestName {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '*' {
			return false
		}
	}
	return true
}

const longestSum = 1 + 2*8

// sumOf is what is kept of a value that is not kept as it is.
func sumOf(into []byte, s string) []byte {
	var short [256]byte
	sum := sha256.Sum256(append(short[:0], s...))
	return hex.AppendEncode(append(into, '~'), sum[:8])
}

// uproot forgets what is known at a place and below, if there is one: what tells
// budgets apart has changed, and no two places have one name.
func (m *Routes) uproot(p *node) bool {
	if p == nil {
		return false
	}
	m.bump()
	var all []*route
	p.each(func(r *route) { all = append(all, r) })
	for _, r := range all {
		m.drop(r)
	}
	for _, of := range []map[string]*node{p.up.kids, p.up.values} {
		if last := p.text[len(p.up.text)+1:]; of[last] == p {
			delete(of, last)
		}
	}
	m.hosts[p.host.name] = p.host
	return true
}

// template is a route's name with a star for what tells budgets apart: what is said
// of one part's is likely so of all.
func (r *route) template() string {
	if r.place.part.apart == 0 {
		return r.name
	}
	return r.method + " " + r.place.host.name + r.place.part.shape
}

// shed lets go of limits of parts that have not been seen for longest, and of the
// routes that are under them: they are unknown when they come back. Those of one
// route stay.
func (m *Routes) shed(r *route) {
	all := make([]*group, 0, len(m.groups))
	for _, g := range m.groups {
		if g.part != "" && r.in(g) == nil {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *group) int {
		if (a.routes == 0) != (b.routes == 0) {
			return cmp.Compare(a.routes, b.routes)
		}
		return cmp.Or(a.seen.Compare(b.seen), cmp.Compare(a.number, b.number))
	})
	all = all[:min(spareParted, len(all))]
	for _, g := range all {
		g.leaving = true
	}
	m.bump()
	for _, o := range m.known {
		if slices.ContainsFunc(o.members, func(in member) bool { return in.group.leaving }) {
			m.drop(o)
		}
	}
	for _, g := range all {
		m.remove(g)
	}
}
