package routes

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Limit is a limit of a class of requests. It is immutable.
type Limit struct {
	ID     string // unique in its site
	Title  string // for operators: "75 per 15m"
	Entity string // the entity that has the limit for itself: "channels/7"; "": none
	Kind   Kind
	Unit   learn.Unit
	Site   bool // the site counts all requests together, whatever their credentials
}

// Kind selects the meter of a limit. If you add a kind, also change NewMeter in package sites.
type Kind uint8

const (
	Announced Kind = iota // needs ledger.New
	Hidden                // needs ledger.NewHiddenRate: the server refuses without announcing a limit
)

// Class has the limits of the requests of one route. It is immutable: a route whose limits change
// gets another class.
type Class struct {
	Route    string // "GET /2/tweets/*/retweeted_by"; with its host where a site has several
	Template string // the route with a * for its entity
	Unknown  bool   // no response yet: one request goes alone (ledger.NewUnknownRoute)
	Limits   []Limit
	Version  uint64 // of the table when the class was made

	entity entity
}

// Announcement is a limit in a response, with the table's limit that it belongs to.
type Announcement struct {
	ID      string
	Title   string
	Entity  string
	Site    bool // see Limit
	Limit   learn.Limit
	Refused bool
	RetryAt time.Time
	Until   time.Time // until when the limit lets nothing go, by its ledger; zero: that is not known yet
}

// Learned is the result of one response.
type Learned struct {
	Announcements []Announcement
	Changed       bool // the limits of some routes have changed, and Version has grown
}

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
	var common siblings
	common.addAll(r.place)
	if len(common.groups) == 0 && r.place.up != nil {
		common = siblings{}
		for _, o := range r.place.up.children {
			common.addAll(o)
		}
		if r.place.up.star != nil {
			common.addAll(r.place.up.star)
		}
	}
	for _, g := range common.groups {
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

// changed makes the version larger, once for each call of an exported method.
func (m *Table) changed() {
	if !m.dirty {
		m.version++
		m.dirty = true
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
	m.changed()
	r.at = m.version
	r.class = r.classOf(limits, unknown, m.version)
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
	if r.hidden != nil {
		l.picked = append(l.picked, r.hidden)
	}
	if m.siteWide != nil {
		l.picked = append(l.picked, m.siteWide)
	}
	return l.of(l.picked)
}

// lists caches lists of limits. Routes with the same limits share one list.
type lists struct {
	known  map[string][]Limit // :: the numbers of groups → their limits
	picked []*group           // scratch
	key    []byte             // scratch
}

// of returns the list of the limits of groups, which it sorts.
func (l *lists) of(all []*group) []Limit {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Compare(a.number, b.number) })
	l.key = l.key[:0]
	for _, g := range all {
		l.key = binary.AppendUvarint(l.key, g.number)
	}
	if known := l.known[string(l.key)]; known != nil {
		return known
	}
	limits := make([]Limit, len(all))
	for n, g := range all {
		limits[n] = Limit{ID: g.id, Title: g.title, Entity: g.key.entity, Kind: g.kind, Unit: g.key.unit, Site: g.site}
	}
	if len(l.known) >= 2*mostRoutes {
		clear(l.known)
	}
	l.known[string(l.key)] = limits
	return limits
}
