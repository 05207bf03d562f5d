package policy

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
			port := one.Port
			if port == 0 {
				port = 443
			}
			add(r.Match(Target{Scheme: "https", Host: one.Host, Port: port}).Site)
		}
	}
	return names
}
