package policy

import (
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
