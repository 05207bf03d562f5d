package learn

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// lesson sums it up.
func (s *said) lesson(status int, found *finding, dialects []*Dialect) Lesson {
	var l Lesson
	binding := s.binding()
	l.Throttled = s.throttled(status, found, dialects)
	l.Limits = make([]Limit, 0, len(s.groups))
	for _, g := range s.groups {
		l.Limits = append(l.Limits, g.Limit)
		l.Concurrency = l.Concurrency || g.marker
	}
	if found != nil && l.Throttled {
		l.Permanent, l.Lock = found.Permanent, found.Lock
	}
	if binding != nil {
		l.Scope, l.Bucket = max(binding.Scope, Token), binding.Bucket
		if binding.Unit.counts() {
			l.Limit, l.Remaining = binding.Limit.Limit, binding.Remaining
			l.Reset, l.Window = binding.Reset, binding.Window
		}
		for n := range s.groups {
			if s.groups[n] == binding {
				l.Limits[0], l.Limits[n] = l.Limits[n], l.Limits[0]
			}
		}
	}
	if len(l.Limits) == 0 {
		l.Limits = nil
	} else {
		l.Scope = max(l.Scope, Token)
	}
	s.scope(&l, status, found, dialects)
	s.retryAt(&l, status, found, binding)
	return l
}

// throttled says whether the response is a refusal.
func (s *said) throttled(status int, found *finding, dialects []*Dialect) bool {
	if refuses(status) || status == 529 {
		return true
	}
	if found != nil {
		return !found.Fine && !found.Hint
	}
	spent := slices.ContainsFunc(s.groups, func(g *group) bool { return g.spent() })
	switch status {
	case 418, 503:
		return s.hints.given()
	case 403:
		return spent || s.hints.asks()
	case 400:
		return s.hints.asks()
	}
	for _, d := range dialects {
		if slices.Contains(d.Statuses, status) {
			return spent || s.hints.asks()
		}
	}
	return false
}

// binding is the limit that ends first: of those with nothing left the one that
// resets last, else the one with the least left.
func (s *said) binding() *group {
	var best *group
	for _, g := range s.groups {
		if !g.Other && (best == nil || s.before(g, best)) {
			best = g
		}
	}
	return best
}

func (s *said) before(a, b *group) bool {
	if x, y := a.Unit.counts(), b.Unit.counts(); x != y {
		return x
	}
	if x, y := a.exhausted(), b.exhausted(); x || y {
		return x && (!y || s.end(a).After(s.end(b)))
	}
	if x, y := a.Remaining.Known, b.Remaining.Known; x != y {
		return x
	}
	if a.Remaining.Known && a.Remaining.N != b.Remaining.N {
		return a.Remaining.N < b.Remaining.N
	}
	if !a.Remaining.Known && a.Limit.Limit.Known && b.Limit.Limit.Known && a.Limit.Limit.N != b.Limit.Limit.N {
		return a.Limit.Limit.N < b.Limit.Limit.N
	}
	return s.end(a).After(s.end(b))
}

func (g *group) exhausted() bool { return g.spent() || g.status == "rejected" && !g.Other }

// end is when a limit is whole again; where that is not said, the latest that it
// can be.
func (s *said) end(g *group) time.Time {
	if g.Reset.IsZero() {
		return s.clock.now.Add(g.Window)
	}
	return g.Reset
}

// scope says whom it is about: what the body means, what the status does, what
// the server's words do, and else what the binding limit is.
func (s *said) scope(l *Lesson, status int, found *finding, dialects []*Dialect) {
	for _, d := range dialects {
		l.Documented = max(l.Documented, d.Scope)
	}
	if l.Throttled {
		l.Scope = max(l.Scope, Token)
	}
	// An action names a bucket where no header does so more plainly.
	slices.SortStableFunc(s.labels, func(a, b label) int {
		return cmp.Compare(strings.Index(a.kind, "action"), strings.Index(b.kind, "action"))
	})
	for _, one := range s.labels {
		l.Concurrency = l.Concurrency || l.Throttled && strings.HasSuffix(one.value, "-concurrency")
		scope, name := one.means()
		switch {
		case name != "" && l.Bucket == "" && l.Scope != Site && (scope == Route):
			if len(s.groups) > 0 || l.Throttled {
				l.Scope, l.Bucket = Route, name
			}
		case scope == None, name != "":
		case l.Scope == None:
		case scope == Token:
			l.Scope, l.Bucket = Token, ""
		default:
			l.Scope = scope
		}
	}
	switch {
	case l.Throttled && (status == 503 || status == 529 || status == 418):
		l.Scope = Site
	case found != nil && found.Scope != None && (l.Throttled || found.Hint):
		l.Scope = found.Scope
	}
	if l.Scope != Route {
		l.Bucket = ""
	}
	if l.Scope == None || l.Documented == l.Scope {
		l.Documented = None
	}
}

