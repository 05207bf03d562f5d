package proxy

import (
	"cmp"
	"fmt"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/tokens"
)

// plan is one rule's limits, backends and tokens as the queue understands them. It is
// made once for each loading of the configuration.
type plan struct {
	limits   []planned
	bytes    int            // how many of them are of bytes
	stall    time.Duration  // how long those may keep a body still
	pool     *tokens.Pool   // nil: requests go as they come
	tokens   policy.Pool    // how its tokens are to be used
	rule     *policy.Site   // which says where they may go
	learns   bool           // limits are learned from answers
	dialect  *learn.Dialect // that the operator has written, or nil
	lists    lists
	backends []backend
	balance  string
	rotation *rotation
	sticky   bool
	robots   bool
}

type planned struct {
	rule    *policy.Limit
	need    queue.Limit // its key is that of the backend, where there are any
	token   bool        // each token has its own
	only    string      // the backend that it holds for; "": those without limits of their own
	trickle queue.Limit // of bytes: what a body gets while it has to stand still
}

// plansOf makes the plan of every rule, and under nil that of sites without one.
func (s *Server) plansOf(p *policy.Policy, pools pools) (map[*policy.Site]*plan, error) {
	plans := map[*policy.Site]*plan{}
	add := func(rule *policy.Site, limits []policy.Limit) error {
		one, err := s.planWith(p, rule, limits, pools)
		if err != nil {
			return err
		}
		if len(one.limits)+len(one.backends) > 0 || one.robots || one.learns || one.pool != nil {
			plans[rule] = one
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

// planWith is the plan of a rule, or of none, with limits that need not be its own.
func (s *Server) planWith(p *policy.Policy, rule *policy.Site, limits []policy.Limit, pools pools) (*plan, error) {
	one, err := s.planOf(rule, limits)
	if err != nil {
		return nil, err
	}
	one.learns = p.Defaults.Learn
	if rule != nil {
		s.planRule(one, p, rule, pools)
	}
	return one, nil
}

// planRule is what a rule says beside its limits.
func (s *Server) planRule(one *plan, p *policy.Policy, rule *policy.Site, pools pools) {
	one.robots, one.balance, one.sticky = rule.Robots, rule.Balance, rule.Sticky
	one.learns, one.dialect = rule.Learn, rule.Dialect
	if config := p.Pool(rule.Pool); config != nil {
		one.pool, one.tokens, one.rule = pools[rule.Pool], *config, rule
	}
	weights := make([]int, len(rule.Backends))
	for i := range rule.Backends {
		b := &rule.Backends[i]
		own := backend{
			name: b.Name, weight: max(b.Weight, 1), target: b.Target, load: s.loads.of(b.Origin()),
			slot: queue.Limit{Name: "backend", Key: b.Name},
		}
		if b.Own {
			own.only = b.Name
		}
		weights[i] = own.weight
		one.backends = append(one.backends, own)
	}
	one.rotation = newRotation(weights)
}

func (s *Server) planOf(rule *policy.Site, limits []policy.Limit) (*plan, error) {
	p := &plan{}
	if err := s.addLimits(p, rule, limits, ""); err != nil {
		return nil, err
	}
	if rule == nil {
		return p, nil
	}
	for i := range rule.Backends {
		if b := &rule.Backends[i]; b.Own {
			if err := s.addLimits(p, rule, b.Limits, b.Name); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// addLimits adds limits to a plan, which are those of one backend alone if only is its
// name.
func (s *Server) addLimits(p *plan, rule *policy.Site, limits []policy.Limit, only string) error {
	seen := map[string]int{}
	for i := range limits {
		l := &limits[i]
		spec, err := specOf(l)
		if err == nil {
			_, err = limit.New(*spec)
		}
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", l.Line, l.Title(), err)
		}
		need := queue.Limit{Name: identity(l), Title: l.Title(), Spec: spec, N: max(l.Each, 1)}
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
		need.Keep = s.keeperOf(rule, l, spec)
		one := planned{rule: l, token: l.By == "token", only: only}
		switch l.Unit {
		case policy.Cost:
			need.Of = queue.Cost
		case policy.Bytes:
			p.bytes++
			p.stall = shorter(p.stall, cmp.Or(l.Stall, policy.DefaultStall))
			need.Of = queue.Bytes
			one.trickle = trickleOf(need)
			less := *spec
			less.Amount -= one.trickle.Spec.Amount
			if less.Burst > 0 {
				less.Burst = max(less.Burst-one.trickle.Spec.Burst, 1)
			}
			need.Spec = &less
		}
		one.need = need
		if l.Method != "" || l.Path != "" {
			p.lists.routed = append(p.lists.routed, len(p.limits))
		}
		p.limits = append(p.limits, one)
	}
	return nil
}

// shorter is the shorter of two times, of which the first may be none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// identity is which limit of its rule it is, whatever its amounts: with another
// amount after a reload it is the same limit, and what was spent stays spent.
func identity(l *policy.Limit) string {
	return fmt.Sprintf("%s %s per %s %s by %s for %s %s", l.As, l.Unit, l.Per, l.Timezone, l.By, l.Method, l.Path)
}

// subjectOf is what a limit counts, whatever its amounts and its window: one that comes
// in its place begins with what was spent of it. What is in flight begins anew.
func subjectOf(l *policy.Limit, only string) *queue.Subject {
	if l.Unit == policy.Concurrency {
		return nil
	}
	return &queue.Subject{Unit: string(l.Unit), By: l.By, At: only, Method: l.Method, Path: l.Path}
}

// specOf is the arithmetic of what the operator wrote.
func specOf(l *policy.Limit) (*limit.Spec, error) {
	s := &limit.Spec{As: limit.As(l.As), Amount: l.Amount, Window: l.Per.Length, Burst: l.Burst, Min: float64(l.Min), Max: float64(l.Max), Period: l.Per.Calendar}
	if l.Timezone != "" {
		place, err := time.LoadLocation(l.Timezone)
		if err != nil {
			return nil, err
		}
		s.Location = place
	}
	return s, nil
}

// scope is what a refusal of the request is about, as narrow as can be told
// without words of the site: its route, or else its backend, or else all of it.
func (p *plan) scope(x *exchange) queue.Scope {
	if p == nil {
		return queue.Scope{}
	}
	var found *planned
	for i := range p.limits {
		one := &p.limits[i]
		if one.only != x.backend().limits() {
			continue
		}
		if one.rule.Path != "" && one.rule.Covers(x.method, x.path) && (found == nil || len(one.rule.Path) >= len(found.rule.Path)) {
			found = one
		}
	}
	if found != nil {
		need := found.need
		switch b := x.backend(); {
		case b != nil:
			need.Key = b.name
		case found.token:
			need.Key = x.budget()
		}
		return need.Scope(&queue.Request{Client: x.clientName(), Method: x.method, Path: x.path})
	}
	return p.party(x)
}

// party is the scope of a breaker: a backend, or else the site.
func (p *plan) party(x *exchange) queue.Scope {
	if b := x.backend(); b != nil {
		return queue.Scope{Limit: b.slot.Name, Key: b.slot.Key}
	}
	return queue.Scope{}
}

// scopeWord is the kind of scope, for the metrics.
func (p *plan) scopeWord(x *exchange) string {
	switch at := p.scope(x); {
	case at == queue.Scope{}:
		return "site"
	case at.Limit == "backend":
		return "backend"
	}
	return "route"
}
