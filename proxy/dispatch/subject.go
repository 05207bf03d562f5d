package dispatch

import (
	"hash/maphash"
	"net/http"
	"strconv"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/tokens"
)

// token returns the token of the request's permit; nil: it is sent without one.
func (x *Request) token() *tokens.Token {
	t := &x.progress
	if x.subject.Tokens == nil || t.permit == nil {
		return nil
	}
	if usable, i := x.subject.Tokens.Tokens(), t.permit.Choice(); i < len(usable) {
		return usable[i]
	}
	return nil
}

// budget returns the key of the limits that the request takes from: that of its token, of its
// backend or of the client's own credential. "" is none of these.
func (x *Request) budget() string {
	if t := x.token(); t != nil {
		return t.Budget()
	}
	if b := x.backend(); b != nil {
		return b.Name
	}
	if x.subject.Tokens == nil {
		return x.subject.Credential
	}
	return ""
}

// scopeOfToken returns the scope of the cooldowns of a token.
func scopeOfToken(t *tokens.Token) queue.Scope {
	return queue.Scope{Limit: plans.TokenLimit, Key: t.Key()}
}

// ownPrefix begins the names of the budgets of clients' own credentials.
const ownPrefix = "credential "

// fingerprints is random, so that no fingerprint leads back to a credential or a name.
var fingerprints = maphash.MakeSeed()

// ownBudget returns the key of the limits of a client's own credential, "" without one: a site
// counts for each credential.
func ownBudget(r *http.Request) string {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return ""
	}
	return ownPrefix + strconv.FormatUint(maphash.String(fingerprints, values[0]), 36)
}

// owners finds the pool and the token that a budget of a site belongs to.
type owners struct {
	sites  map[string]string            // :: site → pool
	labels map[string]map[string]string // :: pool → budget → labels
}

// owners returns the owners of the budgets of a configuration.
func (st *Snapshot) owners() owners {
	o := owners{map[string]string{}, map[string]map[string]string{}}
	for name, pool := range st.pools {
		o.labels[name] = pool.Labels()
	}
	return o
}

// pool returns the name of a site's pool, "" if the site has none.
func (o *owners) pool(p *policy.Policy, site string) string {
	name, known := o.sites[site]
	if known {
		return name
	}
	if rule := p.RuleOf(site); rule != nil {
		name = rule.Pool
	}
	o.sites[site] = name
	return name
}
