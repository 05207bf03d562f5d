package policy

import "slices"

// opens tells whether https to host and port is intercepted.
// The limits of defaults open nothing: they hold for the requests that are seen
// anyway.
func (p *Policy) opens(host string, port uint16) bool {
	switch p.Intercept.Mode {
	case "all":
		return true
	case "auto":
		i := p.index.find(host, port)
		return i != none && p.Sites[i].needsRequests()
	case "listed":
		for _, one := range p.Intercept.Patterns {
			if one.matches(host, port) {
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
			if p.Sites[i].needsRequests() {
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

// Interception says what becomes of a CONNECT's https: it is opened, so that its
// requests are read, or it passes unread.
type Interception struct {
	Open bool
	// Needed is set where a rule needs to read the requests or intercept lists the
	// host: a client that refuses the certificate is not let through unread.
	Needed bool
	Why    Unread // of https that is not opened
}

// Interception decides on https to a host. trusting says that the client trusts the
// CA: by the port, the user name or the client that it uses.
func (p *Policy) Interception(host string, port uint16, trusting bool) Interception {
	var rule *Site
	if i := p.index.find(host, port); i != none {
		rule = &p.Sites[i]
	}
	needed := rule != nil && rule.needsRequests()
	if configured := p.opens(host, port); configured || trusting {
		return Interception{Open: true, Needed: needed || configured && p.Intercept.Mode == "listed"}
	}
	switch {
	case p.Intercept.Mode == "none":
		return Interception{Why: UnreadNone}
	case rule != nil && !rule.Learn && !needed:
		return Interception{Why: UnreadExcluded}
	case p.Intercept.Mode == "listed":
		return Interception{Why: UnreadUnlisted}
	}
	return Interception{Why: UnreadAuto}
}

// opensAny tells whether https to any host may be intercepted. A CA that the operator gives
// need not vouch for every host because of a listener by default.
func (p *Policy) opensAny() bool {
	return p.Intercept.Mode == "all" || !p.Open.Off && !(p.Open.Default && p.CA.Given()) || slices.ContainsFunc(p.Access.Clients, func(c Client) bool { return c.OpensAll })
}

// plain tells whether a host can be reached by plain http only.
func (p *Policy) plain(pattern Pattern) bool {
	return pattern.Port == 80 || pattern.Port != 0 && !p.Egress.Ports.Allows(pattern.Port)
}

// plainOnly tells whether all targets of the rule use plain http.
func (s *Site) plainOnly(p *Policy) bool {
	return !slices.ContainsFunc(s.Hosts, func(pattern Pattern) bool { return !p.plain(pattern) })
}
