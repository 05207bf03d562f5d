package plans

import (
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/tokens"
)

// Subject has the properties of a request that its limits depend on.
type Subject struct {
	Method string
	Path   string // escaped in the usual way, without query

	Tokens     *tokens.Set // the tokens that the request may go with; nil: it goes as it came
	Credential string      // the budget of the client's own credential; "": the client sends none

	Known      *sites.Site        // what is known of the site; nil: nothing is learned there
	Class      *routes.Class      // of the request's route; nil: nothing is learned there
	Documented []learn.KnownLimit // limits that are known of the service

	Leads bool // it may be the first request of a route, for whose answer others wait

	Prior *queue.Limit // what robots.txt asks for; nil: nothing

	Estimate int64 // of the bytes of the answer, where bytes are limited
	Declared int64 // the bytes of the answer as the client declares them; 0: it does not
}

// mostExpected bounds the bytes that a request waits for because its connection has to pay for
// them ahead. What a large receive buffer costs beyond that is paid when the request is sent.
const mostExpected = 64 << 10

// estimatePart is the part of a limit of bytes that a request may expect at most: one of so
// many.
const estimatePart = 4

// expects returns the bytes of a limit that a request waits for: what its client declares, or
// what the site usually answers, or what the connection has to pay for ahead, but only a
// part of the whole then.
func (r *Subject) expects(of []queue.Limit) int64 {
	if r.Declared > 0 {
		return r.Declared
	}
	return max(min(max(r.Estimate, min(queue.BufferOf(of), mostExpected)), of[0].Spec.Amount/estimatePart), 1)
}

// The names of the queue's limits that only cool: a token, or a backend, is not used while
// the site does not accept it.
const (
	TokenLimit   = "token"
	BackendLimit = "backend"
)

// Place has the backend and the client of a request.
type Place struct {
	Backend *backends.Backend // nil: the site has none
	Budget  string            // key of the limits that each token has alone
	Client  string
}

// Whole returns the scope of a breaker: a backend, or else the site.
func (at *Place) Whole() queue.Scope {
	if at.Backend != nil {
		return queue.Scope{Limit: BackendLimit, Key: at.Backend.Name}
	}
	return queue.Scope{}
}

// Scope returns the scope of a refusal, as narrow as can be told without words of the site: the
// route, or else the backend, or else all of the site. word is the kind of scope, for the
// metrics.
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
