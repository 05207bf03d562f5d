package policy

import (
	"fmt"
	"slices"
)

// warnOfUnread tells which rules and defaults have no effect on https that passes
// unread: those that need no request to be read by themselves, so that no https is
// opened for them.
func (p *Policy) warnOfUnread(warn func(format string, args ...any)) {
	if p.Intercept.Mode == "all" || len(p.Access.Clients) > 0 && !slices.ContainsFunc(p.Access.Clients, func(c Client) bool { return !c.OpensAll }) {
		return
	}
	remedy := `start the crawler with "abide run", set its environment with eval "$(abide env)"`
	if p.Open.Off {
		remedy = `start the crawler with "abide run", leave out listen_open: off`
		if p.Intercept.Mode == "none" {
			remedy = "leave out intercept: none"
		}
	}
	var opened cover
	for i, one := range p.Intercept.Patterns {
		opened.add(one, i)
	}
	var rules []string
	for i := range p.Sites {
		if s := &p.Sites[i]; s.unreadByRule() && s.passesUnread(p, &opened) {
			rules = append(rules, fmt.Sprintf("sites[%d] (%s)", i, s.Title()))
		}
	}
	switch {
	case len(rules) == 1:
		warn("%s has no effect on https that passes unread, as to its hosts at %s with intercept: %s: nothing is learned or held back there; %s, give the rule limits, or write intercept: all", rules[0], p.Listen, p.Intercept.text(), remedy)
	case len(rules) > 1:
		warn("%s have no effect on https that passes unread, as to their hosts at %s with intercept: %s: nothing is learned or held back there; %s, give the rules limits, or write intercept: all", someOf(rules), p.Listen, p.Intercept.text(), remedy)
	}
	if needRequests(p.Defaults.Limits) && !slices.EqualFunc(p.Defaults.Limits, Defaults().Defaults.Limits, sameLimit) {
		warn("defaults.limits have no effect on https that passes unread, as to hosts without a rule at %s with intercept: %s; %s, or write intercept: all", p.Listen, p.Intercept.text(), remedy)
	}
}

// unreadByRule tells whether the rule is about requests, but has nothing for which its
// https is opened.
func (s *Site) unreadByRule() bool {
	return !s.needsRequests() && (s.learn || s.Dialect != nil || s.Priority != defaultPriority || s.Learn && len(s.Limits) == 0)
}

// passesUnread tells whether https to a host of the rule is not opened for everybody.
func (s *Site) passesUnread(p *Policy, opened *cover) bool {
	return slices.ContainsFunc(s.Hosts, func(pattern Pattern) bool {
		_, listed := opened.by(pattern)
		return !listed && !p.plain(pattern)
	})
}

// sameLimit compares what two limits say, wherever they are written.
func sameLimit(a, b Limit) bool {
	a.Line, b.Line = 0, 0
	return a.String() == b.String()
}
