package plan

import (
	"errors"
	"fmt"
	"time"

	"github.com/abide-proxy/abide/policy"
)

const (
	// MostRequests is how many requests a scenario has at most.
	MostRequests = 100_000_000
	// MostClients is how many clients a Crawl has at most.
	MostClients = 100_000
)

// Scenario is what is simulated: requests that come, and how the sites answer.
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
