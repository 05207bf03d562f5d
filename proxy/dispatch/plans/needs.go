package plans

import (
	"slices"
	"strings"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/store/budget"
	"github.com/abide-proxy/abide/tokens"
)

// Needs returns the limits that a request takes from: one list for each backend or token. shared
// is the handle of lists that many requests may have.
func (p *Plan) Needs(r *Subject) (all [][]queue.Limit, shared *queue.Needs) {
	if p == nil {
		return nil, nil
	}
	covers, few := p.covers(r)
	like := listKey{covers: covers, set: r.Tokens, estimate: r.Estimate}
	if r.Class != nil && len(r.Class.Limits) > 0 {
		like.learned = &r.Class.Limits[0]
		if r.Tokens == nil {
			like.credential = r.Credential
		}
	}
	if known := p.knownOf(r); len(known) > 0 {
		if like.known = &known[0]; r.Tokens == nil {
			like.credential = r.Credential
		}
	}
	if !few {
		all = p.alternatives(r)
	} else if known, ok := p.lists.of(like); ok {
		all, shared = known.all, known.needs
	} else {
		all = p.alternatives(r)
		shared = queue.Compile(all)
		p.lists.store(like, compiled{all, shared})
	}
	if p.pause != nil {
		all, shared = p.with(all, *p.pause), nil
	}
	if p.Robots && r.Prior != nil {
		all, shared = p.with(all, *r.Prior), nil
	}
	if r.Class != nil && r.Class.Unknown && r.Leads {
		all, shared = p.with(all, r.Known.First(r.Class)), nil
	}
	if p.startsSlowly && r.Class != nil && r.Leads && r.Known.SlowStarts() {
		all, shared = p.with(all, r.Known.SlowStart()), nil
	}
	if slices.Contains(r.Over, false) && len(r.Over) <= len(all) {
		all, shared = passOver(all, r.Over), nil
	}
	return all, shared
}

// alternatives returns the limits that cover a request, at each backend and with each
// token if there are any.
func (p *Plan) alternatives(r *Subject) [][]queue.Limit {
	list := make([]queue.Limit, 0, len(p.Limits)+4)
	var each []int    // those that each token has for itself
	var only []string // of each, what Limit.Only says; what was learned holds for all
	for i := range p.Limits {
		if limit := &p.Limits[i]; limit.Rule.Covers(r.Method, r.Path) {
			if limit.PerToken {
				each = append(each, len(list))
			}
			list, only = append(list, limit.Need), append(only, limit.Only)
			if limit.Need.Of == queue.Bytes {
				list[len(list)-1].N = r.expects(list[len(list)-1:])
			}
		}
	}
	if r.Class != nil {
		for i := range r.Class.Limits {
			l := &r.Class.Limits[i]
			if !l.Site {
				each = append(each, len(list))
			}
			list = append(list, r.Known.Limit(l, p.Reserve()))
		}
	}
	known := p.knownOf(r)
	for i := range known {
		if known[i].Scope == learn.Token {
			each = append(each, len(list))
		}
		list = append(list, p.knownLimit(&known[i]))
	}
	switch {
	case r.Tokens != nil:
		return p.forTokens(r, list, each)
	case len(p.Backends.Hosts) == 0:
		for _, i := range each {
			list[i].Key = r.Credential
		}
		return [][]queue.Limit{list}
	}
	all := make([][]queue.Limit, len(p.Backends.Hosts))
	for i := range p.Backends.Hosts {
		b := &p.Backends.Hosts[i]
		limits := make([]queue.Limit, 0, len(list)+1)
		for j := range list {
			if j >= len(only) || only[j] == b.Limits {
				list[j].Key = b.Name
				limits = append(limits, list[j])
			}
		}
		all[i] = append(limits, queue.Limit{Name: BackendLimit, Key: b.Name}) // it lets the backend cool alone
	}
	return all
}

// forTokens returns the limits with each token that may be used, and at the end those
// without any, where the pool allows that.
func (p *Plan) forTokens(r *Subject, list []queue.Limit, each []int) [][]queue.Limit {
	refuse := p.Tokens.Exhausted == "refuse"
	usable := r.Tokens.Tokens()
	all := make([][]queue.Limit, 0, len(usable)+1)
	with := func(budget string) []queue.Limit {
		limits := append(make([]queue.Limit, 0, len(list)+1), list...)
		for _, i := range each {
			limits[i].Key, limits[i].Refuse = budget, refuse
		}
		return limits
	}
	for _, t := range usable {
		all = append(all, append(with(t.Budget()), queue.Limit{Name: TokenLimit, Title: "token", Key: t.Key(), Refuse: refuse}))
	}
	switch {
	case p.Tokens.Anonymous:
		all = append(all, append(with(""), queue.Limit{Name: TokenLimit, Title: "no token", Refuse: refuse}))
	case len(usable) == 0:
		// Nothing may go, until there is a token again.
		all = append(all, append(with(""), queue.Limit{Name: TokenLimit, Title: NoTokenTitle, Source: closedSource{}, N: 1, Refuse: refuse}))
	}
	return all
}

