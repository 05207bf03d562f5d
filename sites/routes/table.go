// Package routes finds out which of a site's own limits its requests are under, as far as
// its responses show. It is pure: now is an argument.
//
// A request belongs to a route: a method and a path in which values are stars. A group is
// one limit and the routes that share it. Table connects both.
package routes

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Table knows which limits of a site its requests are under, as far as responses have
// shown. It is not safe for concurrent use.
//
// The usual calls:
//
//	class := table.Class("GET", "", "/2/tweets/20/retweeted_by", learn.About(request).EntitySegment)
//	… ask for a permit by class.Limits, and send …
//	learned := table.Learn(now, class, budget, sent, &lesson)
//	… update the ledger of each of learned.Announcements, and for its surprise …
//	table.Explain(now, class, budget, announcement.ID, sent, surprise)
type Table struct {
	tree    tree
	catalog catalog
	version uint64

	lists     limitLists
	answers   int // responses so far, up to 2
	announced bool
	dialect   string // by which it was learned, of the site's rule
}

// New returns a Table that knows nothing.
func New() *Table {
	return &Table{
		tree: tree{hosts: map[string]*host{}, known: map[string]*route{}},
		catalog: catalog{
			groups: map[string]*group{}, announced: map[bucketKey]*candidates{},
			partitions: map[bucketKey][]string{}, hiddenOf: map[string]*group{},
		},
		lists: limitLists{known: map[string][]Limit{}},
	}
}

// Forget drops all that is known, and reports whether anything was. Limits that are found from now on, by a dialect,
// have other IDs than those before.
func (m *Table) Forget(dialect string) (known bool) {
	m.dialect = dialect
	if m.answers == 0 && !m.Limited() {
		return false
	}
	n := New()
	n.dialect, n.version, n.tree.tick, n.catalog.marks = dialect, m.version+1, m.tree.tick, m.catalog.marks
	n.catalog.made, n.catalog.numbered = m.catalog.made, true
	*m = *n
	return true
}

// Follow forgets what was learned by another dialect.
func (m *Table) Follow(dialect string) {
	if m.dialect != dialect {
		m.Forget(dialect)
	}
}

// Version grows whenever the limits of a class change.
func (m *Table) Version() uint64 { return m.version }

// Silent reports whether the site has responded and never announced a limit: then no
// request has to go alone.
func (m *Table) Silent() bool { return m.answers >= 2 && !m.announced }

// Class returns the class of a request, never nil. The host is empty if the site is one
// host. The path is as it was sent, without its query. Apart is the depth of the segment
// that names an entity, by learn.EntitySegment.
func (m *Table) Class(method, host, path string, apart int) *Class {
	path = strings.TrimPrefix(path, "/")
	r := m.tree.lookup(method, host, path, apart)
	if r == nil {
		r = m.add(method, host, path, entityOf(path, apart))
	}
	m.tree.use(r)
	if r.at != m.version && r.guessing {
		m.rebuild(r)
	}
	return r.class
}

// add makes a route, unless the request belongs to a route that is known.
func (m *Table) add(method, name, path string, of entity) *route {
	method, name = methodOf(method), hostOf(name)
	if r := m.tree.lookup(method, name, path, of.segment); r != nil {
		return r
	}
	if len(m.tree.known) >= mostRoutes {
		m.version++ // routes that come back may have other limits
		for _, r := range m.tree.byUse()[:spareRoute] {
			m.tree.drop(r)
		}
	}
	h := m.tree.hosts[name]
	if h == nil {
		h = &host{name: strings.Clone(name)}
		h.root = &node{host: h, versions: true}
		m.tree.hosts[h.name] = h
	}
	p := m.ensure(h, path, of)
	if r := p.at(method); r != nil {
		return r
	}
	if len(p.routes) >= mostMethods {
		method = "*"
		if r := p.at(method); r != nil {
			return r
		}
	}
	m.tree.count++
	r := &route{number: m.tree.count, method: strings.Clone(method), guessing: true}
	m.tree.put(r, p)
	m.guess(r)
	r.class = r.classOf(m.limits(r), !m.Silent())
	r.at = m.version
	return r
}

// routeOf returns the route of a class, which it makes again if the route has been
// removed.
func (m *Table) routeOf(c *Class) *route {
	if r := m.tree.known[c.Route]; r != nil {
		return r
	}
	method, rest, _ := strings.Cut(c.Route, " ")
	host, path, _ := strings.Cut(rest, "/")
	r := m.add(method, host, path, c.entity)
	m.tree.use(r)
	return r
}

