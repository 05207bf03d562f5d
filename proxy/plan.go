package proxy

import (
	"fmt"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// plan is one rule's limits and backends as the queue understands them. It is made
// once for each loading of the configuration.
type plan struct {
	limits   []planned
	whole    [][]queue.Limit // when every request needs the same: no key, no route
	backends []backend
	balance  string
	sticky   bool
	robots   bool
}

type planned struct {
	rule *policy.Limit
	need queue.Limit // its key is filled for each request
}

// plansOf makes the plan of every rule, and under nil that of sites without one.
func (s *Server) plansOf(p *policy.Policy) (map[*policy.Site]*plan, error) {
	plans := map[*policy.Site]*plan{}
	add := func(rule *policy.Site, limits []policy.Limit) error {
		one, err := planOf(limits)
		if err != nil {
			return err
		}
		if rule != nil {
			one.robots, one.balance, one.sticky = rule.Robots, rule.Balance, rule.Sticky
			for _, t := range rule.Backends {
				name := strings.TrimPrefix(t.Origin(), "https://")
				one.backends = append(one.backends, backend{
					name: name, target: t, load: s.loads.of(name),
					slot: queue.Limit{Name: "backend", Key: name},
				})
			}
		}
		if len(one.limits)+len(one.backends) > 0 || one.robots {
			one.settle()
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

func planOf(limits []policy.Limit) (*plan, error) {
	p := &plan{}
	seen := map[string]int{}
	for i := range limits {
		l := &limits[i]
		spec, err := specOf(l)
		if err == nil {
			_, err = limit.New(*spec)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", l.Line, l.Title(), err)
		}
		need := queue.Limit{Name: identity(l), Title: l.Title(), Spec: spec, N: max(l.Each, 1)}
		if seen[need.Name]++; seen[need.Name] > 1 {
			need.Name = fmt.Sprintf("%s (%d)", need.Name, seen[need.Name])
		}
		if l.Unit == policy.Cost {
			need.Of = queue.Cost
		}
		p.limits = append(p.limits, planned{l, need})
	}
	return p, nil
}

// settle prepares what every request needs, if that is always the same.
func (p *plan) settle() {
	if p.robots {
		return
	}
	for i := range p.limits {
		if l := p.limits[i].rule; l.By != "" || l.Method != "" || l.Path != "" || l.Unit == policy.Cost {
			return
		}
	}
	p.whole = p.alternatives(&exchange{})
}

// identity is which limit of its rule it is, whatever its amounts: with another
// amount after a reload it is the same limit, and what was spent stays spent.
func identity(l *policy.Limit) string {
	return fmt.Sprintf("%s %s per %s %s by %s for %s %s", l.As, l.Unit, l.Per, l.Timezone, l.By, l.Method, l.Path)
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

// needs are the limits that a request takes from: one list for each backend.
func (p *plan) needs(x *exchange) [][]queue.Limit {
	switch {
	case p == nil:
		return nil
	case p.whole != nil:
		return p.whole
	}
	return p.alternatives(x)
}

func (p *plan) alternatives(x *exchange) [][]queue.Limit {
	if len(p.backends) == 0 {
		return [][]queue.Limit{p.needsAt(x, nil)}
	}
	all := make([][]queue.Limit, len(p.backends))
	for i := range p.backends {
		b := &p.backends[i]
		all[i] = append(p.needsAt(x, b), b.slot)
	}
	return all
}

// needsAt are the limits of one backend, nil where there are none.
func (p *plan) needsAt(x *exchange, b *backend) []queue.Limit {
	list := make([]queue.Limit, 0, len(p.limits)+2)
	for i := range p.limits {
		one := &p.limits[i]
		if !one.rule.Covers(x.method, x.path) {
			continue
		}
		need := one.need
		need.Key = one.key(x, b)
		if need.Of == queue.Cost {
			need.N = max(need.N, x.wish.cost)
		}
		list = append(list, need)
	}
	if p.robots && x.prior != nil {
		need := *x.prior
		if b != nil {
			need.Key = b.name
		}
		list = append(list, need)
	}
	return list
}

// key is whose meter of the limit a request takes from.
func (one *planned) key(x *exchange, b *backend) string {
	key := ""
	switch one.rule.By {
	case "client":
		key = x.clientName()
	case "route":
		key = x.method + " " + x.path
	}
	if b != nil {
		key = strings.TrimSuffix(b.name+" "+key, " ")
	}
	return key
}

// scope is what a refusal of the request is about, as narrow as can be told
// without words of the site: its route, or else its backend, or else all of it.
func (p *plan) scope(x *exchange) queue.Scope {
	if p == nil {
		return queue.Scope{}
	}
	b := x.backend()
	var found *planned
	for i := range p.limits {
		one := &p.limits[i]
		if one.rule.Path != "" && one.rule.Covers(x.method, x.path) && (found == nil || len(one.rule.Path) >= len(found.rule.Path)) {
			found = one
		}
	}
	if found != nil {
		return queue.Scope{Limit: found.need.Name, Key: found.key(x, b)}
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
