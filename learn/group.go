package learn

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A group collects what several headers say of one limit.
type group struct {
	Limit

	family, dim string
	status      string // allowed, rejected

	limits []float64 // as said, in the order of the lines
	least  int       // which of the remainings was the least
	many   int       // how many remainings were said

	aligned bool // the windows begin on the clock

	absolute moment // the reset, when no header says how long
	after    time.Duration
	fill     Amount
	cost     Amount // of the request
	marker   bool   // of too many in flight: a limit of 0 on a refusal
}

// said are the groups of one response, and what it says of none in particular.
type said struct {
	clock  *clock
	method string
	served bool // the response is no error
	groups []*group
	policy []policy // of which the limit is not known yet
	hints  hints
	labels []label
}

// A policy is an amount per window, by name or by the amount.
type policy struct {
	family string
	item   item
	q      float64
	window time.Duration
	used   bool
}

// A label is a header that says in words what a limit is about.
type label struct{ kind, value string }

// mostGroups is how many limits of one response are looked at.
const mostGroups = 24

// group is the one of a family and a dimension, or nil when there are too many.
func (s *said) group(family, dim string) *group {
	for _, g := range s.groups {
		if g.family == family && g.dim == dim {
			return g
		}
	}
	if len(s.groups) >= mostGroups {
		return nil
	}
	g := &group{family: family, dim: dim}
	g.Name, g.Unit = dim, unitFor(dim)
	g.Window = time.Duration(periodOf(dim)) * time.Second
	for _, word := range []string{"path", "endpoint", "route", "method"} {
		if strings.Contains(dim, word) && !strings.HasPrefix(dim, "item ") {
			g.Scope = Route
		}
	}
	s.groups = append(s.groups, g)
	return g
}

func (g *group) limit(n float64) { g.limits = append(g.limits, n) }

func (g *group) remaining(n float64) {
	if !g.Remaining.Known || n < g.Remaining.N {
		g.Remaining, g.least = amount(n), g.many
	}
	g.many++
}

// used keeps the most that was said.
func (g *group) used(n float64) {
	if n >= 0 && (!g.Used.Known || n > g.Used.N) {
		g.Used = amount(n)
	}
}

// reset keeps the latest, and what says how long before what says when.
func (g *group) reset(m moment) {
	switch {
	case !m.relative:
		if g.absolute.at.IsZero() || m.at.After(g.absolute.at) {
			g.absolute = m
		}
	case !g.Relative || m.at.After(g.Reset):
		g.Reset, g.Resolution, g.Relative = m.at, m.resolution, true
		g.after = m.ahead
	}
}

// settle makes one limit of what was collected, and says whether there is
// anything in it.
func (g *group) settle(s *said, status int) bool {
	if g.Reset.IsZero() && !g.absolute.at.IsZero() {
		g.Reset, g.Resolution = g.absolute.at, g.absolute.resolution
	}
	if g.Reset.Before(s.clock.now) && !g.Reset.IsZero() {
		g.Reset = s.clock.now
	}
	if len(g.limits) > 0 {
		n := 0
		if len(g.limits) == g.many {
			n = g.least
		}
		g.Limit.Limit = amount(g.limits[n])
		if len(g.limits) != g.many {
			g.Limit.Limit.N = slices.Min(g.limits)
		}
	}
	limit := &g.Limit.Limit
	if limit.Known && limit.N < 0 {
		*limit = Amount{}
	}
	if limit.Known && limit.N == 0 {
		// A limiter that is off, or on a refusal the mark of one that counts
		// what is in flight.
		if !refuses(status) {
			return false
		}
		*limit = Amount{}
		g.marker = true
	}
	if g.Remaining.Known && g.Remaining.N < 0 {
		g.Remaining.Known = limit.Known && !g.Reset.IsZero()
		g.Remaining.N = 0
	}
	switch {
	case g.Remaining.Known && g.Used.Known && !limit.Known && s.served && g.Unit.counts():
		*limit = amount(g.Remaining.N + g.Used.N)
	case limit.Known && g.Used.Known && !g.Remaining.Known:
		g.Remaining = amount(max(limit.N-g.Used.N, 0))
	}
	if g.fill.Known && g.fill.N > 0 && g.Window > 0 && g.Rate == 0 {
		g.Rate = g.fill.N / g.Window.Seconds()
	}
	if g.cost.Known && g.Remaining.Known && g.cost.N > g.Remaining.N && g.Rate > 0 {
		if wait := (g.cost.N - g.Remaining.N) / g.Rate; wait <= horizon.Seconds() {
			g.Next = s.clock.now.Add(time.Duration(wait * float64(time.Second)))
		}
	}
	if strings.HasSuffix(g.family, "-post") {
		g.Scope, g.Other = Route, s.method != "POST"
	}
	if g.aligned && g.Window > 0 && g.Reset.IsZero() {
		// The server's windows begin on its own clock.
		skew := s.clock.local(time.Time{}).Sub(time.Time{})
		g.Reset, g.Resolution = s.clock.now.Add(-skew).Truncate(g.Window).Add(g.Window+skew), time.Second
	}
	return limit.Known || g.Remaining.Known || !g.Reset.IsZero() || g.Rate > 0 || g.status == "rejected" || g.family == "row" && g.Used.Known
}

