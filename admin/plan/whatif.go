package plan

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/abide-proxy/abide/policy"
)

// change is one thing that is changed.
type change struct {
	text     string
	policy   *policy.Policy
	scenario Scenario
}

// WhatIfs simulates a scenario again for each of a few changes, several at once where there
// is more than one core. base is the result without a change.
func WhatIfs(ctx context.Context, p *policy.Policy, s Scenario, base *Result) ([]WhatIf, error) {
	var changes []*change
	for _, of := range []func(*policy.Policy, Scenario, *Result) *change{moreTokens, doubleLimit, moreClients, halfLatency} {
		if c := of(p, s, base); c != nil {
			changes = append(changes, c)
		}
	}
	list := make([]WhatIf, len(changes))
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range changes {
		running.Go(func() (err error) {
			list[i], err = c.run(ctx, base)
			return err
		})
	}
	return list, running.Wait()
}

// run simulates the changed scenario.
func (c *change) run(ctx context.Context, base *Result) (WhatIf, error) {
	r, err := Run(ctx, c.policy, c.scenario)
	if err != nil {
		return WhatIf{}, fmt.Errorf("planning %s: %w", c.text, err)
	}
	return WhatIf{c.text, r.Outcome, base.Seconds - r.Seconds}, nil
}

// targetOf is the first target at a site, and the site that limits most if there is a limit.
func (s *Scenario) targetOf(p *policy.Policy, top *Cause) policy.Target {
	all := s.targets()
	for _, t := range all {
		if top != nil && p.Match(t).Site == top.Site {
			return t
		}
	}
	return all[0]
}

// moreTokens is one more token in the pool of the site that limits most.
func moreTokens(p *policy.Policy, s Scenario, base *Result) *change {
	rule := p.Match(s.targetOf(p, base.top())).Rule
	if rule == nil || rule.Pool == "" {
		return nil
	}
	now := max(len(s.Tokens[rule.Pool]), 1)
	tokens := map[string][]policy.Token{}
	maps.Copy(tokens, s.Tokens)
	tokens[rule.Pool] = append(slices.Clone(append(s.Tokens[rule.Pool], make([]policy.Token, now-len(s.Tokens[rule.Pool]))...)), policy.Token{})
	s.Tokens = tokens
	return &change{fmt.Sprintf("one more token (%d)", now+1), p, s}
}

// doubleLimit is twice the limit that limits most.
func doubleLimit(p *policy.Policy, s Scenario, base *Result) *change {
	top := base.top()
	if top == nil {
		return nil
	}
	if ours := withDoubled(p, s.targetOf(p, top), top.Limit); ours != nil {
		return &change{fmt.Sprintf("double %q", top.Limit), ours, s}
	}
	if s.SiteLimit == nil {
		return nil
	}
	twice := *s.SiteLimit
	twice.Amount *= 2
	text := fmt.Sprintf("the site allows twice %q", s.SiteLimit)
	s.SiteLimit = &twice
	return &change{text, p, s}
}

// withDoubled is the policy with twice one limit of a target; nil if it has no such limit.
func withDoubled(p *policy.Policy, t policy.Target, title string) *policy.Policy {
	ours := *p
	ours.Sites = slices.Clone(p.Sites)
	for i := range ours.Sites {
		ours.Sites[i].Limits = slices.Clone(ours.Sites[i].Limits)
		ours.Sites[i].Backends = slices.Clone(ours.Sites[i].Backends)
		for j := range ours.Sites[i].Backends {
			ours.Sites[i].Backends[j].Limits = slices.Clone(ours.Sites[i].Backends[j].Limits)
		}
	}
	ours.Defaults.Limits = slices.Clone(p.Defaults.Limits)
	found := false
	for _, l := range limitsAt(&ours, t) {
		if l.Title() == title {
			found = true
			if l.Burst == l.Amount {
				l.Burst *= 2
			}
			l.Amount, l.Min, l.Max = 2*l.Amount, 2*l.Min, 2*l.Max
		}
	}
	if !found {
		return nil
	}
	return &ours
}

// moreClients is twice the clients of a Crawl.
func moreClients(p *policy.Policy, s Scenario, _ *Result) *change {
	if s.Log != nil || 2*s.Crawl.Clients > MostClients {
		return nil
	}
	s.Crawl.Clients *= 2
	return &change{fmt.Sprintf("twice the clients (%d)", s.Crawl.Clients), p, s}
}

// halfLatency is answers in half the time, where these take most of the time.
func halfLatency(p *policy.Policy, s Scenario, base *Result) *change {
	if s.Log != nil || len(base.LimitedBy) == 0 || base.LimitedBy[0].Kind != BySite {
		return nil
	}
	s.Crawl.Latency /= 2
	return &change{fmt.Sprintf("answers in half the time (%v)", s.Crawl.Latency), p, s}
}
