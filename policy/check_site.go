package policy

import (
	"fmt"
	"slices"
)

// checkSites checks rules together with the rest of the configuration.
func (l *loading) checkSites(p *Policy) {
	var opened cover
	for i, one := range p.Intercept.Patterns {
		opened.add(one, i)
	}
	for i := range p.Sites {
		s := &p.Sites[i]
		key := fmt.Sprintf("sites[%d].", i)
		if _, said := l.places[key+"learn"]; !said {
			s.Learn = p.Defaults.Learn
		}
		if s.Dialect != nil && !s.Learn {
			l.contradict(key+"dialect", "says how to read limits, but none are learned here; write learn: true in the rule, or leave the dialect out")
		}
		if s.Pool != "" && len(s.Hosts) > 0 && len(s.Backends) == 0 {
			l.checkPooled(p, s, &opened, key+"pool")
		}
	}
}

// checkPooled refuses a pool whose tokens could not go anywhere: the https in
// which the requests are is not opened, or there is no https.
func (l *loading) checkPooled(p *Policy, s *Site, opened *cover, key string) {
	if i := slices.IndexFunc(s.Hosts, p.plain); i >= 0 && !s.Insecure {
		l.contradict(key, "puts its tokens into requests, but none goes over plain http, by which alone %s can be reached; write insecure: true if everybody on the way may read them, or name another port%s", s.Hosts[i], p.openable(s.Hosts[i]))
		return
	}
	switch p.Intercept.Mode {
	case "none":
		if !s.plainOnly(p) {
			l.contradict(key, "puts its tokens into requests, which nobody sees inside of https with intercept: none; write intercept: auto, or a list that has %s", s.Hosts[0])
		}
	case "listed":
		for _, one := range s.Hosts {
			if one.All || p.plain(one) {
				continue
			}
			tls := one
			if tls.Port == 0 {
				tls.Port = 443 // tokens are only sent to named ports
			}
			if _, ok := opened.by(tls); !ok {
				l.contradict(key, "puts its tokens into requests, which nobody sees inside of https to %s; add it to intercept, or write intercept: auto", one)
				return
			}
		}
	}
}

// complete gives rules the limits of their pools.
func (l *loading) complete(p *Policy) {
	for i := range p.Sites {
		s := &p.Sites[i]
		pool := p.Pool(s.Pool)
		if pool == nil {
			continue
		}
		for j := range pool.Limits {
			shared := &pool.Limits[j]
			if !slices.ContainsFunc(s.Limits, func(written Limit) bool { return written.Title() == shared.Title() }) {
				s.Limits = append(s.Limits, *shared)
			}
		}
	}
}

// openable is what would let https go to a port.
func (p *Policy) openable(pattern Pattern) string {
	if pattern.Port == 80 {
		return ""
	}
	return fmt.Sprintf(", or add %d to egress.ports", pattern.Port)
}
