package learn

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// lesson makes the lesson of all groups and hints.
func (s *reading) lesson(status int, found *finding, dialects []*Dialect) Lesson {
	var l Lesson
	binding := s.binding()
	l.Throttled = s.isRefusal(status, found, dialects)
	l.Limits = slices.Grow(l.Limits, len(s.groups)) // nil: there are none
	for _, g := range s.groups {
		l.Limits = append(l.Limits, g.Limit)
		l.Concurrency = l.Concurrency || g.marker
	}
	if found != nil && l.Throttled {
		l.Permanent, l.Reason, l.Lock = found.Permanent, found.Reason, found.Lock
		l.Concurrency = l.Concurrency || found.Concurrency
		l.Overload, l.Block = found.Overload, found.Block && !s.json
	}
	l.Overload = l.Overload || status == 529
	if binding != nil {
		l.Scope, l.Bucket = max(binding.Scope, Token), binding.Bucket
		if binding.Unit.countsRequests() {
			l.Limit, l.Remaining = binding.Limit.Limit, binding.Remaining
			l.Reset, l.Window = binding.Reset, binding.Window
		}
		n := slices.Index(s.groups, binding)
		l.Limits[0], l.Limits[n] = l.Limits[n], l.Limits[0]
	}
	if len(l.Limits) > 0 {
		l.Scope = max(l.Scope, Token)
	}
	s.scope(&l, status, found, dialects)
	s.retryAt(&l, status, found, binding)
	l.Block = l.Block && l.RetryAt.IsZero()
	return l
}

// isRefusal tells whether the response is a refusal.
func (s *reading) isRefusal(status int, found *finding, dialects []*Dialect) bool {
	if alwaysRefusal(status) || status == 529 {
		return true
	}
	if found != nil {
		return !found.Fine && !found.Hint
	}
	spent := slices.ContainsFunc(s.groups, func(g *group) bool { return g.usedUp() })
	switch status {
	case 418, 503:
		return s.hints.precise.is|s.hints.in.is|s.hints.after.is|s.hints.vendor.is != notANumber // there is any retry time
	case 403:
		return spent || s.hints.namesFutureTime()
	case 400:
		return s.hints.namesFutureTime()
	}
	return slices.ContainsFunc(dialects, func(d *Dialect) bool { return slices.Contains(d.Statuses, status) }) && (spent || s.hints.namesFutureTime())
}

// binding is the limit that binds first: of those with nothing left the one that resets
// last, otherwise the one with the least left.
func (s *reading) binding() *group {
	var best *group
	for _, g := range s.groups {
		if !g.Other && (best == nil || s.before(g, best)) {
			best = g
		}
	}
	return best
}

func (s *reading) before(a, b *group) bool {
	if x, y := a.Unit.countsRequests(), b.Unit.countsRequests(); x != y {
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

func (g *group) exhausted() bool { return g.usedUp() || g.status == "rejected" && !g.Other }

// end returns the time at which a limit is available again; if the response does not tell it, the latest
// possible time.
func (s *reading) end(g *group) time.Time {
	if g.Reset.IsZero() {
		return s.clock.now.Add(g.Window)
	}
	return g.Reset
}

// scope sets the lesson's scope: by the body, the status, the labels, or else the binding
// limit.
func (s *reading) scope(l *Lesson, status int, found *finding, dialects []*Dialect) {
	for _, d := range dialects {
		l.Documented = max(l.Documented, d.Scope)
	}
	if l.Throttled {
		l.Scope = max(l.Scope, Token)
	}
	// An action names the bucket only if no other header does.
	slices.SortStableFunc(s.labels, func(a, b label) int {
		return cmp.Compare(strings.Index(a.kind, "action"), strings.Index(b.kind, "action"))
	})
	s.perAddress(l)
	for _, one := range s.labels {
		l.Concurrency = l.Concurrency || l.Throttled && strings.HasSuffix(one.value, "-concurrency")
		scope, name := one.scopeAndBucket()
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

// perAddress reads a pair of labels that say that a named bucket is that of an address: then
// all tokens count together in the bucket.
func (s *reading) perAddress(l *Lesson) {
	name, address := "", false
	for _, one := range s.labels {
		scope, bucket := one.scopeAndBucket()
		address = address || scope == Site
		if scope == Route && bucket != "" {
			name = bucket
		}
	}
	if name == "" || !address || len(l.Limits) == 0 {
		return
	}
	for n := range l.Limits {
		if limit := &l.Limits[n]; limit.Scope == None && limit.Bucket == "" {
			limit.Scope, limit.Bucket = Site, name
		}
	}
	s.labels = slices.DeleteFunc(s.labels, func(item label) bool {
		scope, _ := item.scopeAndBucket()
		return scope == Site
	})
}

// scopeAndBucket is the scope that a label implies, and the bucket that it names.
func (l *label) scopeAndBucket() (Scope, string) {
	switch l.kind {
	case "name", "bucket", "resource", "action":
		name, scope := bucketOf(l.value)
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
	for _, one := range scopeWords {
		if strings.Contains(value, one.word) {
			return one.scope, ""
		}
	}
	if value == "ip" {
		return Site, ""
	}
	return None, ""
}

// scopeWords are words in labels that imply a scope.
var scopeWords = []struct {
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

// shortWindow is the longest window that is waited for as a whole if its reset is unknown.
const shortWindow = 5 * time.Minute

// retryAt sets when the next request may be sent: after a refusal, and when the last unit
// is used.
func (s *reading) retryAt(l *Lesson, status int, found *finding, binding *group) {
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
		given = false // the hint is about this resource only
	}
	if given && hint.is == good && hint.ahead <= 0 && spent && announced.After(now) {
		given = false
	}
	l.Named = given
	switch {
	case given && hint.is == unbelievable:
		l.RetryAt = now.Add(unbelievableHold)
	case given && !hint.at.After(now):
		l.RetryAt = now.Add(minHold)
	case given:
		l.RetryAt = hint.at
	case announced.IsZero():
	case !announced.After(now):
		l.RetryAt = now.Add(minHold)
	default:
		l.RetryAt = announced
	}
}

// announced returns the time at which the announced limits allow the next request: the latest reset of the
// used-up limits. If none of them explains a refusal, limits with unknown remaining units
// count, too.
func (s *reading) announced(refused, all bool, binding *group) time.Time {
	var at time.Time
	why := func(g *group) {
		switch {
		case !g.Next.IsZero():
			at = status.Later(at, g.Next)
		case !g.Reset.IsZero():
			at = status.Later(at, g.Reset)
		case g.Rate > 0 && 1/g.Rate <= maxAhead.Seconds():
			at = status.Later(at, s.clock.now.Add(time.Duration(float64(time.Second)/g.Rate)))
		case g.Window > 0 && g.Window <= shortWindow && (g.exhausted() || len(s.groups) == 1):
			at = status.Later(at, s.clock.now.Add(g.Window))
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
			if !g.Remaining.Known && g.Unit.consumed() && !g.Other && g.status != "allowed" && (none || !g.Reset.IsZero()) {
				why(g)
			}
		}
	}
	return at
}
