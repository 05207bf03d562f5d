package dispatch

import (
	"context"
	"net"
	"net/netip"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/tokens"
)

// Snapshot is made by one loading of the configuration. A request holds the snapshot that it
// started with.
type Snapshot struct {
	policy    *policy.Policy
	plans     map[*policy.Site]*plans.Plan // :: rule → its limits; nil → those of sites that no rule names
	pools     pools
	overrides map[string]*plans.Plan // :: site → the plan of limits that were set while abide runs
	clients   map[string]*plans.Plan // :: clientPrefix and name → the limits of a client
	made      uint64                 // the generation of those limits, in the queue

	activity *sitelog.Log // the server's
	clock    clock.Clock
	*outbound
}

// planOf returns the plan of a site that a rule names, or none; nil: nothing holds for the site.
func (st *Snapshot) planOf(site string, rule *policy.Site) *plans.Plan {
	if rule == nil && isOfClient(site) {
		return st.clients[site]
	}
	if len(st.overrides) > 0 {
		if p := st.overrides[site]; p != nil {
			return p
		}
	}
	return st.plans[rule]
}

// Policy returns the configuration.
func (st *Snapshot) Policy() *policy.Policy { return st.policy }

// Debugs reports whether each decision about a request has a line in the log.
func (st *Snapshot) Debugs() bool { return st.activity.Debugs() }

// Upstream returns the transport to sites.
func (st *Snapshot) Upstream() *upstream.Transport { return st.upstream }

// Dialer returns the dialer of connections to sites.
func (st *Snapshot) Dialer() *upstream.Dialer { return st.dialer }

// Pool returns the pool with a name; nil if there is none.
func (st *Snapshot) Pool(name string) *tokens.Pool { return st.pools[name] }

// Forbidden tells why a client may not send requests to a target, nil if it may; see
// policy.Policy.Forbids.
func (st *Snapshot) Forbidden(client *Client, to policy.Target) *problem.Problem {
	if why := st.policy.Forbids(client, to); why != "" {
		return problem.Forbidden.With(why)
	}
	return nil
}

// CheckAddress tells why a tunnel may not go to an address; nil: it may.
func (st *Snapshot) CheckAddress(ip netip.Addr, port uint16) error {
	if st.dialer.Named(ip.String(), port) {
		return nil
	}
	return st.guard.Check(netip.AddrPortFrom(ip, port))
}

// Dial opens the connection of a tunnel, through the next hop where there is one.
func (st *Snapshot) Dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	if st.nextHop != nil {
		return st.nextHop.Tunnel(ctx, host, port)
	}
	return st.dialer.Dial(ctx, host, port)
}

// succession returns the limits that a site has had, and those that it has now and had not.
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

// overridePlans implements overrides.Plans: it makes limits hold that are set at run time.
type overridePlans struct{ *configuration }

// Lock prevents changes of the snapshot.
func (c overridePlans) Lock()   { c.changing.Lock() }
func (c overridePlans) Unlock() { c.changing.Unlock() }

// Policy returns the configuration that holds.
func (c overridePlans) Policy() *policy.Policy { return c.current.Load().policy }

// Fits tells why a site cannot have limits.
func (c overridePlans) Fits(site string, limits []policy.Limit) error {
	st := c.current.Load()
	_, err := plans.New(st.policy, st.policy.RuleOf(site), limits, c.partsWith(st.pools))
	return err
}

// Apply makes the overrides hold.
func (c overridePlans) Apply() (err error) {
	next := *c.current.Load()
	if next.overrides, err = c.overridden(&next); err != nil {
		return err
	}
	c.publish(&next)
	return nil
}

// tunnel is the tag in the queue of a tunnel that waits: the name of its site.
type tunnel string

// limits returns the limits that hold a tunnel: the pause of its site. The requests inside are not
// seen, so no other limit of requests counts them.
func (t tunnel) limits(st *Snapshot) [][]queue.Limit {
	if pause := st.overrides[string(t)].PauseLimit(); pause != nil {
		return [][]queue.Limit{{*pause}}
	}
	return nil
}