// Learn takes over what a response announces to a request of a class. Budget names the
// token that the request was sent with; "" is none.
func (m *Table) Learn(now time.Time, c *Class, budget string, sent time.Time, l *learn.Lesson) Learned {
	before := m.version
	r := m.routeOf(c)
	if r.answered && !r.guessing && len(l.Limits) == 0 && m.answers >= 2 {
		return Learned{}
	}
	silent := m.Silent()
	m.answers = min(m.answers+1, 2)
	told := m.announcements(now, r, budget, sent, l)
	switch {
	case len(told) > 0:
		m.announced = m.announced || slices.ContainsFunc(told, func(a Announcement) bool { return !a.Limit.OnlyUsed() })
		r.guessing, r.guessed = false, nil
		m.catalog.forget(now, sent, budget, r)
	case r.quiet >= 2 || len(r.guessed) == 0:
		r.guessing, r.guessed = false, nil
	default:
		// Errors often come without headers, so one response alone shows nothing.
		r.quiet++
	}
	r.answered = true
	m.rebuild(r)
	if silent != m.Silent() {
		m.withdraw() // what was refused before the site is known to be silent says nothing of a route
	}
	return Learned{Announcements: told, Changed: m.version != before}
}

// mostTold bounds the limits of one response that are read.
const mostTold = 24

// announcements finds the group of each limit that a response announced.
func (m *Table) announcements(now time.Time, r *route, budget string, sent time.Time, l *learn.Lesson) []Announcement {
	var told []Announcement
	if len(l.Limits) > 0 && m.catalog.ofEntities() >= mostEntityLimits {
		m.evictEntities(r)
	}
	m.catalog.marks++
	mark, blamed := m.catalog.marks, false
	for n := range l.Limits[:min(len(l.Limits), mostTold)] {
		said := &l.Limits[n]
		if said.Other || l.Concurrency && !said.Limit.Known && said.Unit != learn.Concurrent { // a mark of too many in flight
			continue
		}
		h := observation{now: now, sent: sent, budget: budget, said: said, lesson: l, mark: mark}
		if said.Scope == learn.Site {
			h.budget = "" // tokens count together in a limit of the site
		}
		g := r.join(m.catalog.groupOf(r, &h))
		if g.mark == mark {
			continue // two limits of a response in one group: the first binds
		}
		if g = m.update(r, g, &h); g.mark == mark {
			continue
		}
		g.mark = mark
		if told == nil {
			told = make([]Announcement, 0, min(len(l.Limits), mostTold))
		}
		t := Announcement{ID: g.id, Title: g.title, Entity: g.key.entity, Site: g.site, Limit: *said}
		if t.Refused = refusedBy(l, said, n); t.Refused && !blamed {
			t.RetryAt, blamed = l.RetryAt, true
		}
		told = append(told, t)
	}
	return told
}

// refusedBy reports whether a response was a refusal because of a limit: nothing is
// left, or the wait ends with the reset.
func refusedBy(l *learn.Lesson, said *learn.Limit, n int) bool {
	if !l.Throttled || l.Lock || l.Permanent {
		return false
	}
	switch said.Unit {
	case learn.Concurrent:
		return l.Concurrency || said.Remaining.Known && said.Remaining.N < 1
	case learn.Percent:
		return said.Used.Known && said.Used.N >= 100
	}
	if l.Concurrency {
		return false
	}
	if said.Remaining.Known && said.Remaining.N < 1 {
		return true
	}
	return n == 0 && !l.RetryAt.IsZero() && !said.Reset.IsZero() &&
		l.RetryAt.Sub(said.Reset).Abs() <= time.Second+said.Resolution
}

// Fresh reports whether the site has not responded yet, so that nothing is known.
func (m *Table) Fresh() bool { return m.answers == 0 }

// Limited reports whether the site is known to have a limit.
func (m *Table) Limited() bool { return len(m.catalog.groups) > 0 }

// IDs returns the IDs of all limits of the site, sorted.
func (m *Table) IDs() []string {
	return slices.Sorted(maps.Keys(m.catalog.groups))
}

// Limit returns a limit of the site; zero: it does not exist.
func (m *Table) Limit(id string) (l Limit) {
	if g := m.catalog.groups[id]; g != nil {
		l = g.limit()
	}
	return l
}

// Describe returns the bucket of a limit, with its entity, or, if the server names none,
// the routes that are known to be under the limit, sorted.
func (m *Table) Describe(id string) (bucket string, routes []string) {
	g := m.catalog.groups[id]
	if g == nil {
		return "", nil
	}
	if g.bucket != "" {
		return strings.TrimSuffix(g.bucket+" "+g.key.entity, " "), nil
	}
	for _, r := range m.tree.known {
		if r.in(g) != nil || m.hiddenOf(r) == g {
			routes = append(routes, r.name)
		}
	}
	slices.Sort(routes)
	return "", routes
}

