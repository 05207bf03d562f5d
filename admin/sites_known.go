package admin

import (
	"context"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// recordedFor is how far back traffic makes a site known.
const recordedFor = 30 * 24 * time.Hour

// Recorded is what was recorded of a site in the last 30 days.
type Recorded struct {
	Requests int64 `json:"requests"`
	In       int64 `json:"bytes_received"`
	Out      int64 `json:"bytes_sent"`
}

// addKnown adds the sites that are known although no request has come since the
// start: those that a rule names, those whose traffic was recorded, and those of which
// something was learned. Only name is added, unless it is "".
func (d *desk) addKnown(ctx context.Context, name string, all map[string]*siteNow) {
	p := d.Policy()
	add := func(site string) *siteNow {
		if name != "" && site != name {
			return nil
		}
		if s := all[site]; s != nil || len(all) >= mostSites {
			return s
		}
		limits, set := d.holdFor(site)
		all[site] = &siteNow{siteStatus: siteStatus{Name: site}, Set: set, Limits: unusedLimits(p, site, limits)}
		return all[site]
	}
	for _, site := range p.SiteNames(mostSites) {
		add(site)
	}
	if d.Learned != nil {
		for _, site := range d.Learned() {
			add(site)
		}
	}
	if d.Bandwidth == nil {
		return
	}
	now := time.Now()
	recorded, err := d.Bandwidth(ctx, name, now.Add(-recordedFor), now, 0)
	if err != nil {
		return // a state file that fails is told by /readyz, and hides no site that runs
	}
	for _, one := range recorded {
		if s := add(one.Site); s != nil {
			s.Recorded = &Recorded{one.Requests, one.In, one.Out}
		}
	}
}

// unusedLimits are the limits of a site that nobody has taken from since the start. A
// limit of a store that others share may be used by them, so nobody knows what is left.
func unusedLimits(p *policy.Policy, site string, limits []policy.Limit) []SiteLimit {
	var list []SiteLimit
	add := func(limits []policy.Limit, of string) {
		for i := range limits {
			l := &limits[i]
			one := SiteLimit{Site: site, Limit: l.Title(), Of: of, Amount: l.Amount, Left: l.Amount, Unit: string(l.Unit)}
			if l.As == policy.AsBucket {
				one.Left = l.Burst
			}
			if l.As != policy.AsConcurrency && l.As != policy.AsAdaptive {
				one.Per = l.Per.String()
				one.Shared = p.Store.Shared() && l.Shared()
				one.Kept = p.Data != "none" && !p.Store.Shared()
			}
			if one.Shared || l.As == policy.AsAdaptive {
				one.Left = -1
			}
			list = append(list, one)
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