// with adds a limit to each list.
func (p *Plan) with(lists [][]queue.Limit, limit queue.Limit) [][]queue.Limit {
	all := make([][]queue.Limit, len(lists))
	for i, list := range lists {
		l := limit
		if len(p.Backends.Hosts) > 0 {
			l.Key = strings.TrimSpace(p.Backends.Hosts[i].Name + " " + l.Key)
		}
		all[i] = append(list[:len(list):len(list)], l)
	}
	return all
}

// passOver puts the list of another backend or token in the place of the list of each that is passed over:
// it is ready only when the other is.
func passOver(lists [][]queue.Limit, over []bool) [][]queue.Limit {
	lists = slices.Clone(lists)
	for i := range over {
		if over[i] {
			lists[i] = lists[slices.Index(over, false)]
		}
	}
	return lists
}

// knownOf returns the limits that are known of a request's service. They hold where the operator
// has written no limit of requests.
func (p *Plan) knownOf(r *Subject) []learn.KnownLimit {
	if !p.unlimited {
		return nil
	}
	return r.Documented
}

// knownLimit returns a limit of a service as the queue understands it.
func (p *Plan) knownLimit(k *learn.KnownLimit) queue.Limit {
	l := policy.KnownLimit(k)
	spec := limit.Spec{As: l.As, Amount: l.Amount, Window: l.Per.Length}
	return queue.Limit{
		Name: "known " + budget.NameOf(l), Title: l.Title() + ", known of this service", Spec: &spec, N: 1, Source: p.meters(p.Rule, l, &spec),
	}
}

// Subject has the properties of a request that its limits depend on.
type Subject struct {
	Method string
	Path   string // escaped in the usual way, without query

	Tokens     *tokens.Set // the tokens that the request may go with; nil: it goes as it came
	Credential string      // the budget of the client's own credential; "": the client sends none

	Known      *sites.Site        // what is known of the site; nil: nothing is learned there
	Class      *routes.Class      // of the request's route; nil: nothing is learned there
	Documented []learn.KnownLimit // limits that are known of the service

	Over []bool // of the alternatives, whether the request passes it over; nil: none

	Leads bool // it may be the first request of a route, for whose answer others wait

	Prior *queue.Limit // what robots.txt asks for; nil: nothing

	Estimate int64 // of the bytes of the answer, where bytes are limited
	Declared int64 // the bytes of the answer as the client declares them; 0: it does not
}

// mostExpected bounds the bytes that a request waits for because its connection has to hold
// them. What a large receive buffer holds beyond that is taken when the request is sent.
const mostExpected = 64 << 10

// estimatePart is the part of a limit of bytes that a request may expect at most: one of so
// many.
const estimatePart = 4

// expects returns the bytes of a limit that a request waits for: what its client declares, or
// what the site usually answers, or what the connection has to hold, but only a
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

// Whole returns the scope of a breaker: a backend, or the site if b is nil.
func Whole(b *backends.Backend) queue.Scope {
	if b != nil {
		return queue.Scope{Limit: BackendLimit, Key: b.Name}
	}
	return queue.Scope{}
}

// Scope returns the scope of a refusal, as narrow as can be told without words of the site: the
// route, or else the backend, which may be nil, or else all of the site. budget is the key of the limits
// that each token has alone. word is the kind of scope, for the metrics.
func (p *Plan) Scope(r *Subject, at *backends.Backend, budget, client string) (scope queue.Scope, word string) {
	if p == nil {
		return queue.Scope{}, "site"
	}
	var found *Limit
	for i := range p.Limits {
		limit := &p.Limits[i]
		if limit.Only != at.OwnLimits() {
			continue
		}
		if limit.Rule.Path != "" && limit.Rule.Covers(r.Method, r.Path) && (found == nil || len(limit.Rule.Path) >= len(found.Rule.Path)) {
			found = limit
		}
	}
	if scope = Whole(at); found != nil {
		need := found.Need
		switch {
		case at != nil:
			need.Key = at.Name
		case found.PerToken:
			need.Key = budget
		}
		scope = need.Scope(&queue.Request{Client: client, Method: r.Method, Path: r.Path})
	}
	switch {
	case scope == queue.Scope{}:
		return scope, "site"
	case scope.Limit == BackendLimit:
		return scope, "backend"
	}
	return scope, "route"
}