// Identity returns a name of a limit that is the same in all processes that see the same
// responses: the server's names and the amount. Limits that only their routes tell apart
// have the first route in it.
func (m *Table) Identity(id string) string {
	g := m.catalog.groups[id]
	switch {
	case g == nil:
		return ""
	case g.kind == Hidden && g == m.catalog.hiddenOf[""]:
		return hiddenIdentity
	case g.kind == Hidden:
		return hiddenIdentity + "/" + g.covers
	}
	parts := []string{g.bucket, g.key.host, g.key.name, g.key.partition, g.key.entity, string(g.key.unit)}
	if g.amount.Known {
		parts = append(parts, strconv.FormatFloat(g.amount.N, 'g', -1, 64))
	}
	alone := !g.private
	for _, o := range m.catalog.groups {
		alone = alone && (o == g || o.kind != g.kind || o.bucket != g.bucket || o.key != g.key || !agree(o.amount, g.amount))
	}
	if _, routes := m.Describe(id); !alone && len(routes) > 0 {
		parts = append(parts, routes[0])
	}
	return strings.Join(parts, "/")
}

// Announces reports whether the site has announced a limit.
func (m *Table) Announces() bool { return m.announced }

// guess sets the limits that a route without a response is probably under: those that
// all routes of its path share, else those of the sibling paths, else those of all
// routes of the host.
func (m *Table) guess(r *route) {
	r.at = m.version
	r.guessed = r.guessed[:0]
	host := r.place.host
	if host.limited == 0 {
		return
	}
	common := sharedGroups(r.place.routes)
	if len(common) == 0 && r.place.up != nil {
		var siblings []*route
		for _, o := range r.place.up.children {
			siblings = append(siblings, o.routes...)
		}
		if r.place.up.star != nil {
			siblings = append(siblings, r.place.up.star.routes...)
		}
		common = sharedGroups(siblings)
	}
	for _, g := range common {
		if !g.unshared && (g.routes > 1 || host.limited == 1) {
			r.guessed = append(r.guessed, g)
		}
	}
	if len(r.guessed) > 0 {
		return
	}
	for _, g := range m.catalog.common {
		if g.key.host == host.name && g.routes >= host.limited && !g.unshared {
			r.guessed = append(r.guessed, g)
		}
	}
}

// rebuild gives a route a new class if its limits have changed.
func (m *Table) rebuild(r *route) {
	if r.guessing && r.at != m.version {
		m.guess(r)
	}
	limits, unknown := m.limits(r), !r.answered && !m.Silent()
	if c := r.class; c != nil && c.Route == r.name && c.Unknown == unknown && slices.Equal(c.Limits, limits) {
		return
	}
	m.version++
	r.at = m.version
	r.class = r.classOf(limits, unknown)
}

func (m *Table) rebuildAll() {
	for _, r := range m.tree.known {
		m.rebuild(r)
	}
}

// rebuildOf rebuilds the routes of a group, and those whose limits are guessed.
func (m *Table) rebuildOf(g *group) {
	for _, r := range m.tree.known {
		if r.in(g) != nil || r.guessing {
			m.rebuild(r)
		}
	}
}

// limits returns the limits that a route is under, in the order in which they were
// found.
func (m *Table) limits(r *route) []Limit {
	l := &m.lists
	l.picked = l.picked[:0]
	for n := range r.members {
		l.picked = append(l.picked, r.members[n].group)
	}
	if r.guessing {
		for _, g := range r.guessed {
			if r.in(g) == nil {
				l.picked = append(l.picked, g)
			}
		}
	}
	for _, g := range []*group{m.hiddenOf(r), m.catalog.hiddenOf[""]} {
		if g != nil {
			l.picked = append(l.picked, g)
		}
	}
	if len(l.picked) == 0 {
		return nil
	}
	slices.SortFunc(l.picked, func(a, b *group) int { return cmp.Compare(a.number, b.number) })
	l.key = l.key[:0]
	for _, g := range l.picked {
		l.key = binary.AppendUvarint(l.key, g.number)
	}
	if known := l.known[string(l.key)]; known != nil {
		return known
	}
	limits := make([]Limit, len(l.picked))
	for n, g := range l.picked {
		limits[n] = g.limit()
	}
	if len(l.known) >= 2*mostRoutes {
		clear(l.known)
	}
	l.known[string(l.key)] = limits
	return limits
}

// limitLists caches lists of limits. Routes with the same limits share one list.
type limitLists struct {
	known  map[string][]Limit // :: the numbers of groups → their limits
	picked []*group           // scratch
	key    []byte             // scratch
}
