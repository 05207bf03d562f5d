package policy

import (
	"cmp"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Match is the result of the rules for a target. Site is the name of the shared budget;
// Rule is nil if no rule matches. Learn tells whether limits are learned there.
type Match struct {
	Site  string
	Rule  *Site
	Learn bool
}

// Match finds the first rule that matches. It costs one map access per label of
// the host however many rules there are, and does not allocate unless the port
// is unusual.
func (r *Rules) Match(t Target) Match {
	i := r.index.find(t.Host, t.Port)
	if i == none {
		return Match{Site: hostSite(t), Learn: r.Defaults.Learn}
	}
	rule := &r.Sites[i]
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

// Pool is the pool with a name, or nil.
func (r *Rules) Pool(name string) *Pool {
	for i := range r.Pools {
		if r.Pools[i].Name == name {
			return &r.Pools[i]
		}
	}
	return nil
}

// RuleOf is the rule that a site's name comes from, nil if there is none.
func (r *Rules) RuleOf(site string) *Site {
	for i := range r.Sites {
		if r.Sites[i].Group == "rule" && r.Sites[i].Title() == site {
			return &r.Sites[i]
		}
	}
	t, err := ParseTarget("https", site)
	if err != nil {
		return nil
	}
	return r.Match(t).Rule
}

// SiteNames are the sites that rules name exactly, in the order of the rules, at most
// so many: a host without *, or a rule whose hosts are one site.
func (r *Rules) SiteNames(most int) []string {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] && len(names) < most {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range r.Sites {
		s := &r.Sites[i]
		if s.Group == "rule" {
			add(s.Title())
			continue
		}
		for _, one := range s.Hosts {
			if one.All || one.Below {
				continue
			}
			add(r.Match(Target{Scheme: "https", Host: one.Host, Port: cmp.Or(one.Port, 443)}).Site)
		}
	}
	return names
}

// index finds the first rule that matches a host and port, in one map access per
// label.
type index struct {
	built bool             // the zero value, of a Policy that was not loaded, has no rules
	exact map[string]ports // canonical host → its rules
	below map[string]ports // what follows "*." → its rules
	all   ports
}

func newIndex(sites []Site) index {
	x := index{built: true, all: ports{any: none}}
	for i := range sites {
		for _, p := range sites[i].Hosts {
			x.add(p, int32(i))
		}
	}
	return x
}

func (x *index) add(p Pattern, rule int32) {
	if p.All {
		x.all = x.all.add(p.Port, rule)
		return
	}
	m := &x.exact
	if p.Below {
		m = &x.below
	}
	if *m == nil {
		*m = map[string]ports{}
	}
	entry, ok := (*m)[p.Host]
	if !ok {
		entry.any = none
	}
	(*m)[p.Host] = entry.add(p.Port, rule)
}

func (x *index) find(host string, port uint16) int32 {
	if !x.built {
		return none
	}
	first := none
	if entry, ok := x.exact[host]; ok {
		first = entry.find(port)
	}
	if len(x.below) > 0 {
		for rest := host; ; {
			dot := strings.IndexByte(rest, '.')
			if dot < 0 {
				break
			}
			rest = rest[dot+1:]
			if entry, ok := x.below[rest]; ok {
				first = min(first, entry.find(port))
			}
		}
	}
	return min(first, x.all.find(port))
}

// ports is the first rule for every port, and the rules for one port each.
type ports struct {
	any int32
	one map[uint16]int32 // port → its first rule
}

const none int32 = 1<<31 - 1

func (p ports) find(port uint16) int32 {
	if rule, ok := p.one[port]; ok {
		return min(p.any, rule)
	}
	return p.any
}

func (p ports) add(port uint16, rule int32) ports {
	if port == 0 {
		p.any = min(p.any, rule)
	} else if p.find(port) > rule {
		if p.one == nil {
			p.one = map[uint16]int32{}
		}
		p.one[port] = rule
	}
	return p
}

// cover finds, for a pattern, the first of the patterns before it that matches
// everything it matches. The zero value has none.
type cover struct {
	index index
	begun bool
}

func (c *cover) add(p Pattern, number int) {
	if !c.begun {
		c.index, c.begun = newIndex(nil), true
	}
	c.index.add(p, int32(number))
}

func (c *cover) by(p Pattern) (int, bool) {
	if !c.begun {
		return 0, false
	}
	find := func(e ports) int32 {
		if p.Port == 0 {
			return e.any // patterns for single ports do not add up to all of them
		}
		return e.find(p.Port)
	}
	first := find(c.index.all)
	if !p.All && !p.Below {
		if entry, ok := c.index.exact[p.Host]; ok {
			first = min(first, find(entry))
		}
	}
	above := p.Host // the part after "*." of patterns that may cover p
	if !p.Below {
		_, above, _ = strings.Cut(above, ".")
	}
	for ; above != ""; _, above, _ = strings.Cut(above, ".") {
		if entry, ok := c.index.below[above]; ok {
			first = min(first, find(entry))
		}
	}
	return int(first), first != none
}
