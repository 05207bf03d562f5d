package policy

import (
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/abide-proxy/abide/learn"
)

// Site is one rule of sites:, which hosts it is about and what holds there.
type Site struct {
	Name  string // empty unless the rule says
	Hosts []Pattern
	Group string // host | domain | rule: what shares one budget

	Pool     string
	Insecure bool           // the pool's tokens may go over plain http
	Limits   []Limit        // the pool's own stand behind the rule's
	Learn    bool           // limits are learned from what the site answers
	Dialect  *learn.Dialect // the operator's own, nil for none
	Priority int
	Robots   bool
	Coalesce bool

	Backends []Backend // who answers instead of the host
	Balance  string    // adaptive | round-robin | least-loaded
	Sticky   bool      // a client stays with its backend while that one is healthy
	Outage   string    // share | strict | open; what to do while the store is away

	Line int // in the file

	outage bool // the rule says it
	learn  bool // the rule says learn: true
}

// NeedsRequests tells whether the rule can only be kept by seeing requests, so
// that intercept: auto opens https there.
func (s *Site) NeedsRequests() bool { return len(s.needs()) > 0 }

// needs are the keys of the rule that can only be kept by seeing requests.
func (s *Site) needs() []string {
	var keys []string
	for _, one := range []struct {
		key string
		set bool
	}{
		{limitsIn(s.Limits), needRequests(s.Limits)},
		{"backends", len(s.Backends) > 0},
		{"coalesce", s.Coalesce},
		{"robots", s.Robots},
		{"pool", s.Pool != ""},
	} {
		if one.set {
			keys = append(keys, one.key)
		}
	}
	return keys
}

func needRequests(limits []Limit) bool {
	for _, l := range limits {
		if l.NeedsRequests() {
			return true
		}
	}
	return false
}

// limitsIn is what limits are called of which some can only be kept by seeing
// requests.
func limitsIn(limits []Limit) string {
	for _, l := range limits {
		if !l.NeedsRequests() {
			return "limits other than of bytes"
		}
	}
	return "limits"
}

// OutageOf is what becomes of a limit of the rule while a shared store is away:
// share, strict or open. A token's limits are always strict: whose account it is would
// rather wait than be blocked. Those of a day or longer are, unless the rule says
// otherwise: what is too much of them cannot be made good soon. A nil rule is that of
// sites without one.
func (s *Site) OutageOf(l *Limit) string {
	switch {
	case l.By == "token", l.long() && (s == nil || !s.outage):
		return "strict"
	case s == nil:
		return "share"
	}
	return s.Outage
}

// Title is the rule's name, or its first pattern.
func (s *Site) Title() string {
	if s.Name != "" || len(s.Hosts) == 0 {
		return s.Name
	}
	return s.Hosts[0].String()
}

// MaySign tells whether a token of the rule's pool may go to a target that the rule
// matches: to https on port 443, to any other port that the rule names, and to
// plain http (port 80) where the rule says insecure.
func (s *Site) MaySign(t Target) bool {
	switch {
	case s.Pool == "" || t.Scheme != "https" && (t.Scheme != "http" || !s.Insecure):
		return false
	case t.UsualPort():
		return true
	}
	for _, one := range s.Hosts {
		if one.Port == t.Port && one.Matches(t.Host, t.Port) {
			return true
		}
	}
	return false
}

// Match is what the rules say about a target. Site names what shares one budget;
// Rule is nil where no rule matches. Learn tells whether limits are learned there.
type Match struct {
	Site  string
	Rule  *Site
	Learn bool
}

// Match finds the first rule that matches. It costs one map access per label of
// the host however many rules there are, and does not allocate unless the port
// is unusual.
func (p *Policy) Match(t Target) Match {
	i := p.index.find(t.Host, t.Port)
	if i == none {
		return Match{Site: hostSite(t), Learn: p.Defaults.Learn}
	}
	rule := &p.Sites[i]
	switch rule.Group {
	case "rule":
		return Match{Site: rule.Title(), Rule: rule, Learn: rule.Learn}
	case "domain":
		if strings.IndexByte(t.Host, ':') < 0 && !endsInNumber(t.Host) {
			if domain, err := publicsuffix.EffectiveTLDPlusOne(t.Host); err == nil {
				return Match{Site: domain, Rule: rule, Learn: rule.Learn}
			}
		}
		// An address, or a public suffix itself, has no domain above it.
	}
	return Match{Site: hostSite(t), Rule: rule, Learn: rule.Learn}
}

func hostSite(t Target) string {
	if t.Port == 80 || t.Port == 443 {
		return t.Host
	}
	return t.HostPort()
}

// Intercepts tells whether https to host and port is opened to see its requests.
// The limits of defaults open nothing: they hold for the requests that are seen
// anyway.
func (p *Policy) Intercepts(host string, port uint16) bool {
	switch p.Intercept.Mode {
	case "all":
		return true
	case "auto":
		i := p.index.find(host, port)
		return i != none && p.Sites[i].NeedsRequests()
	case "listed":
		for _, one := range p.Intercept.Patterns {
			if one.Matches(host, port) {
				return true
			}
		}
	}
	return false
}

// InterceptNames are the names that a CA may be constrained to, since nothing
// else is intercepted: example.com stands for itself and what is below it,
// addresses are written as such. nil means that any name may be intercepted, an
// empty slice that none is.
func (p *Policy) InterceptNames() []string {
	if p.opensAny() {
		return nil
	}
	var patterns []Pattern
	switch p.Intercept.Mode {
	case "auto":
		for i := range p.Sites {
			if p.Sites[i].NeedsRequests() {
				patterns = append(patterns, p.Sites[i].Hosts...)
			}
		}
	case "listed":
		patterns = p.Intercept.Patterns
	}
	names := []string{}
	seen := map[string]bool{}
	for _, one := range patterns {
		if one.All {
			return nil
		}
		if !seen[one.Host] {
			seen[one.Host] = true
			names = append(names, one.Host)
		}
	}
	return names
}
