package plans

import (
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
)

// The names of the queue's limits that only cool: a token, or a backend, is not used while
// the site does not accept it.
const (
	TokenLimit   = "token"
	BackendLimit = "backend"
)

// Place is where a request was sent, and for whom.
type Place struct {
	Backend *backends.Backend // nil: the site has none
	Budget  string            // whose limits the request takes from: see Subject
	Client  string
}

// Whole is the scope of a breaker: a backend, or else the site.
func (at *Place) Whole() queue.Scope {
	if at.Backend != nil {
		return queue.Scope{Limit: BackendLimit, Key: at.Backend.Name}
	}
	return queue.Scope{}
}

// Scope is what a refusal of a request is about, as narrow as can be told without words of
// the site: its route, or else its backend, or else all of the site. word is the kind of
// scope, for the metrics.
func (p *Plan) Scope(r *Subject, at *Place) (scope queue.Scope, word string) {
	if p == nil {
		return queue.Scope{}, "site"
	}
	var found *Limit
	for i := range p.Limits {
		limit := &p.Limits[i]
		if limit.Only != at.Backend.OwnLimits() {
			continue
		}
		if limit.Rule.Path != "" && limit.Rule.Covers(r.Method, r.Path) && (found == nil || len(limit.Rule.Path) >= len(found.Rule.Path)) {
			found = limit
		}
	}
	if scope = at.Whole(); found != nil {
		need := found.Need
		switch {
		case at.Backend != nil:
			need.Key = at.Backend.Name
		case found.PerToken:
			need.Key = at.Budget
		}
		scope = need.Scope(&queue.Request{Client: at.Client, Method: r.Method, Path: r.Path})
	}
	switch {
	case scope == queue.Scope{}:
		return scope, "site"
	case scope.Limit == BackendLimit:
		return scope, "backend"
	}
	return scope, "route"
}
