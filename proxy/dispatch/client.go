package dispatch

import "github.com/abide-proxy/abide/policy"

// Client is who sends requests: a name of access.clients.
type Client struct {
	Name     string
	Secret   policy.Secret // that it has shown
	Weight   int           // its share of a site's limit
	Priority int           // of its requests, 0 (first) to 7
	OpensAll bool          // intercept: all
}

// ClientNamed is the client of a name, which has shown no secret; nil if no entry of
// access.clients has that name.
func ClientNamed(p *policy.Policy, name string) *Client {
	for _, c := range p.Access.Clients {
		if c.Name == name {
			return &Client{Name: c.Name, Weight: c.Weight, Priority: c.Priority, OpensAll: c.OpensAll}
		}
	}
	return nil
}
