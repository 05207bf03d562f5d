package routes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/status"
)

// The state's version, and the most of it that is read.
const (
	stateVersion = 1
	longestState = 4 << 20
)

// state is the stored form of a table: the routes, and the limits that they are under. Nothing of
// budgets is in it.
type state struct {
	Version   int          `json:"version"`
	Announced bool         `json:"announced,omitempty"`
	Answers   int          `json:"answers,omitempty"`
	Made      uint64       `json:"made,omitempty"`
	Numbered  bool         `json:"numbered,omitempty"`
	Wide      string       `json:"wide,omitempty"`
	Groups    []groupState `json:"groups,omitempty"`
	Routes    []routeState `json:"routes,omitempty"`
	Dialect   string       `json:"dialect,omitempty"`
}

type groupState struct {
	ID        string   `json:"id"`
	Number    uint64   `json:"number"`
	Covers    string   `json:"title,omitempty"` // the name of older versions
	Hidden    bool     `json:"hidden,omitempty"`
	Host      string   `json:"host,omitempty"`
	Bucket    string   `json:"bucket,omitempty"`
	Name      string   `json:"name,omitempty"`
	Partition string   `json:"partition,omitempty"`
	Part      string   `json:"part,omitempty"`
	Unit      string   `json:"unit,omitempty"`
	Amount    *float64 `json:"amount,omitempty"`
	Window    int64    `json:"window,omitempty"` // nanoseconds
	Private   bool     `json:"private,omitempty"`
	Apart     bool     `json:"apart,omitempty"`
	Moving    bool     `json:"moving,omitempty"`
	Site      bool     `json:"site,omitempty"`
}

type routeState struct {
	Method string   `json:"method"`
	Host   string   `json:"host,omitempty"`
	Path   string   `json:"path"`
	Apart  int      `json:"apart,omitempty"` // depth of the segment that names the entity; 0 is none
	Any    []int    `json:"any,omitempty"`   // depths of the stars that stand for any name
	Part   string   `json:"part,omitempty"`
	Hidden string   `json:"hidden,omitempty"`
	Limits []string `json:"limits,omitempty"`
	Seen   []int64  `json:"seen,omitempty"` // of each limit, Unix seconds
}

// State returns what is known of routes that have responses, for Restore.
func (m *Table) State() []byte {
	s := state{Version: stateVersion, Announced: m.announced, Answers: m.answers, Made: m.catalog.made, Numbered: m.catalog.numbered, Dialect: m.dialect}
	if g := m.catalog.hiddenOf[""]; g != nil {
		s.Wide = g.id
	}
	for _, g := range m.catalog.groups {
		item := groupState{
			ID: g.id, Number: g.number, Covers: g.covers, Hidden: g.kind == Hidden, Host: g.key.host, Bucket: g.bucket,
			Name: g.key.name, Partition: g.key.partition, Part: g.key.entity, Unit: string(g.key.unit), Window: int64(g.window),
			Private: g.private, Apart: g.unshared, Moving: g.moving >= 2, Site: g.site,
		}
		if g.amount.Known {
			item.Amount = &g.amount.N
		}
		s.Groups = append(s.Groups, item)
	}
	slices.SortFunc(s.Groups, func(a, b groupState) int { return int(a.Number) - int(b.Number) })
	for _, r := range m.tree.byUse() {
		g := m.hiddenOf(r)
		if !r.answered && g == nil {
			continue
		}
		item := routeState{Method: r.method, Host: r.place.host.name, Path: r.place.text, Apart: r.place.entity.segment, Part: r.place.entity.name}
		if g != nil {
			item.Hidden = g.id
		}
		for p := r.place; p.up != nil; p = p.up {
			if p == p.up.star && p.up.generalised {
				item.Any = append(item.Any, p.depth)
			}
		}
		for n := range r.members {
			item.Limits = append(item.Limits, r.members[n].group.id)
			item.Seen = append(item.Seen, r.members[n].seen.Unix())
		}
		s.Routes = append(s.Routes, item)
	}
	text, _ := json.Marshal(s) // it has finite numbers alone
	return text
}

var errState = errors.New("the state of routes is damaged")

