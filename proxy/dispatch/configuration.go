package dispatch

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/store/budget/overrides"
	"github.com/abide-proxy/abide/tokens"
)

// configuration makes snapshots of the configuration, and has the current snapshot.
type configuration struct {
	current   atomic.Pointer[Snapshot]
	reloading sync.Mutex // lets one reload wait for another; taken before changing
	changing  sync.Mutex // held while the snapshot changes

	name           string // in Via
	addresses      ownAddresses
	changeUpstream func(*upstream.Transport) http.RoundTripper // nil: it stays as it is
	pools          *poolLoader
	parts          plans.Parts                          // but for the pools
	overrides      func() map[string]overrides.Override // set at run time, by site
	gate           *queue.Gate
	hooks          queue.Hooks // of the gate
	reloaded       func()      // is called after each change
	activity       *sitelog.Log
	clock          clock.Clock
	log            *logrus.Logger

	retired sync.WaitGroup // snapshots that were replaced and still close down
	running context.Context
	stop    context.CancelFunc // ends running
}

// start makes the first snapshot hold.
func (c *configuration) start(p *policy.Policy) error {
	c.running, c.stop = context.WithCancel(context.Background())
	c.addresses.ownStore(p.Store) // before a source of tokens is asked
	out, loaded, err := c.load(p, &Snapshot{})
	if err != nil {
		return err
	}
	st, err := c.newSnapshot(p, &Snapshot{}, out, loaded)
	if err != nil {
		return err
	}
	c.current.Store(st)
	return nil
}

// load reads the tokens of a policy through the outbound that it returns: that of the old
// snapshot, if both policies reach upstreams alike. It changes nothing.
func (c *configuration) load(p *policy.Policy, old *Snapshot) (out *outbound, loaded map[string]*tokens.Loaded, err error) {
	if old.policy != nil && old.policy.Listen == p.Listen && old.policy.Open == p.Open && old.policy.Timeouts == p.Timeouts && old.policy.Bounds == p.Bounds && reflect.DeepEqual(old.policy.Egress, p.Egress) {
		out = old.outbound
		out.upstream.Login.Reset()
	} else if out, err = c.newOutbound(p); err != nil {
		return nil, nil, err
	}
	if loaded, err = c.pools.load(c.running, p, out); err != nil {
		c.discard(out, old)
	}
	return out, loaded, err
}

// discard closes the outbound of a snapshot that was not made, unless it is the old one's.
func (c *configuration) discard(out *outbound, old *Snapshot) {
	if old.outbound != out {
		c.retired.Go(out.close)
	}
}

// newSnapshot makes the snapshot of a policy. Pools of the old snapshot go on.
func (c *configuration) newSnapshot(p *policy.Policy, old *Snapshot, out *outbound, loaded map[string]*tokens.Loaded) (st *Snapshot, err error) {
	defer func() {
		if err != nil {
			c.discard(out, old)
		}
	}()
	st = &Snapshot{policy: p, activity: c.activity, clock: c.clock, outbound: out}
	if st.pools, st.tokens, err = c.pools.take(p, loaded, old.pools); err != nil {
		return nil, err
	}
	if st.plans, err = plans.Make(p, c.partsWith(st.pools)); err != nil {
		return nil, err
	}
	if st.clients, err = clientPlans(p, c.partsWith(st.pools)); err != nil {
		return nil, err
	}
	st.overrides = c.overridden(st)
	return st, nil
}

// partsWith returns the parts of plans, with pools.
func (c *configuration) partsWith(all pools) plans.Parts {
	parts := c.parts
	parts.Pool = func(name string) *tokens.Pool { return all[name] }
	return parts
}

// overridden returns the plans of the sites whose limits were set at run time. Limits that
// the configuration has no room for any more are not a reason to have none at all.
func (c *configuration) overridden(st *Snapshot) map[string]*plans.Plan {
	planned := map[string]*plans.Plan{}
	for site, set := range c.overrides() {
		rule, limits := st.policy.RuleOf(site), set.Limits
		if limits == nil {
			limits = limitsOf(st.policy, rule)
		}
		p, err := plans.New(st.policy, rule, limits, c.partsWith(st.pools))
		if err != nil {
			c.log.WithFields(logrus.Fields{"site": site, "reason": err}).Warnf("the limits that were set for %s at run time do not fit the configuration, whose own hold: %v", site, err)
			if p, err = plans.New(st.policy, rule, limitsOf(st.policy, rule), c.partsWith(st.pools)); err != nil || set.Pause == nil {
				continue
			}
		}
		if set.Pause != nil {
			p.Pause(set.Pause)
		}
		planned[site] = p
	}
	return planned
}

