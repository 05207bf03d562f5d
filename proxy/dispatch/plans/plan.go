// Package plans tells what the configuration says of a request to a site, as the queue
// understands it: which limits the request takes from, with which tokens, and at which of
// the site's backends. It decides without a clock and without a lock, but for the lists
// that it stores.
//
//	all, err := plans.Make(policy, plans.Parts{Pool: pools.Get, Loads: loads, Meters: budgets.Meters})
//	limits, shared := all[rule].Needs(&plans.Subject{Method: "GET", Path: "/items"})
package plans

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store/budget"
	"github.com/abide-proxy/abide/tokens"
)

// Plan is one rule's limits, backends and tokens as the queue understands them. It is made
// once for each loading of the configuration, and does not change. It is safe for
// concurrent use.
type Plan struct {
	Rule     *policy.Site // nil: it is for sites without a rule
	Limits   []Limit
	Pool     *tokens.Pool   // nil: requests go as they come
	Tokens   policy.Pool    // how the tokens of Pool are to be used
	Learns   bool           // limits are learned from answers
	Dialect  *learn.Dialect // that the operator has written, or nil
	Backends backends.Group
	Robots   bool // robots.txt is obeyed

	CountsBytes bool          // it has limits of bytes
	Stall       time.Duration // the longest time that those hold a body up

	unlimited    bool // the rule has no limit of requests: those of the service hold
	startsSlowly bool // few requests are in flight at a site that is not known yet
	meters       func(rule *policy.Site, l *policy.Limit, spec *limit.Spec) queue.MeterSource
	lists        lists
	pause        *queue.Limit // of a site that the operator has paused
}

// Limit is a limit of a rule.
type Limit struct {
	Rule     *policy.Limit
	Need     queue.Limit // its key is that of the backend, where there are any
	PerToken bool        // each token has its own
	Only     string      // the backend that it holds for; "": those without limits of their own
	Trickle  queue.Limit // of bytes: what a body gets while it is held up
}

// Parts connect plans with the pools, the loads of backends and the meters.
type Parts struct {
	Pool   func(name string) *tokens.Pool
	Loads  *backends.Loads
	Meters func(rule *policy.Site, l *policy.Limit, spec *limit.Spec) queue.MeterSource
}

