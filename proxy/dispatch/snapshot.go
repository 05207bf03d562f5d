package dispatch

import (
	"context"
	"net"
	"net/netip"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/tokens"
)

// Snapshot is what one loading of the configuration made. A request keeps the one
// that it started with.
type Snapshot struct {
	policy *policy.Policy
	plans  map[*policy.Site]*plans.Plan // :: rule → its limits; nil → those of sites that no rule names
	pools  pools
	own    map[string]*plans.Plan // :: site → that of limits which were set while abide runs
	made   uint64                 // the generation of those limits, in the queue

	activity *sitelog.Log // the server's
	clock    clock.Clock
	*outbound
}

// planOf is what holds for a site that a rule names, or none.
func (st *Snapshot) planOf(site string, rule *policy.Site) *plans.Plan {
	if len(st.own) > 0 {
		if p := st.own[site]; p != nil {
			return p
		}
	}
	return st.plans[rule]
}

// Policy is the configuration.
func (st *Snapshot) Policy() *policy.Policy { return st.policy }

// Debugs tells whether each decision about a request has a line in the log.
func (st *Snapshot) Debugs() bool { return st.activity.Debugs() }

// Upstream is what reaches sites.
func (st *Snapshot) Upstream() *upstream.Transport { return st.upstream }

// Dialer opens connections to sites.
func (st *Snapshot) Dialer() *upstream.Dialer { return st.dialer }

// Pool is the pool with a name; nil if there is none.
func (st *Snapshot) Pool(name string) *tokens.Pool { return st.pools[name] }

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
