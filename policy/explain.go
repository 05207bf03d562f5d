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
	b.say("target", target)
	b.say("site", m.Site)
	limits := p.Defaults.Limits
	if m.Rule == nil {
		b.say("rule", append([]string{"none, so the defaults hold"}, lists.Map(limits, said)...)...)
	} else {
		limits = m.Rule.Limits
		title := fmt.Sprintf("sites[%d]", p.index.first(Pattern{Host: t.Host, Port: t.Port}))
		if m.Rule.Line > 0 {
			title += fmt.Sprintf(" in line %d", m.Rule.Line)
		}
		if i := slices.IndexFunc(m.Rule.Hosts, func(pattern Pattern) bool { return pattern.matches(t.Host, t.Port) }); i >= 0 {
			title += ", by " + m.Rule.Hosts[i].String()
		}
		b.say("rule", title)
		b.say("hosts", sentences(p.ruleFields(m.Rule, said))...)
	}
	b.say("", p.outages(m.Rule, limits)...)
	explainKnown(&b, m, limits, t, path)
	b.say("learn", when(!m.Learn, "no limits are learned there"))
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
		b.say("known", KnownLimit(&one).Title()+", known of this service")
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
		b.say("pool", fmt.Sprintf("%s: a token goes with each request, as %s", pool.Name, pool.Put), pool.exhaustedText())
	case t.Scheme == "http" && !rule.Insecure:
		b.say("pool", pool.Name+", but requests get 403, as no token goes over plain http where the rule does not say insecure: true")
	default:
		b.say("pool", fmt.Sprintf("%s, but requests get 403, as no token goes to port %d, which the rule does not name", pool.Name, t.Port))
	}
}

// explainClients writes which clients are refused there, and what holds for others.
func (p *Policy) explainClients(b *parts, t Target) {
	if why := p.Forbids(nil, t); why != "" {
		b.say("refused", "with 403: "+why)
		return
	}
	for i := range p.Access.Clients {
		c := &p.Access.Clients[i]
		if why := p.Forbids(c, t); why != "" {
			b.say("refused", "with 403: "+why)
			continue
		}
		b.say("client "+c.Name, append([]string{c.turn()}, lists.Map(c.Limits, Limit.ofClient)...)...)
	}
}

// explainConnect writes what becomes of https.
func (p *Policy) explainConnect(b *parts, t Target) {
	switch {
	case !p.Egress.Ports.Allows(t.Port):
		b.say("CONNECT", "refused: egress.ports is "+p.Egress.Ports.String())
	case p.Interception(t.Host, t.Port, false).Open:
		b.say("CONNECT", fmt.Sprintf("intercepted (intercept: %s)", p.Intercept))
	default:
		_, written := p.written["intercept"] // abide run goes by it then
		trusting := and(given(when(!written, "the command of abide run"), when(p.Open.Listen != "", "clients that use "+p.Open.Listen+" (abide env)")))
		unread := fmt.Sprintf("tunnelled unread (intercept: %s)%s", p.Intercept, p.unkept(t))
		b.say("CONNECT", when(trusting != "", "intercepted for "+trusting), when(trusting != "", "for others ")+unread)
	}
}

// explainWay writes how a request gets there.
func (p *Policy) explainWay(b *parts, t Target) {
	if rule := p.Match(t).Rule; rule != nil && len(rule.Backends) > 0 && (t.Scheme == "http" || p.Interception(t.Host, t.Port, false).Open) { // abide sees the requests
		const most = 8
		ways := lists.Map(rule.Backends, func(b Backend) string { return fmt.Sprintf("to %s: %s", b.String(), p.way(b.Target)) })
		if n := len(ways); n > most {
			ways = append(ways[:most], fmt.Sprintf("or to one of %d more", n-most))
		}
		b.say("way", ways...)
		return
	}
	b.say("way", p.way(t))
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
