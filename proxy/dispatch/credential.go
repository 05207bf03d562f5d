package dispatch

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/tokens"
)

// reasonToken is the reason of a cooldown of a token that another site has refused.
const reasonToken = "token"

// maySign reports whether the request's token, if it gets one, may be sent to its target.
func (x *Request) maySign() bool {
	return x.subject.Tokens == nil || x.progress.plan.Rule.MaySign(x.Target)
}

// errInsecure is the error of a request that would show a token to others than its site.
var errInsecure = errors.New("a token may not go there")

// order is the order of a request's tokens, or else of its backends. It implements queue.Ranking.
type order struct{ *Request }

// Rank returns the place of a token or backend. A backend that the attempt passes over comes after the others.
func (x order) Rank(i int) queue.Rank {
	if x.subject.Tokens != nil {
		return x.subject.Tokens.Rank(i, &x.progress.denials)
	}
	group := &x.progress.plan.Backends
	rank := group.Rank(i, x.ClientName(), x.Snapshot.clock.Now())
	if i < len(group.Hosts) && slices.Contains(x.progress.to.over, group.Hosts[i].Name) {
		rank[0] |= 1 << 63
	}
	return rank
}

// Rests returns until when a token is blocked because of another site's answer.
func (x order) Rests(i int) time.Time {
	if x.subject.Tokens == nil {
		return time.Time{}
	}
	return x.subject.Tokens.Rests(i)
}

// Common returns the set of tokens, unless one was denied for the request.
func (x order) Common() any {
	if x.subject.Tokens == nil || !x.progress.denials.None() {
		return nil
	}
	return x.subject.Tokens
}

// Chosen counts the request at its token or backend at once: the queue may let the next one go
// before this one is sent.
func (x order) Chosen(i int) {
	if x.subject.Tokens != nil {
		x.subject.Tokens.Chosen(i)
		return
	}
	group, to := &x.progress.plan.Backends, &x.progress.to
	if group.Chosen(i); i < len(group.Hosts) {
		to.leave()
		to.backend = &group.Hosts[i]
		to.backend.Load.Begin()
	}
}

// longestRest is longer than any quarantine and any Retry-After: a token that rests for
// longer is disabled.
const longestRest = 365 * 24 * time.Hour

// acquireToken gives a granted request the credential of its token. If that is not ready,
// acquireToken returns the way back into the queue.
func (s *admission) acquireToken(x *Request, r *http.Request) (*queue.Retry, error) {
	t := &x.progress
	t.token, t.label, t.shown = x.token(), "", nil
	if !x.maySign() {
		return nil, errInsecure // the rule is another since a reload
	}
	switch {
	case t.token != nil:
	case x.subject.Tokens != nil && !t.plan.Tokens.Anonymous: // abide only observes, so the queue let it go
		return nil, &queue.Refusal{Reason: queue.Exhausted, Limit: plans.NoTokenTitle}
	default:
		return nil, nil
	}
	pool, now := t.plan.Pool, s.clock.Now()
	again := queue.Retry{Result: t.result, Cool: scopeOfToken(t.token), Why: reasonToken, Alone: true}
	if again.Until = pool.Begin(now, t.token, x.site); !again.Until.IsZero() && !x.Snapshot.policy.Observes() {
		if pool.Availability(now, t.token, x.site).State == tokens.Quarantined {
			again.Why = queue.Quarantine
		}
		if again.Until.Sub(now) > longestRest {
			again.Until = now.Add(time.Second) // it was disabled a moment ago: soon the limits are others
		}
		t.token = nil
		return &again, nil
	}
	secret, err := x.subject.Tokens.Credential(x.waitContext(r), t.token)
	if err == nil {
		t.credential, t.label, t.began = secret, t.token.Label(), now
		t.shown = x.subject.Tokens.Placement().Finder(secret)
		return nil, nil
	}
	pool.EndWithoutAnswer(t.token, now)
	token := t.token
	t.token = nil
	failed, ok := errors.AsType[*tokens.ExchangeError](err)
	if !ok {
		return nil, err // the client has left
	}
	s.log.WithField("token", failed.Label).Warn(failed)
	again.Until = failed.RetryAt
	if failed.Rejected {
		if d := pool.Deny(s.clock.Now(), token, tokens.Answer{Status: http.StatusUnauthorized, Sent: now}, nil); d.Until.After(again.Until) {
			again.Until = d.Until
		}
	}
	return &again, nil
}

// sign returns the request with its token. If a pool allows requests without a token, the
// credential of the client is removed.
func (x *Request) sign(r *http.Request) *http.Request {
	t := &x.progress
	if x.subject.Tokens == nil {
		return r
	}
	request := r.WithContext(r.Context())
	url := *r.URL
	request.URL, request.Header = &url, r.Header.Clone()
	if t.token != nil {
		x.subject.Tokens.Placement().Apply(request, t.credential)
	} else {
		x.subject.Tokens.Placement().Strip(request)
	}
	return request
}

// poolRoute returns the name of a route in the pool, which knows the routes of all sites.
func (x *Request) poolRoute(route string) string { return x.site + " " + route }

// route returns the name of the request's route.
func (x *Request) route() string {
	if x.subject.Class != nil {
		return x.subject.Class.Route
	}
	return x.subject.Method + " " + x.subject.Path
}