// Make makes the plan of every rule, and under nil that of sites without one. A rule that
// says nothing about its requests has none.
func Make(p *policy.Policy, parts Parts) (map[*policy.Site]*Plan, error) {
	plans := map[*policy.Site]*Plan{}
	add := func(rule *policy.Site, limits []policy.Limit) error {
		plan, err := New(p, rule, limits, parts)
		if err != nil {
			return err
		}
		if len(plan.Limits)+len(plan.Backends.Hosts) > 0 || plan.Robots || plan.Learns || plan.Pool != nil {
			plans[rule] = plan
		}
		return nil
	}
	if err := add(nil, p.Defaults.Limits); err != nil {
		return nil, err
	}
	for i := range p.Sites {
		if err := add(&p.Sites[i], p.Sites[i].Limits); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// New makes the plan of a rule, or of none if rule is nil, with limits that need not be those
// of the rule.
func New(p *policy.Policy, rule *policy.Site, limits []policy.Limit, parts Parts) (*Plan, error) {
	plan := &Plan{Rule: rule, Learns: p.Defaults.Learn, unlimited: !policy.LimitRequests(limits), meters: parts.Meters}
	if err := plan.addLimits(parts, limits, ""); err != nil {
		return nil, err
	}
	plan.startsSlowly = plan.unlimited
	if rule == nil {
		return plan, nil
	}
	// A rule that says how many requests may be in flight means it.
	plan.startsSlowly = plan.unlimited && !slices.ContainsFunc(limits, func(l policy.Limit) bool { return l.Unit == policy.Concurrency })
	for i := range rule.Backends {
		if b := &rule.Backends[i]; b.Own {
			if err := plan.addLimits(parts, b.Limits, b.Name); err != nil {
				return nil, err
			}
		}
	}
	plan.Robots, plan.Learns, plan.Dialect = rule.Robots, rule.Learn, rule.Dialect
	if config := p.Pool(rule.Pool); config != nil {
		plan.Pool, plan.Tokens = parts.Pool(rule.Pool), *config
	}
	plan.Backends = backends.NewGroup(rule, parts.Loads)
	return plan, nil
}

// addLimits adds limits to a plan, which are those of one backend alone if only is its
// name.
func (p *Plan) addLimits(parts Parts, limits []policy.Limit, only string) error {
	seen := map[string]int{}
	for i := range limits {
		l := &limits[i]
		spec, err := l.Spec()
		if err == nil {
			_, err = limit.New(spec)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.Title(), err)
		}
		need := queue.Limit{Name: budget.NameOf(l), Title: l.Title(), Spec: &spec, N: max(l.Each, 1)}
		if seen[need.Name]++; seen[need.Name] > 1 {
			need.Title = fmt.Sprintf("%s (%d)", need.Title, seen[need.Name])
			need.Name = fmt.Sprintf("%s (%d)", need.Name, seen[need.Name])
		}
		if only != "" {
			need.Name += " at " + only
		}
		need.Subject = subjectOf(l, only)
		switch l.By {
		case "client":
			need.By = queue.ByClient
		case "route":
			need.By = queue.ByRoute
		}
		need.Source = parts.Meters(p.Rule, l, &spec)
		item := Limit{Rule: l, PerToken: l.By == "token", Only: only}
		switch l.Unit {
		case policy.Cost:
			need.Of = queue.Cost
		case policy.Bytes:
			p.CountsBytes = true
			if stall := cmp.Or(l.Stall, policy.DefaultStall); p.Stall == 0 || stall < p.Stall {
				p.Stall = stall
			}
			need.Of = queue.Bytes
			need, item.Trickle = bandwidth.Split(need)
		}
		item.Need = need
		if l.Method != "" || l.Path != "" {
			p.lists.routed = append(p.lists.routed, len(p.Limits))
		}
		p.Limits = append(p.Limits, item)
	}
	return nil
}

// subjectOf returns the subject that a limit counts, whatever its amounts and its window: a limit
// of the same subject begins with what was spent of this one. A count of requests in flight has
// no subject.
func subjectOf(l *policy.Limit, only string) *queue.Subject {
	if l.Unit == policy.Concurrency {
		return nil
	}
	return &queue.Subject{Unit: string(l.Unit), By: l.By, At: only, Method: l.Method, Path: l.Path}
}

// All returns the limits of a plan that have a meter. The plan may be nil.
func (p *Plan) All() (all []queue.Limit) {
	if p == nil {
		return nil
	}
	for i := range p.Limits {
		all = append(all, p.Limits[i].Need)
		if trickle := p.Limits[i].Trickle; trickle.Spec != nil {
			all = append(all, trickle)
		}
	}
	return all
}

// Called returns the limit of an identity, nil if there is none any more.
func (p *Plan) Called(identity string) *queue.Limit {
	if p == nil {
		return nil
	}
	for i := range p.Limits {
		switch limit := &p.Limits[i]; identity {
		case limit.Need.Name:
			return &limit.Need
		case limit.Trickle.Name:
			return &limit.Trickle
		}
	}
	return nil
}

// Reserve returns the part of announced limits that is not used.
func (p *Plan) Reserve() ledger.Reserve {
	return ledger.Reserve{Units: p.Tokens.Reserve.Units, Percent: p.Tokens.Reserve.Percent}
}

// ByRoute reports whether some limits hold for some routes only.
func (p *Plan) ByRoute() bool { return len(p.lists.routed) > 0 }

// BytesBy reports whether a limit of bytes holds for each client, or each route, alone.
func (p *Plan) BytesBy(whose string) bool {
	return slices.ContainsFunc(p.Limits, func(l Limit) bool { return l.Rule.Unit == policy.Bytes && l.Rule.By == whose })
}

const (
	// mostRouted bounds the limits of a rule that are about some requests only: with more,
	// no lists are stored.
	mostRouted = 256
	// mostLists bounds the lists that are stored of a rule: strangers choose the paths.
	mostLists = 256
)

// covers has a bit for each limit that is about some requests only: it covers the request.
type covers [mostRouted / 64]uint64

// covers tells which limits cover a request. few is false if they are more than mostRouted.
func (p *Plan) covers(r *Subject) (c covers, few bool) {
	if len(p.lists.routed) > mostRouted {
		return c, false
	}
	for at, i := range p.lists.routed {
		if p.Limits[i].Rule.Covers(r.Method, r.Path) {
			c[at/64] |= 1 << (at % 64)
		}
	}
	return c, true
}

// listKey is equal for requests that take from the same limits.
type listKey struct {
	covers     covers
	learned    *routes.Limit     // the first of those that were learned
	known      *learn.KnownLimit // the first of those of the service
	set        *tokens.Set
	credential string // of the client, where limits hold for each
	estimate   int64  // of the bytes of an answer, where those are limited
}

// compiled has the limits of requests with one key, and their handle.
type compiled struct {
	all   [][]queue.Limit
	needs *queue.Needs
}

// lists has the limits of requests by key. A list is made once, since it is long and the queue
// remembers what it has found for it.
type lists struct {
	routed []int // indexes of limits that are not about every request
	known  atomic.Pointer[map[listKey]compiled]
	mu     sync.Mutex // held to replace known
}

// of returns the list of a key, if it is known.
func (l *lists) of(c listKey) (found compiled, ok bool) {
	if known := l.known.Load(); known != nil {
		found, ok = (*known)[c]
	}
	return found, ok
}

// store stores a list, which nobody changes any more. When there are too many it begins again:
// some are of what was learned before, or of tokens that are not there any more.
func (l *lists) store(c listKey, all compiled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := map[listKey]compiled{c: all}
	if known := l.known.Load(); known != nil && len(*known) < mostLists {
		maps.Copy(now, *known)
	}
	l.known.Store(&now)
}

// pauseLimit begins the name of the limit of a paused site.
const pauseLimit = "pause"

// NoTokenTitle is the title of the limit of a pool whose tokens are all disabled.
const NoTokenTitle = "no token is enabled"

// Pause adds a limit that lets no request go until the end of a pause. It is called before the
// plan is used.
func (p *Plan) Pause(pause *status.Pause) {
	// A name of its own: the meter of an earlier pause has another end.
	name := pauseLimit + " " + strconv.FormatInt(pause.Since.UnixNano(), 36)
	p.pause = &queue.Limit{Name: name, Title: pause.Title(), Source: closedSource{pause.Until}, N: 1}
}

// PauseLimit returns the limit of a pause; nil: there is none. The plan may be nil.
func (p *Plan) PauseLimit() *queue.Limit {
	if p == nil {
		return nil
	}
	return p.pause
}

// closedSource provides the meter of a paused site, or of a pool without a token. The zero
// value is for a closure without a known end: a change of the configuration ends it.
type closedSource struct{ until time.Time }

func (s closedSource) NewMeter() limit.Meter {
	m, err := limit.New(limit.Spec{As: limit.Concurrency, Amount: 1 << 40}) // after the end it limits nothing
	if err != nil {
		panic(err) // it is an amount
	}
	return closed{m, s.until}
}

// External leaves the meter.
func (closedSource) External(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter { return nil }

// closed is a meter that lets nothing go until a time; the zero time is not known.
type closed struct {
	limit.Meter
	until time.Time
}

// When returns the end, while the meter is closed.
func (c closed) When(now time.Time, n int64) (time.Time, bool) {
	switch {
	case c.until.IsZero():
		return limit.Unknown, true
	case c.until.After(now):
		return c.until, true
	}
	return c.Meter.When(now, n)
}

// Left returns 0 until the end.
func (c closed) Left(now time.Time) int64 {
	if c.until.IsZero() || c.until.After(now) {
		return 0
	}
	return c.Meter.Left(now)
}
