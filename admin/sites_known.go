package admin

import (
	"context"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// recordedFor is how far back traffic makes a site known.
const recordedFor = 30 * 24 * time.Hour

// addKnown adds the sites that are known although no request has come since the
// start: those that a rule names, and those of which something was learned. Only name is
// added, unless it is "".
func (s *sites) addKnown(name string, all map[string]*status.Site) {
	for _, site := range s.limits.policy().SiteNames(mostSites) {
		s.add(site, name, all)
	}
	for _, site := range s.proxy.LearnedSites(mostSites) {
		s.add(site, name, all)
	}
}

// add adds a site unless it is there. It returns nil if there are too many, or if name is of
// another site.
func (s *sites) add(site, name string, all map[string]*status.Site) *status.Site {
	if name != "" && site != name {
		return nil
	}
	if known := all[site]; known != nil || len(all) >= mostSites {
		return known
	}
	limits, set := s.limits.of(site)
	all[site] = &status.Site{Counts: status.Counts{Name: site}, Set: set, Limits: unusedLimits(s.limits.policy(), site, limits)}
	return all[site]
}

// addRecorded adds recorded traffic, and the sites that had some. Only name is added, unless
// it is "".
func (s *sites) addRecorded(ctx context.Context, name string, all map[string]*status.Site) {
	now := time.Now()
	recorded, err := s.past.Bandwidth(ctx, name, now.Add(-recordedFor), now, 0)
	if err != nil {
		return // a state file that fails is told by /readyz, and hides no site that runs
	}
	for _, one := range recorded {
		if known := s.add(one.Site, name, all); known != nil {
			known.Recorded = &status.Recorded{Requests: one.Requests, In: one.In, Out: one.Out}
		}
	}
}

// unusedLimits are the limits of a site that nobody has taken from since the start. A
// limit of a store that others share may be used by them, so nobody knows what is left.
func unusedLimits(p *policy.Policy, site string, limits []policy.Limit) []status.Limit {
	var list []status.Limit
	add := func(limits []policy.Limit, of string) {
		for i := range limits {
			l := &limits[i]
			limit := status.Limit{Site: site, Limit: l.Title(), Of: of, Amount: l.Amount, Left: l.Amount, Unit: string(l.Unit)}
			if l.Traits().Burst {
				limit.Left = l.Burst
			}
			if l.Traits().Windowed {
				limit.Per = l.Per.String()
				limit.Shared = p.Store.Shared() && l.Shared()
				limit.Kept = p.Data != "none" && !p.Store.Shared()
			}
			if limit.Shared || l.Traits().Adapts {
				limit.Left = -1
			}
			list = append(list, limit)
		}
	}
	rule := p.RuleOf(site)
	if rule == nil || len(rule.Backends) == 0 {
		add(limits, "")
		return list
	}
	for i := range rule.Backends {
		if b := &rule.Backends[i]; b.Own {
			add(b.Limits, b.Name)
		} else {
			add(limits, b.Name)
		}
	}
	return list
}
