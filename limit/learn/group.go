package learn

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// group collects the values of several headers about one limit.
type group struct {
	Limit

	family, dim string // see field; "row" for limits of a dialect
	status      string // "allowed", "rejected" or ""

	limits          []float64 // in the order of the lines
	lowestRemaining int       // index of the lowest remaining value
	remainingCount  int       // number of remaining values

	aligned bool // the windows begin on the clock

	absolute moment        // a reset given as a date, if no header gives a duration
	after    time.Duration // the reset as a duration from now
	fill     Amount
	cost     Amount // units that this request used
	marker   bool   // the limit counts requests in flight: a limit of 0 on a refusal
}

// reading is the state of reading one response: its groups, and values that belong to no
// group.
type reading struct {
	clock  *clock
	method string
	served bool // the status is below 400
	json   bool // the body is JSON: no page for people
	groups []*group
	policy []*policy // policies without a group so far
	hints  hints
	labels []label
}

// policy is an amount per window, matched to a group by name or by amount.
type policy struct {
	family string
	item   item
	q      float64
	window time.Duration
	used   bool
}

// label is a header that describes a limit in words.
type label struct{ kind, value string }

// maxGroups bounds the limits that are read from one response.
const maxGroups = 24

// group returns the group of a family and a dimension, or nil if there are too many groups.
func (s *reading) group(family, dim string) *group {
	for _, g := range s.groups {
		if g.family == family && g.dim == dim {
			return g
		}
	}
	if len(s.groups) >= maxGroups {
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

// count takes a number of units, if it is known and the role is that of one; otherwise it does nothing
// and returns false.
func (g *group) count(role Role, n Amount) bool {
	switch {
	case !n.Known:
		return false
	case role == IsLimit:
		g.limit(n.N)
	case role == IsRemaining:
		g.remaining(n.N)
	case role == IsUsed:
		g.used(n.N)
	default:
		return false
	}
	return true
}

func (g *group) remaining(n float64) {
	if !g.Remaining.Known || n < g.Remaining.N {
		g.Remaining, g.lowestRemaining = amount(n), g.remainingCount
	}
	g.remainingCount++
}

// used keeps the highest value.
func (g *group) used(n float64) {
	if n >= 0 && (!g.Used.Known || n > g.Used.N) {
		g.Used = amount(n)
	}
}

// reset keeps the latest value, and prefers durations to dates.
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

// finish makes a Limit of the collected values. It returns false if there is nothing in it.
func (g *group) finish(s *reading, status int) bool {
	if g.Reset.IsZero() && !g.absolute.at.IsZero() {
		g.Reset, g.Resolution = g.absolute.at, g.absolute.resolution
	}
	if !g.Relative && !g.Reset.IsZero() {
		g.Skew = s.clock.difference(g.Reset)
	}
	if g.Reset.Before(s.clock.now) && !g.Reset.IsZero() {
		g.Reset = s.clock.now
	}
	switch len(g.limits) {
	case 0:
	case g.remainingCount:
		g.Limit.Limit = amount(g.limits[g.lowestRemaining])
	default:
		g.Limit.Limit = amount(slices.Min(g.limits))
	}
	limit := &g.Limit.Limit
	if limit.Known && limit.N < 0 {
		*limit = Amount{}
	}
	if limit.Known && limit.N == 0 {
		// A limit of 0: a disabled limiter, or on a refusal a limiter that counts requests
		// in flight.
		if !alwaysRefusal(status) {
			return false
		}
		*limit = Amount{}
		g.marker = true
	}
	if g.Remaining.Known && g.Remaining.N < 0 {
		if !limit.Known {
			return false // -1 of -1: there is no limit
		}
		g.Remaining.Known = !g.Reset.IsZero()
		g.Remaining.N = 0
	}
	if limit.Known && g.Remaining.Known && g.Remaining.N > limit.N {
		g.Remaining.N = limit.N // what is left of a limit is no more than the limit
	}
	switch {
	case g.Remaining.Known && g.Used.Known && !limit.Known && s.served && g.Unit.countsRequests():
		*limit = amount(g.Remaining.N + g.Used.N)
	case limit.Known && g.Used.Known && !g.Remaining.Known:
		g.Remaining = amount(max(limit.N-g.Used.N, 0))
	}
	if g.fill.Known && g.fill.N > 0 && g.Window > 0 && g.Rate == 0 {
		g.Rate = g.fill.N / g.Window.Seconds()
	}
	if g.cost.Known && g.Remaining.Known && g.cost.N > g.Remaining.N && g.Rate > 0 {
		if wait := (g.cost.N - g.Remaining.N) / g.Rate; wait <= maxAhead.Seconds() {
			g.Next = s.clock.now.Add(time.Duration(wait * float64(time.Second)))
		}
	}
	if strings.HasSuffix(g.family, "-post") {
		g.Scope, g.Other = Token, s.method != "POST" // of all requests with that method
		g.Name = cmp.Or(g.Name, "post")
	}
	if g.aligned && g.Window > 0 && g.Reset.IsZero() {
		// The server's windows follow the server's clock.
		skew := s.clock.local(time.Time{}).Sub(time.Time{})
		g.Reset, g.Resolution = s.clock.now.Add(-skew).Truncate(g.Window).Add(g.Window+skew), time.Second
		g.Skew = s.clock.difference(g.Reset)
	}
	return limit.Known || g.Remaining.Known || !g.Reset.IsZero() || g.Rate > 0 || g.status == "rejected" || g.family == "row" && g.Used.Known
}

// alwaysRefusal tells whether a status is a refusal whatever the rest of the response says.
func alwaysRefusal(status int) bool { return status == 429 || status == 420 }

// assignWindows gives the limits of the RateLimit drafts their windows. A policy that
// matches no limit becomes a limit without a state.
func (s *reading) assignWindows() {
	for _, p := range s.policy {
		if !p.item.quoted && p.item.q == "" { // 100;w=60
			continue
		}
		for _, g := range s.groups {
			if g.family == p.family && (g.Name == p.item.value || p.item.second != "" && g.Name == p.item.second) {
				g.applyPolicy(p)
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
		for _, p := range s.policy {
			if p.item.q != "" || p.q != g.limits[0] || !relatedFamilies(p.family, g.family) {
				continue
			}
			clash = clash || only != nil && only.window != p.window
			only, p.used = p, true
		}
		if only != nil && !clash {
			g.Window = only.window
		}
		for _, p := range s.policy {
			// Several policies match: neither is used for this limit.
			p.used = p.used && !(clash && p.item.q == "" && p.q == g.limits[0])
		}
	}
	slices.SortFunc(s.policy, func(a, b *policy) int { return cmp.Compare(a.window, b.window) })
	for _, p := range s.policy {
		if p.used || p.q <= 0 {
			continue
		}
		name := p.item.value
		if p.item.second != "" && p.item.q != "" {
			name = p.item.second
		}
		g := s.group(p.family, "policy "+name)
		if g == nil || len(g.limits) > 0 {
			continue
		}
		g.Name = name
		g.applyPolicy(p)
		if p.item.q == "" {
			g.Bucket, g.Name = "", p.window.String()
		} else {
			g.Bucket, g.Scope = bucketOf(name)
		}
	}
}

func (g *group) applyPolicy(p *policy) {
	p.used = true
	if len(g.limits) == 0 {
		g.limit(p.q)
	}
	g.Window = p.window
	if p.item.unit != "" {
		g.Unit = unitName(p.item.unit)
	}
	g.Partition = cmp.Or(g.Partition, p.item.partition)
}

// bucketOf reads a server's name of a limit, and the scope that the name implies. "default"
// is no name.
func bucketOf(name string) (string, Scope) {
	if name == "" || strings.EqualFold(name, "default") || len(name) > maxValueLength {
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

// relatedFamilies tells whether two families may describe the same limit: x- and no prefix,
// or the same family.
func relatedFamilies(a, b string) bool {
	plain := func(f string) bool { return f == "" || f == "x" }
	return a == b || plain(a) && plain(b)
}

// merge unites the families that describe one limit. Limits of a gateway and of an
// application stay separate unless their values agree.
func (s *reading) merge() {
	for i := 0; i < len(s.groups); i++ {
		for j := i + 1; j < len(s.groups); j++ {
			if a, b := s.groups[i], s.groups[j]; a.sameLimit(b) {
				a.mergeFrom(b)
				s.groups = slices.Delete(s.groups, j, j+1)
				j--
			}
		}
	}
}

func (g *group) sameLimit(o *group) bool {
	a, b := &g.Limit, &o.Limit
	same := func(a, b Amount) bool { return !a.Known || !b.Known || a.N == b.N }
	switch {
	case g.family == o.family, a.Unit != b.Unit, a.Scope != b.Scope, a.Bucket != b.Bucket, a.Other != b.Other:
		return false
	case !same(a.Limit, b.Limit), !same(a.Remaining, b.Remaining):
		return false
	case a.Window > 0 && b.Window > 0 && a.Window != b.Window:
		return false
	case !a.Reset.IsZero() && !b.Reset.IsZero() && a.Reset.Sub(b.Reset).Abs() > minSkew:
		return false
	case g.dim == o.dim && relatedFamilies(g.family, o.family): // each may have values that the other lacks
		return true
	case !a.Limit.Known || !b.Limit.Known:
		return false
	case g.dim == o.dim:
		return true
	}
	return (g.dim == "" || o.dim == "") && a.Remaining.Known && b.Remaining.Known
}

func (g *group) mergeFrom(o *group) {
	a, b := &g.Limit, &o.Limit
	a.Limit, a.Remaining, a.Used = cmp.Or(a.Limit, b.Limit), cmp.Or(a.Remaining, b.Remaining), cmp.Or(a.Used, b.Used)
	if (a.Reset.IsZero() || !a.Relative && b.Relative) && !b.Reset.IsZero() {
		a.Reset, a.Resolution, a.Relative, a.Skew = b.Reset, b.Resolution, b.Relative, b.Skew
	}
	a.Next = cmp.Or(a.Next, b.Next)
	a.Window, a.Rate = max(a.Window, b.Window), max(a.Rate, b.Rate)
	a.Name = cmp.Or(a.Name, b.Name)
}
