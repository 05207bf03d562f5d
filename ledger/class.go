package ledger

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// A route is a method and a path template of one host, with the limits that it
// is under.
type route struct {
	name   string
	method string
	place  *node
	used   uint64 // when, by the clock of uses
	class  *Class
	at     uint64 // the version by which its class was looked at

	answered bool
	quiet    int      // answers that announced nothing, as long as it is guessed at
	guessing bool     // its limits are those of its relatives
	guessed  []*group // those
	members  []member // the limits that it has shown
	hidden   *group
}

// member is a limit that a route has shown.
type member struct {
	group  *group
	seen   time.Time
	missed time.Time // since when its answers show others of the name only
	higher int       // times that more was left than can be
	last   time.Time // when the request was sent that showed it last
	clash  int       // times that its reset was not the others'
}

func (r *route) in(g *group) *member {
	for n := range r.members {
		if r.members[n].group == g {
			return &r.members[n]
		}
	}
	return nil
}

// more hears that more was left than can be: twice, and the route has a counter of
// its own.
func (in *member) more(sent time.Time) bool {
	if in.higher > 0 && in.last.Equal(sent) {
		return false
	}
	in.higher++
	in.last = sent
	return in.higher >= 2
}

// mostMembers is how many limits a route may have shown. The last one takes all.
const mostMembers = 32

// join puts a route into a group. It may be another that it has to be content
// with.
func (m *Routes) join(r *route, g *group) *group {
	if r.in(g) != nil {
		return g
	}
	if len(r.members) >= mostMembers {
		return r.members[len(r.members)-1].group
	}
	if len(r.members) == 0 {
		r.place.host.bearing++
	}
	r.members = append(r.members, member{group: g})
	g.routes++
	return g
}

func (m *Routes) leave(r *route, n int) {
	r.members[n].group.routes--
	r.members = slices.Delete(r.members, n, n+1)
	if len(r.members) == 0 {
		r.place.host.bearing--
	}
}

// unite gives a route what another knew, which is no more. Of two limits that
// are alike it keeps its own: each of the two was one value's.
func (m *Routes) unite(r, o *route) {
	o.class = nil
	for len(o.members) > 0 {
		last := len(o.members) - 1
		g := o.members[last].group
		m.leave(o, last)
		if !slices.ContainsFunc(r.members, func(own member) bool { return own.group.like(g) }) {
			m.join(r, g)
		}
	}
	r.answered = r.answered || o.answered
	r.used = max(r.used, o.used)
	if r.hidden == nil {
		r.hidden = o.hidden
	}
	if len(r.members) > 0 {
		r.guessing, r.guessed = false, nil
	}
	m.rebuild(r)
}

// guess takes the limits of a route that has not answered from its relatives:
// those at its path, else its siblings, else all of its host.
func (m *Routes) guess(r *route) {
	r.at = m.version
	r.guessed = r.guessed[:0]
	host := r.place.host
	if host.bearing == 0 {
		return
	}
	var common kin
	for _, o := range r.place.routes {
		common.add(o)
	}
	if len(common.groups) == 0 && r.place.up != nil {
		common = kin{}
		for _, o := range r.place.up.kids {
			common.addAll(o)
		}
		if r.place.up.star != nil {
			common.addAll(r.place.up.star)
		}
	}
	for _, g := range common.groups {
		if !g.apart && (g.routes > 1 || host.bearing == 1) {
			r.guessed = append(r.guessed, g)
		}
	}
	if len(r.guessed) > 0 {
		return
	}
	for _, g := range m.common {
		if g.host == host.name && g.routes >= host.bearing && !g.apart {
			r.guessed = append(r.guessed, g)
		}
	}
}

// kin are relatives, of which only what all share counts.
type kin struct {
	groups []*group
	many   int
}

func (k *kin) addAll(p *node) {
	for _, o := range p.routes {
		k.add(o)
	}
}

func (k *kin) add(o *route) {
	if len(o.members) == 0 {
		return
	}
	k.many++
	if k.many == 1 {
		for n := range o.members {
			k.groups = append(k.groups, o.members[n].group)
		}
		return
	}
	k.groups = slices.DeleteFunc(k.groups, func(g *group) bool { return o.in(g) == nil })
}

// bump makes the version larger, once for a call.
func (m *Routes) bump() {
	if !m.dirty {
		m.version++
		m.dirty = true
	}
}

