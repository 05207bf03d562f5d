package plan

import (
	"errors"
	"fmt"
	"slices"
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

// Check tells what is wrong with a crawl. The error begins with the name of the flag of "abide plan".
func (c *Crawl) Check() error {
	switch {
	case c.Requests < 1 || c.Requests > MostRequests:
		return fmt.Errorf("requests: a plan is for 1 to %d requests, not %d", MostRequests, c.Requests)
	case c.Clients < 1 || c.Clients > MostClients:
		return fmt.Errorf("clients: a crawl has 1 to %d clients, not %d", MostClients, c.Clients)
	case c.Latency < 0:
		return fmt.Errorf("latency: a site cannot answer after %v", c.Latency)
	case c.Bytes < 0:
		return errors.New("bytes: an answer cannot have less than no bytes")
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
	for _, t := range s.targets() {
		if rule := p.Match(t).Rule; rule != nil && rule.Pool != "" && !slices.Contains(names, rule.Pool) {
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
