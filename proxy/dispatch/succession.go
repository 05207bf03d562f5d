package dispatch

import "github.com/abide-proxy/abide/limit/queue"

// succession is which limits a site has had, and which it has now that are new.
func succession(old, next *Snapshot, site string) (had, fresh []queue.Limit) {
	before := old.planOf(site, old.policy.RuleOf(site))
	now := next.planOf(site, next.policy.RuleOf(site))
	if now == nil || before == now {
		return nil, nil
	}
	if before != nil {
		had = before.All()
	}
	names := map[string]bool{}
	for _, one := range had {
		names[one.Name] = true
	}
	for _, one := range now.All() {
		if !names[one.Name] && one.Subject != nil {
			fresh = append(fresh, one)
		}
	}
	return had, fresh
}