// Restore replaces the table by what State wrote. After an error the table is unchanged.
func (m *Table) Restore(text []byte) error {
	if len(text) > longestState {
		return fmt.Errorf("%w: it is larger than %d bytes", errState, longestState)
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("reading the state of routes: %w", err)
	}
	if s.Version != stateVersion {
		return fmt.Errorf("the state of routes has version %d, and this program reads %d", s.Version, stateVersion)
	}
	n := New()
	n.version, n.dialect = m.version+1, s.Dialect
	n.tree.tick, n.catalog.marks = m.tree.tick, m.catalog.marks
	n.announced, n.answers = s.Announced, min(max(s.Answers, 0), 2)
	for i := range s.Groups {
		if err := n.catalog.restoreGroup(&s.Groups[i]); err != nil {
			return err
		}
	}
	n.catalog.made, n.catalog.numbered = max(n.catalog.made, min(s.Made, 1<<53)), s.Numbered
	if g := n.catalog.groups[s.Wide]; g != nil && g.kind != Hidden {
		return fmt.Errorf("%w: the limit of the site is no hidden one", errState)
	} else if g != nil {
		n.catalog.hiddenOf[""] = g
	}
	// The routes used longest ago come first, and names that are known by themselves before the wildcards of others.
	routes := s.Routes[max(len(s.Routes)-mostRoutes, 0):]
	slices.SortStableFunc(routes, func(a, b routeState) int { return len(a.Any) - len(b.Any) })
	for i := range routes {
		n.restoreRoute(&routes[i])
	}
	n.rebuildAll()
	*m = *n
	return nil
}

func (c *catalog) restoreGroup(s *groupState) error {
	switch {
	case s.ID == "" || s.ID != bounded(s.ID) || c.groups[s.ID] != nil:
		return fmt.Errorf("%w: a limit's name is missing, too long or there twice", errState)
	case s.Number == 0 || s.Number > 1<<53 || s.Number <= c.made:
		return fmt.Errorf("%w: the limits are not in order", errState)
	case s.Hidden && len(c.hidden) >= mostHidden, !s.Hidden && s.Part == "" && len(c.common) >= mostGroups,
		!s.Hidden && s.Part != "" && c.ofEntities() >= mostEntityLimits+spareEntityLimits:
		return fmt.Errorf("%w: there are too many limits", errState)
	}
	g := &group{
		number: s.Number, id: strings.Clone(s.ID), bucket: bounded(s.Bucket), window: max(time.Duration(s.Window), 0),
		private: s.Private, unshared: s.Apart, site: s.Site, budgets: make(map[string]*record),
		key: nameKey{
			host: hostOf(s.Host), name: bounded(s.Name), partition: bounded(s.Partition), entity: bounded(s.Part),
			unit: learn.Unit(bounded(s.Unit)),
		},
	}
	if s.Amount != nil {
		g.amount = learn.Amount{N: *s.Amount, Known: true}
	}
	if s.Moving {
		g.moving = 2
	}
	c.made = s.Number
	if s.Hidden {
		g.kind, g.title, g.covers = Hidden, status.HiddenTitle, bound(s.Covers, longestTitle)
		c.groups[g.id] = g
		c.hidden = append(c.hidden, g)
		return nil
	}
	g.title = g.entitle()
	key := bucketKey{g.bucket, g.key}
	if c.partition(key) != g.key.partition || g.bucket != "" && c.announced[key] != nil {
		return fmt.Errorf("%w: a limit is there twice", errState)
	}
	c.groups[g.id] = g
	c.add(g)
	return nil
}

func (m *Table) restoreRoute(s *routeState) {
	path := strings.TrimPrefix(s.Path, "/")
	of := entityOf(path, s.Apart)
	if of.segment > 0 && s.Part != "" {
		of.name = bounded(s.Part)
	}
	r := m.add(s.Method, s.Host, path, of)
	m.tree.use(r)
	r.answered, r.guessing, r.guessed = true, false, nil
	for p := r.place; p.up != nil; p = p.up {
		p.up.generalised = p.up.generalised || slices.Contains(s.Any, p.depth)
	}
	if g := m.catalog.groups[s.Hidden]; g != nil && g.kind == Hidden && m.hiddenOf(r) == nil {
		m.catalog.hiddenOf[r.template()] = g
	}
	for n, id := range s.Limits {
		g := m.catalog.groups[id]
		if g == nil || g.kind == Hidden || g.key.host != r.place.host.name || r.join(g) != g {
			continue
		}
		if n < len(s.Seen) && s.Seen[n] > 0 && s.Seen[n] < 1<<40 {
			r.in(g).seen = time.Unix(s.Seen[n], 0)
			g.seen = status.Later(g.seen, r.in(g).seen)
		}
	}
}
