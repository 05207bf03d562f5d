package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/redact"
	"github.com/abide-proxy/abide/tokens"
)

// bearer is what an exchange has to do with the tokens of its pool.
type bearer struct {
	set        *tokens.Set   // those that it may go with; nil: it goes as it came
	token      *tokens.Token // of the attempt; nil is none
	label      string        // of the last attempt, for the answer
	credential policy.Secret
	shown      *redact.Finder // of the credential, in what the site answers; nil without one
	began      time.Time      // of the attempt, as the pool knows it
	denials    tokens.Denials
}

// titleOfNoToken is what people read of a pool whose tokens are all disabled.
const titleOfNoToken = "no token is enabled"

// becauseOfToken is what keeps a token that another site has found out about.
const becauseOfToken = "token"

// mayCarry tells whether the request may have a token where it goes, if it is to
// have one at all.
func (x *exchange) mayCarry() bool {
	return x.turn.set == nil || x.turn.plan.rule.MaySign(x.target)
}

// errInsecure is for a request that would show a token to others than its site.
var errInsecure = errors.New("a token may not go there")

// choose a token: see Hold.Pick. The queue asks under the lock of the site.
func (x *exchange) chooseToken(ready []int) int {
	t := &x.turn
	if t.set == nil {
		return x.choose(ready) // since a reload
	}
	return t.set.PickFor(ready, time.Now(), &t.denials)
}

// ways tells whether a request may go in more than one way: with several tokens, or
// without any. What it was refused with cools, and it goes with the first that may.
func (t *turn) ways() bool {
	return t.set != nil && (len(t.set.Tokens()) > 1 || t.plan.tokens.Anonymous)
}

// longestRest is longer than any quarantine, and than anybody is believed.
const longestRest = 365 * 24 * time.Hour

// equip gives a granted request the credential of its token. It answers with what
// the queue has to be told when that cannot be had now, nil when it may go.
func (s *Server) equip(x *exchange, r *http.Request) (*queue.Retry, error) {
	t := &x.turn
	t.token, t.label, t.shown = x.token(), "", nil
	if !x.mayCarry() {
		return nil, errInsecure // since a reload
	}
	switch {
	case t.token != nil:
	case t.set != nil && !t.plan.tokens.Anonymous: // it was let go only to observe it
		return nil, &queue.Refusal{Reason: queue.Exhausted, Limit: titleOfNoToken}
	default:
		return nil, nil
	}
	pool, now := t.plan.pool, time.Now()
	again := queue.Retry{Result: t.result, Cool: scopeOfToken(t.token), Why: becauseOfToken, Alone: true}
	if again.Until = pool.Begin(now, t.token, ""); !again.Until.IsZero() && !x.state.policy.Observes() {
		if again.Until.Sub(now) > longestRest {
			again.Until = now.Add(time.Second) // it was disabled a moment ago, and the limits will be others
		}
		t.token = nil
		return &again, nil
	}
	secret, err := t.set.Credential(x.while(r), t.token)
	if err == nil {
		t.credential, t.label, t.began = secret, t.token.Label(), now
		t.shown = t.set.Put().Finder(secret)
		return nil, nil
	}
	pool.Leave(t.token, now)
	token := t.token
	t.token = nil
	var failed *tokens.ExchangeError
	if !errors.As(err, &failed) {
		return nil, err // the client has left
	}
	s.log.Warn(failed)
	again.Until = failed.RetryAt
	if failed.Rejected {
		if d := pool.Deny(time.Now(), token, http.StatusUnauthorized, now, nil); d.Until.After(again.Until) {
			again.Until = d.Until
		}
	}
	return &again, nil
}

// carry is the request with its token, or without what its client has sent in the
// place of one.
func (x *exchange) carry(r *http.Request) *http.Request {
	t := &x.turn
	if t.set == nil {
		return r
	}
	one := r.WithContext(r.Context())
	url := *r.URL
	one.URL, one.Header = &url, r.Header.Clone()
	if t.token != nil {
		t.set.Put().Apply(one, t.credential)
	} else {
		t.set.Put().Strip(one)
	}
	return one
}

// credit tells the pool what an attempt says of its token, and has the request go
// again where another may be accepted: what was denied was not done.
func (s *Server) credit(x *exchange, r *http.Request, resp *http.Response, v verdict) verdict {
	t := &x.turn
	if t.token == nil {
		return v
	}
	again, until := s.accepted(x, statusOf(resp), v)
	if again && x.replayable(r) {
		return verdict{again: true, denied: true, reason: "denied", token: until}
	}
	return v
}

// accepted tells the pool what an answer says of the attempt's token, and whether
// another should be tried.
func (s *Server) accepted(x *exchange, status int, v verdict) (again bool, until time.Time) {
	t := &x.turn
	token, pool, now := t.token, t.plan.pool, x.answered
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	switch {
	case status == 0:
		pool.Leave(token, t.began)
		return false, time.Time{}
	case !denied || v.refused:
		if v.refused {
			pool.Cool(now, token, x.routeOfSite(x.route()), v.until, v.why)
		}
		s.convict(x, pool.Success(now, token, x.sent, &t.denials))
		return false, time.Time{}
	case status == http.StatusUnauthorized && t.set.Renew(now, token, t.credential):
		return true, time.Time{}
	}
	d := pool.Deny(now, token, status, x.sent, &t.denials)
	for _, free := range d.Acquitted {
		s.gate.WarmAll(scopeOfToken(free))
	}
	if !d.Until.IsZero() {
		s.log.Warnf("%s answers %d to the token %s of %s: it is not used until %s", x.site, status, token.Label(), pool.Name(), d.Until.Format(time.RFC3339))
		s.gate.CoolAll(scopeOfToken(token), d.Until, "quarantine")
	}
	return d.Again, d.Until
}

// convict keeps tokens from being used that turned out to be denied rightly.
func (s *Server) convict(x *exchange, guilty []*tokens.Token) {
	pool, now := x.turn.plan.pool, time.Now()
	for _, token := range guilty {
		is := pool.Standing(now, token, "")
		s.log.Warnf("%s does not accept the token %s of %s: it is not used until %s", x.site, token.Label(), pool.Name(), is.Until.Format(time.RFC3339))
		s.gate.CoolAll(scopeOfToken(token), is.Until, "quarantine")
	}
}

// routeOfSite is a route of the request's site, for the pool, which knows of all sites. The
// queue sees to it that nothing goes there.
func (x *exchange) routeOfSite(route string) string { return x.site + " " + route }

// route is the request's, for people and for the pool.
func (x *exchange) route() string {
	if x.class != nil {
		return x.class.Route
	}
	return x.method + " " + x.path
}
