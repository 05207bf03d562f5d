package ledger

import "strings"

// Bounds of the tree of paths: a client may ask for anything.
const (
	mostKids    = 32  // names at one place; more of them are taken for values
	mostDepth   = 12  // segments of a path that are looked at
	mostMethods = 12  // at one path
	longestName = 40  // of a segment that is a name
	longestHost = 253 // of a host
)

// A node is a path so far, with what is known to stand there. What looks like a
// value stands as *.
type node struct {
	up   *node
	text string // "/2/tweets/*"

	kids     map[string]*node // :: segment → what follows it
	star     *node            // what follows any value
	values   map[string]*node // :: value that tells budgets apart → what follows it
	part     part             // of what stands here
	wide     bool             // it has had too many names: all of them are values
	versions bool             // a number here is one of a version
	depth    int

	routes []*route // by method
	host   *host
}

// host is the tree of one host's paths.
type host struct {
	name    string
	root    *node
	bearing int // routes that have shown limits
}

func newHost(name string) *host {
	h := &host{name: name}
	h.root = &node{host: h, versions: true}
	return h
}

// find is the place of a path where it is known, or nil. The path begins after
// its first slash; apart is the depth of the segment that tells budgets apart.
func (p *node) find(path string, apart int) *node {
	for {
		if p.depth == mostDepth {
			return p.star
		}
		end := 0
		for end < len(path) && path[end] != '/' {
			end++
		}
		var next *node
		if p.depth+1 == apart && tells(path[:end]) {
			next = p.value(path[:end])
		} else if next = p.kids[path[:end]]; next == nil && (p.wide && end > 0 || isValue(path[:end], p.versions)) {
			next = p.star
		}
		if next == nil || end == len(path) {
			return next
		}
		p, path = next, path[end+1:]
	}
}

// segment is the next one of a path as it stands in a template, and what is left.
func (p *node) segment(path string) (segment, rest string, more bool) {
	if p.depth == mostDepth {
		return "**", "", false
	}
	segment, rest, more = strings.Cut(path, "/")
	if p.wide && segment != "" || isValue(segment, p.versions) {
		segment = "*"
	}
	return segment, rest, more
}

// kid is what stands at a segment of a template, which it makes if it has to.
func (p *node) kid(segment string) *node {
	values := segment == "*" || segment == "**"
	if values && p.star != nil {
		return p.star
	}
	if next := p.kids[segment]; next != nil {
		return next
	}
	next := &node{up: p, text: p.text + "/" + segment, depth: p.depth + 1, host: p.host, part: p.part.below(segment)}
	if values {
		p.star = next
		return next
	}
	switch segment {
	case "api", "rest", "version", "versions":
		next.versions = true
	}
	if p.kids == nil {
		p.kids = make(map[string]*node, 1)
	}
	p.kids[strings.Clone(segment)] = next
	return next
}

// names is how many names stand here.
func (p *node) names() int {
	n := len(p.kids)
	if p.kids[""] != nil {
		n--
	}
	return n
}

// widen makes one of all names that stand here, and returns the routes that
// stood below them, which belong nowhere now, with the rest of their paths.
func (p *node) widen() (loose []*route, paths []string) {
	p.wide = true
	for name, kid := range p.kids {
		if name == "" {
			continue
		}
		delete(p.kids, name)
		kid.each(func(r *route) {
			loose = append(loose, r)
			paths = append(paths, strings.TrimPrefix(p.text+"/*"+r.place.text[len(kid.text):], "/"))
		})
	}
	return loose, paths
}

// each calls f with every route at this place and below.
func (p *node) each(f func(*route)) {
	for _, r := range p.routes {
		f(r)
	}
	for _, kid := range p.kids {
		kid.each(f)
	}
	for _, kid := range p.values {
		kid.each(f)
	}
	if p.star != nil {
		p.star.each(f)
	}
}

// prune takes a node away that has nothing, and those above it alike. A wide
// place stays as long as its host does, if it is not one of as many as there are
// values.
func (p *node) prune() {
	for p.up != nil && p.bare() && (!p.wide || p.part.apart > 0) {
		up, last := p.up, p.text[len(p.up.text)+1:]
		switch p {
		case up.star:
			up.star = nil
		case up.values[last]:
			delete(up.values, last)
		default:
			delete(up.kids, last)
		}
		p = up
	}
}

// bare says whether nothing is known to stand here or below.
func (p *node) bare() bool {
	return len(p.routes) == 0 && len(p.kids) == 0 && len(p.values) == 0 && p.star == nil
}

// isValue says whether a segment of a path is taken for a value: an identifier,
// a number, a date, a slug, something encoded. Names are short words, with few
// digits in them. Numbers are names where versions stand.
func isValue(s string, versions bool) bool {
	if len(s) > longestName {
		return true
	}
	var digits, letters, runs, hex, upper, lower int
	inside := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
			if !inside {
				runs++
			}
			inside = true
			continue
		case c >= 'a' && c <= 'z':
			letters++
			lower++
			if c <= 'f' {
				hex++
			}
		case c >= 'A' && c <= 'Z':
			letters++
			upper++
			if c <= 'F' {
				hex++
			}
		case c == '-', c == '_', c == '.', c == '~', c == ':', c == '!', c == '$':
		default:
			return true
		}
		inside = false
	}
	switch {
	case digits == 0:
		return hex == len(s) && len(s) >= 12
	case letters == 0:
		return !versions || !isVersion(s)
	case digits >= 4, hex+digits == len(s) && len(s) >= 7:
		return !isNumbered(s)
	case runs >= 2 && len(s) >= 8:
		return !isNumbered(s)
	}
	return len(s) >= 20 && upper > 0 && lower > 0
}

// isVersion says whether a number is like 2, 1.1 or 2024-01.
func isVersion(s string) bool {
	if len(s) <= 2 {
		return s[0] != '.' && s[0] != '-'
	}
	if len(s) >= 7 && len(s) <= 10 && s[:2] == "20" && s[4] == '-' {
		return true
	}
	return len(s) <= 5 && (s[1] == '.' || s[2] == '.') && strings.Trim(s, "0123456789.") == ""
}

// isNumbered says whether a word is like v1beta1.
func isNumbered(s string) bool {
	if len(s) > 10 || s[0] != 'v' || s[1] < '0' || s[1] > '9' {
		return false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9', strings.IndexByte("alphbetrc.", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// methodOf is a method's name as it stands in a route.
func methodOf(method string) string {
	if method == "" || len(method) > 16 {
		return "*"
	}
	for i := 0; i < len(method); i++ {
		if c := method[i] | 0x20; (c < 'a' || c > 'z') && c != '-' {
			return "*"
		}
	}
	return method
}

// hostOf is a host's name as it stands in a route.
func hostOf(host string) string {
	if len(host) > longestHost {
		return "*"
	}
	for i := 0; i < len(host); i++ {
		if c := host[i]; c <= ' ' || c >= 0x7f || c == '/' {
			return "*"
		}
	}
	return host
}
