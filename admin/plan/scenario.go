package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/policy"
)

const (
	// MostRequests is the largest number of requests of a scenario.
	MostRequests = 100_000_000
	// MostClients is the largest number of clients of a Crawl.
	MostClients = 100_000
)

// Scenario describes a simulation: requests that come, and the answers of the sites.
type Scenario struct {
	Start time.Time // when the first request comes

	Crawl     Crawl // if Log is nil
	Log       *Log  // the requests of an access log
	KeepTimes bool  // requests of the log come when they came, whatever was answered before

	SiteLimit *SiteLimit // nil: sites allow everything
	Silent    bool       // sites announce nothing, and their refusals have no Retry-After

	// Tokens are the labels and accounts of the tokens of each pool; their secrets are not
	// needed. A pool that is not listed has one token.
	Tokens map[string][]policy.Token
}

// Crawl is a number of requests, of which each client sends one after the other.
type Crawl struct {
	Target   policy.Target
	Path     string // escaped
	Method   string
	Requests int
	Clients  int
	Client   string        // the name of all clients; "": each client has a name of its own
	Priority int           // -1: not said
	Latency  time.Duration // from sending a request to the head of its answer, on average
	Bytes    int64         // of a request and its answer, with heads
}

// check tells what is wrong with a crawl.
func (c *Crawl) check() error {
	switch {
	case c.Requests < 1 || c.Requests > MostRequests:
		return fmt.Errorf("a plan is for 1 to %d requests, not %d", MostRequests, c.Requests)
	case c.Clients < 1 || c.Clients > MostClients:
		return fmt.Errorf("a crawl has 1 to %d clients, not %d", MostClients, c.Clients)
	case c.Latency < 0:
		return fmt.Errorf("a site cannot answer after %v", c.Latency)
	case c.Bytes < 0:
		return errors.New("an answer cannot have less than no bytes")
	}
	return nil
}

// targets are the places that the requests go to, each once.
func (s *Scenario) targets() []policy.Target {
	if s.Log == nil {
		return []policy.Target{s.Crawl.Target}
	}
	var list []policy.Target
	seen := map[policy.Target]bool{}
	for i := range s.Log.places {
		if t := s.Log.places[i].target; !seen[t] {
			seen[t] = true
			list = append(list, t)
		}
	}
	return list
}

// Pools are the names of the pools whose tokens the requests of the scenario need.
func (s *Scenario) Pools(p *policy.Policy) (names []string) {
	seen := map[string]bool{}
	for _, t := range s.targets() {
		if rule := p.Match(t).Rule; rule != nil && rule.Pool != "" && !seen[rule.Pool] {
			seen[rule.Pool] = true
			names = append(names, rule.Pool)
		}
	}
	return names
}

// planned is the policy by which a scenario is simulated: with its rules, and with nothing
// that reaches a network or a file. The tokens have made-up secrets.
func planned(p *policy.Policy, tokens map[string][]policy.Token) *policy.Policy {
	ours := *p
	ours.Storage = policy.Storage{Store: policy.Store{Kind: "local"}}
	ours.Egress, ours.Shard = policy.Egress{}, policy.Shard{By: "url"}
	ours.StrictState = false
	ours.Pools = slices.Clone(p.Pools)
	for i := range ours.Pools {
		ours.Pools[i] = plannedPool(&p.Pools[i], tokens[p.Pools[i].Name])
	}
	return &ours
}

// plannedPool is a pool with made-up secrets in place of its own.
func plannedPool(p *policy.Pool, known []policy.Token) policy.Pool {
	pool := policy.Pool{
		Name: p.Name, Put: policy.Placement{Where: "header", Name: "Authorization", Before: "Bearer "},
		Reserve: p.Reserve, Exhausted: p.Exhausted, Anonymous: p.Anonymous, Limits: p.Limits, Line: p.Line,
	}
	if len(known) == 0 {
		known = make([]policy.Token, 1)
	}
	for i, t := range known {
		t.Secret = policy.NewSecret(fmt.Sprintf("made-up-%05d", i))
		pool.Tokens = append(pool.Tokens, t)
	}
	return pool
}

// place is the target and URL of a request.
type place struct {
	target policy.Target
	url    url.URL
}

// request is one request to come.
type request struct {
	place    *place
	method   string
	priority int           // -1: not said
	latency  time.Duration // until the site has answered
	bytes    int64
}

// newPlace is the place of a target and an escaped path.
func newPlace(t policy.Target, path string) *place {
	p := &place{target: t, url: url.URL{Scheme: t.Scheme, Host: t.HostPort(), Path: path}}
	if t.UsualPort() {
		p.url.Host = t.Host
	}
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		p.url.Path, p.url.RawPath = plain, path
	}
	return p
}

