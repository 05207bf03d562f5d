package budget

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// outages are the rules for when a store is away, by their words in the configuration.
var outages = map[string]lease.Outage{"share": lease.Share, "strict": lease.Strict, "open": lease.Open}

// OutageOf is the configured outage rule of a site.
func OutageOf(rule *policy.Site) lease.Outage {
	if rule == nil {
		return lease.Share
	}
	return outages[rule.Outage]
}

// Meters makes the meters of a limit persistent or shared: see queue.Limit. It is nil for a
// limit that is neither.
func (k *Keeper) Meters(rule *policy.Site, l *policy.Limit, spec *limit.Spec) queue.MeterSource {
	switch {
	case k == nil, !spec.Traits().Windowed:
		return nil // counts requests in flight only, or is learned again
	case k.shared && !spec.Shareable():
		return nil
	}
	return meterSource{k, outages[rule.OutageOf(l)]}
}

// meterSource makes the meters of a limit under an outage rule.
type meterSource struct {
	keeper *Keeper
	outage lease.Outage
}

func (meterSource) NewMeter() limit.Meter { return nil } // the limit has a Spec

func (s meterSource) External(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	k := s.keeper
	switch {
	case !k.names.Lasting(at.Key):
		return nil
	case k.shared:
		return k.Account(site).Shared(k.key(site, at), spec, s.outage)
	}
	return k.durable(site, at, spec, m)
}

// durable makes a meter that outlives the process: it continues from the store's state, or
// from the state of limits that its limit replaces.
func (k *Keeper) durable(site string, at queue.Scope, spec limit.Spec, m limit.Meter) limit.Meter {
	now, key := time.Now(), k.key(site, at)
	was, known := k.restored.take(site, key)
	carried := !m.Idle(now) // it has the takes of a replaced limit
	if !carried {
		if list := k.restored.spentBefore(site, key, was.At, k.sites.HasLimit); len(list) > 0 {
			if meter, err := limit.Carry(now, list, spec); err == nil {
				m, carried = meter, true
			}
		}
	}
	if known && !carried {
		if err := lease.Restore(now, spec, m, was.State, was.Ahead); err != nil {
			k.log.Warnf("what %s had used of %q before the restart is not understood: %v", site, at.Limit, err)
		}
		k.restored.setLeft(site, at, m.Left(now))
	}
	kept := k.Account(site).Joint(key, spec, m, was.From)
	if carried || known && !m.Idle(now) { // the stored state is of another limit, or of another clock
		kept.(interface{ Lost(now time.Time) }).Lost(now)
	}
	return kept
}
