package ledger

import (
	"strings"
	"time"

	"github.com/abide-proxy/abide/learn"
)

// Bounds of what is kept of a site.
const (
	mostRoutes = 2000
	spareRoute = 200 // how many leave at once when there are more
)

// Routes says which of a site's own limits its requests are under, as far as its
// answers have shown. It is not safe for concurrent use.
//
// The usual calls:
//
//	class := routes.Class("GET", "", "/2/tweets/20/retweeted_by", learn.Apart(request))
//	… ask for a permit by class.Limits, and send …
//	learned := routes.Learn(now, class, budget, sent, &lesson)
//	… tell each ledger of learned.Told, and for what it says of that …
//	routes.Heard(now, class, budget, told.ID, sent, news)
type Routes struct {
	version uint64
	dirty   bool // version has grown for the call that runs

	hosts map[string]*host  // :: its name, empty where the site is one → its paths
	known map[string]*route // :: its name → a route
	tick  uint64            // of uses, for the route used longest ago

	groups map[string]*group  // :: ID → a limit
	named  map[named]*group   // those that the server names
	plain  map[alike]*shelf   // those that it does not
	parts  map[named][]string // :: a limit without its partition → those that it has
	made   uint64             // groups so far
	marks  uint64             // answers so far that announced something
	common []*group           // the announced ones of no part; the last takes all when there are too many
	hidden []*group           // of Kind Hidden, not the site's
	wide   *group             // the hidden one of the whole site
	veiled map[string]*group  // :: template → the hidden one of the routes of all parts

	shared map[string][]Limit // :: which groups → their limits
	picked []*group           // scratch
	key    []byte             // scratch

	answers   int
	announced bool
	twins     map[[2]string]bool // that have been reported
}

// NewRoutes is Routes that know nothing.
func NewRoutes() *Routes {
	return &Routes{
		hosts:  make(map[string]*host),
		known:  make(map[string]*route),
		groups: make(map[string]*group),
		named:  make(map[named]*group),
		plain:  make(map[alike]*shelf),
		parts:  make(map[named][]string),
		veiled: make(map[string]*group),
		shared: make(map[string][]Limit),
		twins:  make(map[[2]string]bool),
	}
}

// Version grows whenever the limits of some class change.
func (m *Routes) Version() uint64 { return m.version }

// Silent says whether the site has answered and never announced anything: then
// nobody has to go alone.
func (m *Routes) Silent() bool { return m.answers >= 2 && !m.announced }

// Class is the class of a request, never nil. The host is empty where the site is
// one host; the path is as it was sent, without its query; apart is which segment of
// it tells budgets apart, as learn.Apart says.
func (m *Routes) Class(method, host, path string, apart int) *Class {
	if path != "" && path[0] == '/' {
		path = path[1:]
	}
	r := m.lookup(method, host, path, apart)
	if r == nil {
		m.dirty = false
		r = m.add(method, host, path, partOf(path, apart))
	}
	m.tick++
	r.used = m.tick
	if r.at != m.version && r.guessing {
		m.dirty = false
		m.rebuild(r)
	}
	return r.class
}

// lookup is a route that is known, or nil. The path is without its first slash.
func (m *Routes) lookup(method, host, path string, apart int) *route {
	h := m.hosts[host]
	if h == nil {
		return nil
	}
	p := h.root.find(path, apart)
	if p == nil {
		return nil
	}
	return p.at(method)
}

// add makes a route, unless what is odd about the request leads to one that is
// known.
func (m *Routes) add(method, host, path string, of part) *route {
	method, host = methodOf(method), hostOf(host)
	if r := m.lookup(method, host, path, of.apart); r != nil {
		return r
	}
	if len(m.known) >= mostRoutes {
		m.evict()
	}
	h := m.hosts[host]
	if h == nil {
		h = newHost(strings.Clone(host))
		m.hosts[h.name] = h
	}
	p := m.grow(h, path, of)
	if r := p.at(method); r != nil {
		return r
	}
	if len(p.routes) >= mostMethods {
		method = "*"
		if r := p.at(method); r != nil {
			return r
		}
	}
	r := &route{method: strings.Clone(method), guessing: true}
	m.put(r, p)
	if p.part.apart > 0 {
		r.hidden = m.veiled[r.template()]
	}
	m.guess(r)
	r.class = r.classOf(m.limits(r), !m.Silent(), m.version)
	r.at = m.version
	return r
}