// WhatIf is the result of the same scenario with one thing changed.
type WhatIf struct {
	Change    string    `json:"change"`
	End       time.Time `json:"end"`
	Seconds   float64   `json:"seconds"`
	Finished  bool      `json:"finished"`
	Sooner    float64   `json:"sooner_seconds"` // than without the change; negative: later
	PerSecond float64   `json:"per_second"`
	Refusals  Refusals  `json:"refusals"`
}

// change is one thing that is changed.
type change struct {
	text     string
	policy   *policy.Policy
	scenario Scenario
}

// WhatIfs simulates a scenario again for each of a few changes, several at once where there
// is more than one core. base is the result without a change.
func WhatIfs(ctx context.Context, p *policy.Policy, s Scenario, base *Result) ([]WhatIf, error) {
	changes := changesOf(p, s, base)
	list, errs := make([]WhatIf, len(changes)), make([]error, len(changes))
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	for i, c := range changes {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			list[i], errs[i] = c.run(ctx, base)
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// run simulates the changed scenario.
func (c *change) run(ctx context.Context, base *Result) (WhatIf, error) {
	r, err := Run(ctx, c.policy, c.scenario)
	if err != nil {
		return WhatIf{}, fmt.Errorf("planning %s: %w", c.text, err)
	}
	return WhatIf{
		Change: c.text, End: r.End, Seconds: r.Seconds, Finished: r.Finished, Sooner: base.Seconds - r.Seconds,
		PerSecond: r.PerSecond, Refusals: r.Refusals,
	}, nil
}

// changesOf are the changes that may help, and twice the clients.
func changesOf(p *policy.Policy, s Scenario, base *Result) (list []change) {
	add := func(c change, ok bool) {
		if ok {
			list = append(list, c)
		}
	}
	add(moreTokens(p, s, base))
	add(doubleLimit(p, s, base))
	add(moreClients(p, s))
	add(halfLatency(p, s, base))
	return list
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
func moreTokens(p *policy.Policy, s Scenario, base *Result) (c change, ok bool) {
	rule := p.Match(s.targetOf(p, base.top())).Rule
	if rule == nil || rule.Pool == "" {
		return c, false
	}
	now := max(len(s.Tokens[rule.Pool]), 1)
	tokens := map[string][]policy.Token{}
	maps.Copy(tokens, s.Tokens)
	tokens[rule.Pool] = append(slices.Clone(append(s.Tokens[rule.Pool], make([]policy.Token, now-len(s.Tokens[rule.Pool]))...)), policy.Token{})
	s.Tokens = tokens
	return change{fmt.Sprintf("one more token (%d)", now+1), p, s}, true
}

// doubleLimit is twice the limit that limits most.
func doubleLimit(p *policy.Policy, s Scenario, base *Result) (c change, ok bool) {
	top := base.top()
	if top == nil {
		return c, false
	}
	if ours := withDoubled(p, s.targetOf(p, top), top.Limit); ours != nil {
		return change{fmt.Sprintf("double %q", top.Limit), ours, s}, true
	}
	if s.SiteLimit == nil {
		return c, false
	}
	twice := *s.SiteLimit
	twice.Amount *= 2
	text := fmt.Sprintf("the site allows twice %q", s.SiteLimit)
	s.SiteLimit = &twice
	return change{text, p, s}, true
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
			double(l)
		}
	}
	if !found {
		return nil
	}
	return &ours
}

// double makes a limit allow twice as much.
func double(l *policy.Limit) {
	if l.Burst == l.Amount {
		l.Burst *= 2
	}
	l.Amount, l.Min, l.Max = 2*l.Amount, 2*l.Min, 2*l.Max
}

// moreClients is twice the clients of a Crawl.
func moreClients(p *policy.Policy, s Scenario) (c change, ok bool) {
	if s.Log != nil || 2*s.Crawl.Clients > MostClients {
		return c, false
	}
	s.Crawl.Clients *= 2
	return change{fmt.Sprintf("twice the clients (%d)", s.Crawl.Clients), p, s}, true
}

// halfLatency is answers in half the time, where these take most of the time.
func halfLatency(p *policy.Policy, s Scenario, base *Result) (c change, ok bool) {
	if s.Log != nil || len(base.LimitedBy) == 0 || base.LimitedBy[0].Kind != BySite {
		return c, false
	}
	s.Crawl.Latency /= 2
	return change{fmt.Sprintf("answers in half the time (%v)", s.Crawl.Latency), p, s}, true
}