// means is what a label says of whom a limit is about, and the bucket that it
// names.
func (l *label) means() (Scope, string) {
	switch l.kind {
	case "name", "bucket", "resource", "action":
		name, scope := bucket(l.value)
		return scope, name
	case "source":
		if _, err := netip.ParseAddr(l.value); err == nil {
			return Site, ""
		}
		return None, ""
	case "global":
		if strings.EqualFold(l.value, "true") {
			return Token, ""
		}
		return None, ""
	}
	value := strings.ToLower(l.value)
	for _, one := range reasons {
		if strings.Contains(value, one.word) {
			return one.scope, ""
		}
	}
	if value == "ip" {
		return Site, ""
	}
	return None, ""
}

// reasons are the words by which servers say whose limit it is.
var reasons = []struct {
	word  string
	scope Scope
}{
	{"ip-address", Site},
	{"ip_address", Site},
	{"global", Token},
	{"application", Token},
	{"tenant", Token},
	{"endpoint", Route},
	{"method", Route},
	{"burst", Route},
	{"resource", Route},
	{"service", Route},
	{"issue", Route},
	{"shared", Route},
}

// shortWindow is the longest window that is waited for as a whole, when nothing
// says how much of it is over.
const shortWindow = 5 * time.Minute

// retryAt says when the next request may go: after a refusal, and when the last
// unit is spent.
func (s *said) retryAt(l *Lesson, status int, found *finding, binding *group) {
	spent := slices.ContainsFunc(s.groups, func(g *group) bool { return g.exhausted() })
	now := s.clock.now
	if found != nil {
		s.hints.body.add(found.wait.moment, found.wait.is)
		spent = spent || found.Spent && binding != nil
	}
	announced := s.announced(l.Throttled, found != nil && found.Spent, binding)
	hint, given := s.hints.best()
	switch {
	case l.Permanent:
		return
	case l.Throttled:
	case s.hints.body.is == good && (found == nil || found.Hint || found.Refusal == nil):
		given, hint = true, s.hints.body
	case !spent:
		return
	case status >= 300 || status == 202 || given && (hint.is != good || hint.ahead <= 0):
		given = false // about this resource, or about nothing
	}
	if given && hint.is == good && hint.ahead <= 0 && spent && announced.After(now) {
		given = false
	}
	switch {
	case given && hint.is == unbelievable:
		l.RetryAt = now.Add(heldBlind)
	case given && !hint.at.After(now):
		l.RetryAt = now.Add(leastHold)
	case given:
		l.RetryAt = hint.at
	case announced.IsZero():
	case !announced.After(now):
		l.RetryAt = now.Add(leastHold)
	default:
		l.RetryAt = announced
	}
}

// announced is when the limits say that it goes on: the latest of those that are
// spent. On a refusal that none of them explains, those count of which it is not
// known what is left.
func (s *said) announced(refused, all bool, binding *group) time.Time {
	var at time.Time
	later := func(t time.Time) {
		if !t.IsZero() && t.After(at) {
			at = t
		}
	}
	why := func(g *group) {
		switch {
		case !g.Next.IsZero():
			later(g.Next)
		case !g.Reset.IsZero():
			later(g.Reset)
		case g.Rate > 0 && 1/g.Rate <= horizon.Seconds():
			later(s.clock.now.Add(time.Duration(float64(time.Second) / g.Rate)))
		case g.Window > 0 && g.Window <= shortWindow && (g.exhausted() || len(s.groups) == 1):
			later(s.clock.now.Add(g.Window))
		}
	}
	none := true
	for _, g := range s.groups {
		short := refused && !g.Next.IsZero() && (!g.Remaining.Known || g.cost.N > g.Remaining.N)
		if g.exhausted() || all && g == binding || short && !g.Other {
			none = none && !g.exhausted()
			why(g)
		}
	}
	if at.IsZero() && refused {
		for _, g := range s.groups {
			if !g.Remaining.Known && g.Unit.spends() && !g.Other && g.status != "allowed" && (none || !g.Reset.IsZero()) {
				why(g)
			}
		}
	}
	return at
}
