package dispatch

import (
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
)

// overridePlans is overrides.Plans': it makes limits hold that are set at run time.
type overridePlans struct{ *configuration }

// Lock keeps the configuration from being loaded again.
func (c overridePlans) Lock()   { c.changing.Lock() }
func (c overridePlans) Unlock() { c.changing.Unlock() }

// Policy is the configuration that holds.
func (c overridePlans) Policy() *policy.Policy { return c.current.Load().policy }

// Fits answers why a site cannot have limits.
func (c overridePlans) Fits(site string, limits []policy.Limit) error {
	st := c.current.Load()
	_, err := plans.New(st.policy, st.policy.RuleOf(site), limits, c.partsWith(st.pools))
	return err
}

// Apply makes the overrides hold.
func (c overridePlans) Apply() (err error) {
	next := *c.current.Load()
	if next.own, err = c.overridden(&next); err != nil {
		return err
	}
	c.publish(&next)
	return nil
}

// overridden are the plans of the sites whose limits were set at run time. Limits that
// the configuration has no room for any more are not a reason to have none at all.
func (c *configuration) overridden(st *Snapshot) (map[string]*plans.Plan, error) {
	own := map[string]*plans.Plan{}
	for site, set := range c.overrides() {
		rule, limits := st.policy.RuleOf(site), set.Limits
		if limits == nil {
			limits = limitsOf(st.policy, rule)
		}
		p, err := plans.New(st.policy, rule, limits, c.partsWith(st.pools))
		if err != nil {
			c.log.Warnf("the limits that were set for %s at run time do not fit the configuration, whose own hold: %v", site, err)
			if p, err = plans.New(st.policy, rule, limitsOf(st.policy, rule), c.partsWith(st.pools)); err != nil || set.Pause == nil {
				continue
			}
		}
		if set.Pause != nil {
			p.Pause(set.Pause)
		}
		own[site] = p
	}
	return own, nil
}

// limitsOf are the limits that the configuration has for a rule; nil is for sites without one.
func limitsOf(p *policy.Policy, rule *policy.Site) []policy.Limit {
	if rule == nil {
		return p.Defaults.Limits
	}
	return rule.Limits
}
