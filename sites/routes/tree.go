package routes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// tree is the routes of a site, by host and path.
type tree struct {
	hosts map[string]*host  // :: its name, empty where the site is one → its paths
	known map[string]*route // :: its name → a route
	tick  uint64            // grows with each use of a route
	count uint64            // routes so far
}

// lookup returns a route that is known, or nil. The path is without its first slash.
func (t *tree) lookup(method, host, path string, apart int) *route {
	if h := t.hosts[host]; h != nil {
		if p := h.root.find(path, apart); p != nil {
			return p.at(method)
		}
	}
	return nil
}

// put places a route at a node, which gives it its name.
func (t *tree) put(r *route, p *node) {
	r.place, r.name = p, r.method+" "+p.host.name+p.text
	p.routes = append(p.routes, r)
	t.known[r.name] = r
}

// use makes a route the one that was used last.
func (t *tree) use(r *route) {
	t.tick++
	r.used = t.tick
}

// drop removes a route, and the nodes that become empty. A generalised node stays as long as
// its host, unless it belongs to an entity.
func (t *tree) drop(r *route) {
	delete(t.known, r.name)
	for len(r.members) > 0 {
		r.leave(len(r.members) - 1)
	}
	p := r.place
	p.routes = slices.DeleteFunc(p.routes, func(o *route) bool { return o == r })
	for p.up != nil && p.bare() && (!p.generalised || p.entity.segment > 0) {
		up, last := p.up, p.text[len(p.up.text)+1:]
		switch p {
		case up.star:
			up.star = nil
		case up.values[last]:
			delete(up.values, last)
		default:
			delete(up.children, last)
		}
		p = up
	}
	if p.host.root.bare() {
		delete(t.hosts, p.host.name)
	}
}

// byUse returns all routes, the one used longest ago first.
func (t *tree) byUse() []*route {
	return slices.SortedFunc(maps.Values(t.known), func(a, b *route) int { return cmp.Compare(a.used, b.used) })
}

// host is the tree of the paths of one host.
type host struct {
	name    string
	root    *node
	limited int // routes whose responses have shown limits
}

// node is the beginning of a path, with the routes that end there. A segment that looks
// like a value stands as *.
type node struct {
	up   *node
	text string // "/2/tweets/*"

	children    map[string]*node // :: name → node below
	star        *node            // node below any value
	values      map[string]*node // :: key of an entity → node below
	entity      entity           // that the node belongs to
	generalised bool             // there were too many names: all are values now
	versions    bool             // a number below is a version
	depth       int

	routes []*route // by method
	host   *host
}

func (p *node) at(method string) *route {
	for _, r := range p.routes {
		if r.method == method {
			return r
		}
	}
	return nil
}

// find returns the node of a path, or nil if it is not known. The path is without its
// first slash; apart is the depth of the segment that names an entity.
func (p *node) find(path string, apart int) *node {
	for {
		if p.depth == mostDepth {
			return p.star
		}
		var next *node
		segment, rest, further := strings.Cut(path, "/")
		if p.depth+1 == apart && identifies(segment) {
			next = p.value(segment)
		} else if next = p.children[segment]; next == nil && (p.generalised && segment != "" || isValue(segment, p.versions)) {
			next = p.star
		}
		if next == nil || !further {
			return next
		}
		p, path = next, rest
	}
}

// value returns the node below an entity, or nil.
func (p *node) value(segment string) *node {
	var room [longestName]byte
	return p.values[string(appendKey(room[:0], segment))]
}

// ensureValue returns the node below an entity. It makes one if there is none.
func (p *node) ensureValue(segment string, of entity) *node {
	if next := p.value(segment); next != nil {
		return next
	}
	key := keyOf(segment)
	of.shape = p.text + "/*"
	next := &node{up: p, text: p.text + "/" + key, depth: p.depth + 1, host: p.host, entity: of}
	if p.values == nil {
		p.values = make(map[string]*node, 1)
	}
	p.values[key] = next
	return next
}

// segment returns the next segment of a path as it stands in a pattern, and the rest of
// the path.
func (p *node) segment(path string) (segment, rest string, more bool) {
	if p.depth == mostDepth {
		return "**", "", false
	}
	segment, rest, more = strings.Cut(path, "/")
	if p.generalised && segment != "" && p.children[segment] == nil || isValue(segment, p.versions) {
		segment = "*"
	}
	return segment, rest, more
}

// child returns the node below a segment of a pattern. It makes one if there is none.
func (p *node) child(segment string) *node {
	values := segment == "*" || segment == "**"
	if values && p.star != nil {
		return p.star
	}
	if next := p.children[segment]; next != nil {
		return next
	}
	next := &node{up: p, text: p.text + "/" + segment, depth: p.depth + 1, host: p.host, entity: p.entity}
	if next.entity.segment > 0 {
		next.entity.shape += "/" + segment
	}
	if values {
		p.star = next
		return next
	}
	switch segment {
	case "api", "rest", "version", "versions":
		next.versions = true
	}
	if p.children == nil {
		p.children = make(map[string]*node, 1)
	}
	p.children[strings.Clone(segment)] = next
	return next
}

// names returns the number of names below a node.
func (p *node) names() int {
	n := len(p.children)
	if p.children[""] != nil {
		n--
	}
	return n
}

// below returns every route at a node and below.
func (p *node) below() []*route {
	all := slices.Clone(p.routes)
	for _, kids := range []map[string]*node{p.children, p.values} {
		for _, kid := range kids {
			all = append(all, kid.below()...)
		}
	}
	if p.star != nil {
		all = append(all, p.star.below()...)
	}
	return all
}

// bare reports whether there is no route at a node and below.
func (p *node) bare() bool {
	return len(p.routes) == 0 && len(p.children) == 0 && len(p.values) == 0 && p.star == nil
}