// rebuild gives a route another class where its limits are others now.
func (m *Routes) rebuild(r *route) {
	if r.guessing && r.at != m.version {
		m.guess(r)
	}
	limits, unknown := m.limits(r), !r.answered && !m.Silent()
	if c := r.class; c != nil && c.Route == r.name && c.Unknown == unknown && slices.Equal(c.Limits, limits) {
		return
	}
	m.bump()
	r.at = m.version
	r.class = r.classOf(limits, unknown, m.version)
}

func (r *route) classOf(limits []Limit, unknown bool, version uint64) *Class {
	return &Class{Route: r.name, Template: r.template(), Unknown: unknown, Limits: limits, Version: version, part: r.place.part}
}

func (m *Routes) rebuildAll() {
	for _, r := range m.known {
		m.rebuild(r)
	}
}

// rebuildOf gives the routes of a group other classes.
func (m *Routes) rebuildOf(g *group) {
	for _, r := range m.known {
		if r.in(g) != nil || r.guessing {
			m.rebuild(r)
		}
	}
}

// limits are those that a route is under. Routes with the same share them.
func (m *Routes) limits(r *route) []Limit {
	all := m.picked[:0]
	for n := range r.members {
		all = append(all, r.members[n].group)
	}
	if r.guessing {
		for _, g := range r.guessed {
			if r.in(g) == nil {
				all = append(all, g)
			}
		}
	}
	if r.hidden != nil {
		all = append(all, r.hidden)
	}
	if m.wide != nil {
		all = append(all, m.wide)
	}
	m.picked = all
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Compare(a.number, b.number) })
	key := m.key[:0]
	for _, g := range all {
		key = binary.AppendUvarint(key, g.number)
	}
	m.key = key
	if known := m.shared[string(key)]; known != nil {
		return known
	}
	limits := make([]Limit, len(all))
	for n, g := range all {
		limits[n] = Limit{ID: g.id, Title: g.title, Part: g.part, Kind: g.kind, Unit: g.unit, Site: g.site}
	}
	if len(m.shared) >= 2*mostRoutes {
		clear(m.shared)
	}
	m.shared[string(key)] = limits
	return limits
}

// grow is the place of a path, which it makes if it has to.
func (m *Routes) grow(h *host, path string, of part) *node {
	p, whole := h.root, path
	for more := true; more; {
		var segment string
		if p.depth+1 == of.apart {
			if value, rest, further := strings.Cut(path, "/"); tells(value) {
				if m.uproot(p.kids[keyOf(value)]) {
					return m.grow(h, whole, of)
				}
				p, path, more = p.grown(value, of), rest, further
				continue
			}
		}
		segment, path, more = p.segment(path)
		if segment != "" && segment[0] != '*' && p.kids[segment] == nil && p.names() >= mostKids {
			m.gather(p)
			segment = "*"
		}
		if m.uproot(p.values[segment]) {
			return m.grow(h, whole, of)
		}
		p = p.kid(segment)
	}
	return p
}

// gather makes one of the names at a place, and of the routes below them.
func (m *Routes) gather(p *node) {
	loose, paths := p.widen()
	order := make([]int, len(loose))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(loose[b].used, loose[a].used) })
	for _, n := range order {
		r := loose[n]
		delete(m.known, r.name)
		to := m.grow(p.host, paths[n], r.place.part)
		if same := to.at(r.method); same != nil {
			m.unite(same, r)
			continue
		}
		m.put(r, to)
		m.rebuild(r)
	}
}

// put gives a route its place and name.
func (m *Routes) put(r *route, p *node) {
	r.place, r.name = p, r.method+" "+p.host.name+p.text
	p.routes = append(p.routes, r)
	m.known[r.name] = r
}

// evict lets go of the routes that were used longest ago.
func (m *Routes) evict() {
	all := m.byUse()
	m.bump() // they may come back as others
	for _, r := range all[:min(spareRoute, len(all))] {
		m.drop(r)
	}
}

func (m *Routes) drop(r *route) {
	delete(m.known, r.name)
	for len(r.members) > 0 {
		m.leave(r, len(r.members)-1)
	}
	p := r.place
	p.routes = slices.DeleteFunc(p.routes, func(o *route) bool { return o == r })
	p.prune()
	if p.host.root.bare() {
		delete(m.hosts, p.host.name)
	}
}

// byUse are all routes, the one used longest ago first.
func (m *Routes) byUse() []*route {
	all := make([]*route, 0, len(m.known))
	for _, r := range m.known {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *route) int { return cmp.Compare(a.used, b.used) })
	return all
}
