package proxy

import (
	"fmt"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// plan is one rule's limits as the queue understands them. It is made once for
// each loading of the configuration.
type plan struct {
	limits []planned
	whole  [][]queue.Limit // when every request needs the same: no key, no route
}

type planned struct {
	rule *policy.Limit
	need queue.Limit // its key is filled for each request
}

// plansOf makes the plan of every rule that has limits.
func plansOf(p *policy.Policy) (map[*policy.Site]*plan, error) {
	plans := map[*policy.Site]*plan{}
	for i := range p.Sites {
		rule := &p.Sites[i]
		if len(rule.Limits) == 0 {
			continue
		}
		one, err := planOf(rule)
		if err != nil {
			return nil, err
		}
		plans[rule] = one
	}
	return plans, nil
}

func planOf(rule *policy.Site) (*plan, error) {
	p := &plan{}
	seen := map[string]int{}
	same := true
	for i := range rule.Limits {
		l := &rule.Limits[i]
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
		same = same && l.By == "" && l.Method == "" && l.Path == "" && need.Of != queue.Cost
		p.limits = append(p.limits, planned{l, need})
	}
	if same {
		p.whole = [][]queue.Limit{{}}
		for _, one := range p.limits {
			p.whole[0] = append(p.whole[0], one.need)
		}
	}
	return p, nil
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

// needs are the limits that a request takes from, and the narrowest scope that a
// refusal of it is about: its route's limit, or else the whole site.
func (p *plan) needs(x *exchange) ([][]queue.Limit, queue.Scope) {
	var about queue.Scope
	if p == nil {
		return nil, about
	}
	if p.whole != nil {
		return p.whole, about
	}
	all := make([]queue.Limit, 0, len(p.limits))
	for i := range p.limits {
		one := &p.limits[i]
		if !one.rule.Covers(x.method, x.path) {
			continue
		}
		need := one.need
		switch one.rule.By {
		case "client":
			need.Key = x.clientName()
		case "route":
			need.Key = x.method + " " + x.path
		}
		if need.Of == queue.Cost {
			need.N = max(need.N, x.wish.cost)
		}
		if one.rule.Path != "" {
			about = queue.Scope{Limit: need.Name, Key: need.Key}
		}
		all = append(all, need)
	}
	return [][]queue.Limit{all}, about
}
