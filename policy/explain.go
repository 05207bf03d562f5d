package policy

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit/learn"
)

// Explain writes which rule holds for a target and what follows from it, and which limits are not about
// an escaped path other than "". live says that a running proxy tells what becomes of https, so that
// this does not.
func (p *Policy) Explain(w io.Writer, t Target, path string, live bool) {
	said := func(l Limit) string {
		return p.kept(l) + when(path != "" && !l.Covers(l.Method, path), ", not for this path")
	}
	var b parts
	m := p.Match(t)
	target := t.HostPort()
	if t.Scheme != "" {
		target = t.Scheme + "://" + target
	}
	line(&b, "target", "%s", target)
	line(&b, "site", "%s", m.Site)
	limits := p.Defaults.Limits
	if m.Rule == nil {
		describe(&b, "rule", append([]string{"none, so the defaults hold"}, lists.Map(limits, said)...))
	} else {
		limits = m.Rule.Limits
		title := fmt.Sprintf("sites[%d]", p.index.first(Pattern{Host: t.Host, Port: t.Port}))
		if m.Rule.Line > 0 {
			title += fmt.Sprintf(" in line %d", m.Rule.Line)
		}
		if i := slices.IndexFunc(m.Rule.Hosts, func(pattern Pattern) bool { return pattern.matches(t.Host, t.Port) }); i >= 0 {
			title += ", by " + m.Rule.Hosts[i].String()
		}
		line(&b, "rule", "%s", title)
		describe(&b, "hosts", sentences(p.ruleFields(m.Rule, said)))
	}
	p.describeOutage(&b, m.Rule, limits)
	explainKnown(&b, m, limits, t, path)
	if !m.Learn {
		line(&b, "learn", "no limits are learned there")
	}
	p.explainPool(&b, m.Rule, t)
	p.explainClients(&b, t)
	if t.Scheme != "http" && (!live || !p.Egress.Ports.Allows(t.Port)) {
		p.explainConnect(&b, t)
	}
	p.explainWay(&b, t)
	WriteParts(w, b)
}

// explainKnown writes which limits are known of a service, besides those of its rule.
func explainKnown(b *parts, m Match, limits []Limit, t Target, path string) {
	if !m.Learn || LimitRequests(limits) {
		return
	}
	request := learn.Request{Host: t.Host, Path: path}
	if m.Rule != nil {
		request.Dialect = m.Rule.Dialect
	}
	for _, one := range learn.About(request).Limits {
		line(b, "known", "%s, known of this service", KnownLimit(&one).Title())
	}
}

// explainPool writes which tokens a request gets.
func (p *Policy) explainPool(b *parts, rule *Site, t Target) {
	if rule == nil {
		return
	}
	pool := p.Pool(rule.Pool)
	switch {
	case pool == nil:
	case rule.MaySign(t):
		line(b, "pool", "%s: a token goes with each request, as %s", pool.Name, pool.Put)
		line(b, "", "%s", pool.exhaustedText())
	case t.Scheme == "http" && !rule.Insecure:
		line(b, "pool", "%s, but requests get 403, as no token goes over plain http where the rule does not say insecure: true", pool.Name)
	default:
		line(b, "pool", "%s, but requests get 403, as no token goes to port %d, which the rule does not name", pool.Name, t.Port)
	}
}

// explainClients writes which clients are refused there, and what holds for others.
func (p *Policy) explainClients(b *parts, t Target) {
	if why := p.Forbids(nil, t); why != "" {
		line(b, "refused", "with 403: %s", why)
		return
	}
	for i := range p.Access.Clients {
		c := &p.Access.Clients[i]
		if why := p.Forbids(c, t); why != "" {
			line(b, "refused", "with 403: %s", why)
			continue
		}
		describe(b, "client "+c.Name, append(given(c.turn()), lists.Map(c.Limits, Limit.ofClient)...))
	}
}

// explainConnect writes what becomes of https.
func (p *Policy) explainConnect(b *parts, t Target) {
	switch {
	case !p.Egress.Ports.Allows(t.Port):
		line(b, "CONNECT", "refused: egress.ports is %s", p.Egress.Ports)
	case p.opens(t.Host, t.Port):
		line(b, "CONNECT", "intercepted (intercept: %s)", p.Intercept)
	default:
		_, written := p.written["intercept"] // abide run goes by it then
		trusting := and(given(when(!written, "the command of abide run"), when(p.Open.Listen != "", "clients that use "+p.Open.Listen+" (abide env)")))
		unread := fmt.Sprintf("tunnelled unread (intercept: %s)%s", p.Intercept, p.unkept(t))
		describe(b, "CONNECT", given(when(trusting != "", "intercepted for "+trusting), when(trusting != "", "for others ")+unread))
	}
}

// explainWay writes how a request gets there.
func (p *Policy) explainWay(b *parts, t Target) {
	if rule := p.Match(t).Rule; rule != nil && len(rule.Backends) > 0 && (t.Scheme == "http" || p.opens(t.Host, t.Port)) { // abide sees the requests
		for i, one := range rule.Backends {
			const most = 8
			if i == most {
				line(b, "", "or to one of %d more", len(rule.Backends)-most)
				break
			}
			title := ""
			if i == 0 {
				title = "way"
			}
			line(b, title, "to %s: %s", one.String(), p.way(one.Target))
		}
		return
	}
	line(b, "way", "%s", p.way(t))
}

// way describes the path of a connection to a target.
func (p *Policy) way(t Target) string {
	switch to, named := p.Egress.Resolve[t.HostPort()]; {
	case p.Egress.Proxy != nil:
		return "through " + p.Egress.Proxy.Redacted()
	case named:
		return "to " + to + " (egress.resolve)"
	}
	return "direct, to public addresses" + cmp.Or(when(p.Local(), " and those of this machine's networks"), when(len(p.Egress.Allow) > 0, " and "+prefixes(p.Egress.Allow)))
}

// unkept says what a tunnel to a target gets around.
func (p *Policy) unkept(t Target) string {
	rule := p.Match(t).Rule
	switch {
	case rule == nil && needRequests(p.Defaults.Limits):
		return ", so the " + limitsIn(p.Defaults.Limits) + " of defaults do not hold there"
	case rule != nil && rule.needsRequests():
		return ", so " + and(rule.needs()) + " of its rule do not hold there"
	}
	return ""
}
