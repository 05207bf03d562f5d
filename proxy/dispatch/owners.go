package dispatch

import (
	"time"

	"github.com/abide-proxy/abide/policy"
)

// owners says which pool and token a budget of a site is.
type owners struct {
	sites  map[string]string            // :: site → pool
	labels map[string]map[string]string // :: pool → budget → labels
}

// owners are those of the pools of a configuration.
func (st *Snapshot) owners(now time.Time) owners {
	o := owners{map[string]string{}, map[string]map[string]string{}}
	for _, pool := range st.pools.status(now) {
		by := map[string]string{}
		for i := range pool.Tokens {
			t := &pool.Tokens[i]
			if by[t.Budget] != "" {
				by[t.Budget] += ", "
			}
			by[t.Budget] += t.Label
		}
		o.labels[pool.Name] = by
	}
	return o
}

// pool is the name of a site's pool, "" if the site has none.
func (o *owners) pool(p *policy.Policy, site string) string {
	name, known := o.sites[site]
	if known {
		return name
	}
	if rule := p.RuleOf(site); rule != nil {
		name = rule.Pool
	}
	o.sites[site] = name
	return name
}
