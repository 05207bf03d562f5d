package dispatch

import (
	"strings"
	"sync/atomic"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/shard"
	"github.com/abide-proxy/abide/tokens"
)

// stablePrefix begins the names of tokens' budgets that mean the same in every process.
const stablePrefix = "#"

// siteBudgets is what the present configuration says of the budgets of sites, for package
// budget.
type siteBudgets struct{ current *atomic.Pointer[Snapshot] }

// HasLimit tells whether a site has a limit of that name now.
func (s siteBudgets) HasLimit(site, name string) bool {
	st := s.current.Load()
	return st.planOf(site, st.policy.RuleOf(site)).Called(name) != nil
}

// Owned tells whether all of a site is this instance's, as shard in the configuration says.
func (s siteBudgets) Owned(site string) bool {
	st := s.current.Load()
	return st != nil && shard.OwnsSite(st.policy, site)
}

// Lasting tells whether a key means anything to another process. Those of clients' own
// credentials are made anew in each, so that no name leads back to a credential.
func (siteBudgets) Lasting(key string) bool { return !strings.HasPrefix(key, ownPrefix) }

// Stable is the name of a slot's key in every process.
func (s siteBudgets) Stable(site, key string) string {
	if pool := s.pool(site); pool != nil && key != "" {
		if name := pool.Stable(key); name != "" {
			return stablePrefix + name
		}
	}
	return key
}

// Local is the reverse: the keys that a name has in this process, for the slots of a
// limit. There are none for a token that this process does not have.
func (s siteBudgets) Local(site, limit, name string) []string {
	token, ok := strings.CutPrefix(name, stablePrefix)
	if !ok {
		return []string{name}
	}
	pool := s.pool(site)
	if pool == nil {
		return nil
	}
	var keys []string
	for _, t := range pool.Set().Tokens() {
		switch {
		case pool.Stable(t.Budget()) != token:
		case limit == plans.TokenLimit:
			keys = append(keys, t.Key())
		default:
			return []string{t.Budget()}
		}
	}
	return keys
}

// OfFleet is the stable name of a slot's key, and whether all instances of a fleet have a
// learned limit of that key together.
//
// Without a token a site counts by address, of which each machine has its own unless
// egress.shared says otherwise.
func (s siteBudgets) OfFleet(site, key string) (whose string, ok bool) {
	whose = s.Stable(site, key)
	if strings.HasPrefix(whose, stablePrefix) {
		return whose, true
	}
	byAddress := key == "" || s.pool(site) == nil
	return whose, byAddress && s.current.Load().policy.Egress.Shared
}

// rule is the rule that names a site, nil if none does.
func (s siteBudgets) rule(site string) *policy.Site { return s.current.Load().policy.RuleOf(site) }

// pool is the pool of a site, nil if it has none.
func (s siteBudgets) pool(site string) *tokens.Pool {
	st := s.current.Load()
	if len(st.pools) == 0 {
		return nil
	}
	rule := st.policy.RuleOf(site)
	if rule == nil {
		return nil
	}
	return st.pools[rule.Pool]
}