// limitsOf returns the limits that the configuration has for a rule; nil is for sites without one.
func limitsOf(p *policy.Policy, rule *policy.Site) []policy.Limit {
	if rule == nil {
		return p.Defaults.Limits
	}
	return rule.Limits
}

// ErrClosed is the error of a reload after the end.
var ErrClosed = errors.New("abide is stopping")

// reload makes another configuration hold. Requests in flight go on.
func (c *configuration) reload(p *policy.Policy) error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	if c.running.Err() != nil {
		return ErrClosed
	}
	// Only a reload changes the outbound, so that of this snapshot stays until publish.
	out, loaded, err := c.load(p, c.current.Load())
	if err != nil {
		return err
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	old := c.current.Load()
	st, err := c.newSnapshot(p, old, out, loaded)
	if err != nil {
		return err
	}
	c.publish(st)
	c.addresses.ownStore(p.Store)
	if st.outbound != old.outbound {
		c.retired.Go(old.close)
	}
	c.retired.Go(func() { old.pools.close(st.pools) })
	return nil
}

// replan gives all waiting requests the limits of the present tokens.
func (c *configuration) replan() {
	c.changing.Lock()
	defer c.changing.Unlock()
	next := *c.current.Load()
	c.publish(&next)
}

// publish makes a snapshot the current one, and gives all waiting requests its limits.
// changing is held.
func (c *configuration) publish(next *Snapshot) {
	next.made = c.gate.Generation() + 1
	began, old := c.clock.Now(), c.current.Load()
	inherited := func(site string) (_, _ []queue.Limit) { return succession(old, next, site) }
	c.gate.CarryOver(time.Time{}, inherited)
	c.current.Store(next)
	c.gate.Reload(boundsOf(next.policy), c.hooks)
	c.gate.CarryOver(began, inherited)
	c.reloaded()
}

// close ends what reaches upstreams and the pools, and waits for those that were replaced. A
// reload that is under way ends first.
func (c *configuration) close() {
	c.stop()
	c.reloading.Lock()
	defer c.reloading.Unlock()
	c.addresses.lookups.Wait()
	c.retired.Wait()
	c.current.Load().close()
	c.current.Load().pools.close(nil)
}

// boundsOf returns the bounds of the queue, as the operator wrote them.
func boundsOf(p *policy.Policy) queue.Bounds {
	return queue.Bounds{Max: p.Queue.Max, PerSite: p.Queue.PerSite, Wait: p.Queue.Wait, Aging: p.Queue.Aging}
}

// Snapshot is made by one loading of the configuration. A request holds the snapshot that it
// started with.
type Snapshot struct {
	policy    *policy.Policy
	plans     map[*policy.Site]*plans.Plan // :: rule → its limits; nil → those of sites that no rule names
	pools     pools
	tokens    map[string]policy.TokenChange // :: pool → what the loading has changed of its tokens
	overrides map[string]*plans.Plan        // :: site → the plan of limits that were set while abide runs
	clients   map[string]*plans.Plan        // :: policy.ClientSite and name → the limits of a client
	made      uint64                        // the generation of those limits, in the queue

	activity *sitelog.Log // the server's
	clock    clock.Clock
	*outbound
}

// planOf returns the plan of a site that a rule names, or none; nil: nothing holds for the site.
func (st *Snapshot) planOf(site string, rule *policy.Site) *plans.Plan {
	if rule == nil && strings.HasPrefix(site, policy.ClientSite) {
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

// TokenChanges returns what the loading has changed of the tokens of each pool, by its name.
func (st *Snapshot) TokenChanges() map[string]policy.TokenChange { return st.tokens }

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

// succession returns the limits that a site has had, and those that it has now; none if nothing has changed.
func succession(old, next *Snapshot, site string) (had, limits []queue.Limit) {
	before := old.planOf(site, old.policy.RuleOf(site))
	now := next.planOf(site, next.policy.RuleOf(site))
	if before == now {
		return nil, nil
	}
	return before.All(), now.All()
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
func (c overridePlans) Apply() {
	next := *c.current.Load()
	next.overrides = c.overridden(&next)
	c.publish(&next)
}