func (p *node) at(method string) *route {
	for _, r := range p.routes {
		if r.method == method {
			return r
		}
	}
	return nil
}

// of is the route of a class, which may be older than what is known.
func (m *Routes) of(c *Class) *route {
	if r := m.known[c.Route]; r != nil {
		return r
	}
	method, rest, _ := strings.Cut(c.Route, " ")
	host, path, _ := strings.Cut(rest, "/")
	r := m.add(method, host, path, c.part)
	m.tick++
	r.used = m.tick
	return r
}

// Learn hears an answer to a request of a class that was sent with the token of
// a budget, or with nobody's.
func (m *Routes) Learn(now time.Time, c *Class, budget string, sent time.Time, l *learn.Lesson) Learned {
	r := m.known[c.Route]
	if r != nil && r.answered && !r.guessing && len(l.Limits) == 0 && m.answers >= 2 {
		return Learned{}
	}
	m.dirty = false
	if r == nil {
		r = m.of(c)
	}
	silent := m.Silent()
	m.answers = min(m.answers+1, 2)
	told := m.tell(now, r, budget, sent, l)
	switch {
	case len(told) > 0:
		m.announced, r.guessing, r.guessed = true, false, nil
		m.forget(now, r)
	case r.quiet >= 2 || len(r.guessed) == 0:
		r.guessing, r.guessed = false, nil
	default:
		// Errors often come without headers, so one alone shows nothing.
		r.quiet++
	}
	r.answered = true
	m.rebuild(r)
	if silent != m.Silent() {
		m.rebuildAll()
	}
	return Learned{Told: told, Changed: m.dirty}
}

// mostTold is how many limits of one answer are heard.
const mostTold = 24

// tell finds the group of each limit that an answer announced.
func (m *Routes) tell(now time.Time, r *route, budget string, sent time.Time, l *learn.Lesson) []Told {
	var told []Told
	if len(l.Limits) > 0 && len(m.groups)-len(m.hidden)-len(m.common) >= mostParted {
		m.shed(r)
	}
	m.marks++
	mark, blamed := m.marks, false
	for n := range l.Limits[:min(len(l.Limits), mostTold)] {
		said := &l.Limits[n]
		if said.Other || isMark(l, said) {
			continue
		}
		h := hearing{now: now, sent: sent, budget: budget, said: said, lesson: l, mark: mark}
		if said.Scope == learn.Site {
			h.budget = "" // tokens whose counts fall together are no twins by that
		}
		g := m.join(r, m.groupOf(r, &h))
		if g.mark == mark {
			continue // two of an answer that are taken for one: the first binds
		}
		if g = m.hear(r, g, &h); g.mark == mark {
			continue
		}
		g.mark = mark
		if told == nil {
			told = make([]Told, 0, min(len(l.Limits), mostTold))
		}
		t := Told{ID: g.id, Title: g.title, Part: g.part, Site: g.site, Said: *said}
		if t.Refused = refusedBy(l, said, n); t.Refused && !blamed {
			t.RetryAt, blamed = l.RetryAt, true
		}
		told = append(told, t)
	}
	return told
}

// isMark says whether a limit is only the mark of too many in flight.
func isMark(l *learn.Lesson, said *learn.Limit) bool {
	return l.Concurrency && !said.Limit.Known && said.Unit != learn.Concurrent
}

// refusedBy says whether an answer was a refusal because of a limit: nothing is
// left of it, or one is to wait exactly until its reset.
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

// Hide puts a class under a limit that is not announced, since the site refused
// it and none that is known explains that; wide puts every class of the site
// under one. Again it is the same.
func (m *Routes) Hide(c *Class, wide bool) (id string, changed bool) {
	m.dirty = false
	if wide {
		changed = m.Found(hiddenIdentity)
		return m.wide.id, changed
	}
	r := m.of(c)
	if r.hidden == nil {
		m.veil(r)
	}
	return r.hidden.id, m.dirty
}

// veil puts a route under a limit of its own that is not announced, and with it those
// that are the same but for the part: it is refused in many before it is often in one.
func (m *Routes) veil(r *route) {
	what := r.template()
	g := m.newHidden(what)
	if r.place.part.apart == 0 {
		r.hidden = g
		m.rebuild(r)
		return
	}
	if len(m.veiled) < mostRoutes {
		m.veiled[what] = g
	}
	for _, o := range m.known {
		if o.hidden == nil && o.place.part.apart > 0 && o.template() == what {
			o.hidden = g
			m.rebuild(o)
		}
	}
}