// refuses says whether a status is a refusal whatever else the response says.
func refuses(status int) bool { return status == 429 || status == 420 }

// attach gives the limits of the drafts their windows. What is left over is a
// policy without a state.
func (s *said) attach() {
	for n := range s.policy {
		p := &s.policy[n]
		if !p.item.quoted && p.item.q == "" { // 100;w=60
			continue
		}
		for _, g := range s.groups {
			if g.family == p.family && (g.Name == p.item.value || p.item.also != "" && g.Name == p.item.also) {
				g.join(p)
				break
			}
		}
	}
	for _, g := range s.groups {
		if len(g.limits) == 0 || g.Window > 0 || g.dim != "" {
			continue
		}
		var only *policy
		clash := false
		for n := range s.policy {
			p := &s.policy[n]
			if p.item.q != "" || p.q != g.limits[0] || !related(p.family, g.family) {
				continue
			}
			clash = clash || only != nil && only.window != p.window
			only, p.used = p, true
		}
		if only != nil && !clash {
			g.Window = only.window
		}
		for n := range s.policy {
			// Which of two is the limit's is not said, so both stand alone.
			p := &s.policy[n]
			p.used = p.used && !(clash && p.item.q == "" && p.q == g.limits[0])
		}
	}
	slices.SortFunc(s.policy, func(a, b policy) int { return cmp.Compare(a.window, b.window) })
	for _, p := range s.policy {
		if p.used || p.q <= 0 {
			continue
		}
		name := p.item.value
		if p.item.also != "" && p.item.q != "" {
			name = p.item.also
		}
		g := s.group(p.family, "policy "+name)
		if g == nil || len(g.limits) > 0 {
			continue
		}
		g.Name = name
		g.join(&p)
		if p.item.q == "" {
			g.Bucket, g.Name = "", p.window.String()
		} else {
			g.Bucket, g.Scope = bucket(name)
		}
	}
}

func (g *group) join(p *policy) {
	p.used = true
	if len(g.limits) == 0 {
		g.limit(p.q)
	}
	g.Window = p.window
	if p.item.unit != "" {
		g.Unit = unitName(p.item.unit)
	}
	if g.Partition == "" {
		g.Partition = p.item.partition
	}
}

// bucket is a server's name for a limit, and whom it makes the limit's scope.
// "default" names nothing.
func bucket(name string) (string, Scope) {
	if name == "" || strings.EqualFold(name, "default") || len(name) > longest {
		return "", None
	}
	return name, Route
}

func unitName(text string) Unit {
	if text == "requests" {
		return Requests
	}
	return Unit(text)
}

// related says whether two families may speak of the same limit: x- and none,
// or one twice.
func related(a, b string) bool {
	plain := func(f string) bool { return f == "" || f == "x" }
	return a == b || plain(a) && plain(b)
}

// merge unites the families that speak of one limit: a gateway's and an
// application's are kept apart unless they agree.
func (s *said) merge() {
	for i := 0; i < len(s.groups); i++ {
		for j := i + 1; j < len(s.groups); j++ {
			if a, b := s.groups[i], s.groups[j]; a.agrees(b) {
				a.absorb(b)
				s.groups = slices.Delete(s.groups, j, j+1)
				j--
			}
		}
	}
}

func (g *group) agrees(o *group) bool {
	a, b := &g.Limit, &o.Limit
	same := func(a, b Amount) bool { return !a.Known || !b.Known || a.N == b.N }
	switch {
	case g.family == o.family, a.Unit != b.Unit, a.Scope != b.Scope, a.Bucket != b.Bucket, a.Other != b.Other:
		return false
	case !same(a.Limit, b.Limit), !same(a.Remaining, b.Remaining):
		return false
	case a.Window > 0 && b.Window > 0 && a.Window != b.Window:
		return false
	case !a.Reset.IsZero() && !b.Reset.IsZero() && a.Reset.Sub(b.Reset).Abs() > leastSkew:
		return false
	case g.dim == o.dim && related(g.family, o.family): // one may say what the other leaves out
		return true
	case !a.Limit.Known || !b.Limit.Known:
		return false
	case g.dim == o.dim:
		return true
	}
	return (g.dim == "" || o.dim == "") && a.Remaining.Known && b.Remaining.Known
}

func (g *group) absorb(o *group) {
	a, b := &g.Limit, &o.Limit
	if !a.Limit.Known {
		a.Limit = b.Limit
	}
	if !a.Remaining.Known {
		a.Remaining = b.Remaining
	}
	if !a.Used.Known {
		a.Used = b.Used
	}
	if a.Reset.IsZero() || !a.Relative && b.Relative {
		if !b.Reset.IsZero() {
			a.Reset, a.Resolution, a.Relative = b.Reset, b.Resolution, b.Relative
		}
	}
	if a.Next.IsZero() {
		a.Next = b.Next
	}
	a.Window, a.Rate = max(a.Window, b.Window), max(a.Rate, b.Rate)
	if a.Name == "" {
		a.Name = b.Name
	}
}
