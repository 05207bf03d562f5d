package dispatch

import (
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/tokens"
)

// lessons passes on what answers say: to what is known of the site, the queue, the pool of
// tokens, the breaker, the load of the backend, and the log.
type lessons struct {
	gate     *queue.Gate
	breakers *siteBreakers
	activity *sitelog.Log
	clock    clock.Clock
	log      *logrus.Logger
}

// tellAll tells the queue, the breaker and the load of the backend how an attempt ended. If
// the next attempt could not be made in time, the answer is a verdict without one.
func (s *lessons) tellAll(x *Request, status int, err error, v verdict) verdict {
	t, key := &x.progress, x.breaker()
	t.result = queue.Result{Outcome: outcomeOf(status, err, v), Unsent: err != nil && unsent(err)}
	how, took := backends.HealthOf(status, err, v.refused), x.answered.Sub(x.sent)
	if upstream.KindOf(err) == upstream.Canceled {
		t.addAbandoned(took, x.answered)
	}
	t.addHealth(how, took, x.answered)
	broken := s.breakers.update(key, t.pass, how, status, err, x.answered)
	t.pass = backends.Pass{}
	if !broken.IsZero() && !x.grouped() {
		t.permit.Cool(x.breakerScope(), broken, sitelog.SiteFailed)
	}
	if t.hasOtherBackend() {
		broken = time.Time{}
	}
	v.again = v.again && t.inTime(v, broken, x.answered)
	if v.refused {
		t.refusedAnswers++
		x.meter.RefusedBy(t.learned.word)
		s.activity.Refused(sitelog.Refusal{
			Site: x.site, Status: status, Scope: t.learned.word, Token: t.label, Until: v.until, Why: v.why,
			Again: v.again && v.until.Sub(x.answered) <= x.Snapshot.policy.Queue.Wait,
		})
	} else if err == nil {
		s.activity.Accepted(x.site, x.sent)
	}
	if s.activity.Debugs() {
		x.decidedOutcome(status, err, v)
	}
	switch {
	case v.again:
		if t.lastError, t.lastStatus = err, status; v.refused {
			t.lastStatus = 0
		}
	case v.refused:
		t.permit.Cool(t.learned.at, v.until, v.why)
	default:
		t.permit.Answered(t.result.Outcome) // requests that wait for the result of a probe need not wait for its body
	}
	return v
}

// judgeToken tells the pool how the site answered to the token. If another token may be
// accepted, the request is sent again: the site has not done what it denied.
func (s *lessons) judgeToken(x *Request, r *http.Request, resp *http.Response, v verdict) verdict {
	t := &x.progress
	if t.token == nil {
		return v
	}
	again, until := s.tellPool(x, statusOf(resp), v)
	if again && x.replayable(r) {
		return verdict{again: true, denied: true, reason: "denied", token: until}
	}
	return v
}

// tellPool tells the pool how the site answered to the token. again is true if another
// token should be tried; until is how long this one is not used.
func (s *lessons) tellPool(x *Request, status int, v verdict) (again bool, until time.Time) {
	t := &x.progress
	token, pool, now := t.token, t.plan.Pool, x.answered
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	switch {
	case status == 0:
		pool.EndWithoutAnswer(token, t.began)
		return false, time.Time{}
	case !denied || v.refused:
		if v.refused {
			pool.Cool(now, token, x.poolRoute(x.route()), v.until, v.why)
		}
		s.quarantine(x, pool.Success(now, token, x.sent, &t.denials))
		return false, time.Time{}
	case status == http.StatusUnauthorized && x.subject.Tokens.Renew(now, token, t.credential):
		return true, time.Time{}
	}
	d := pool.Deny(now, token, status, x.sent, &t.denials)
	for _, free := range d.Released {
		s.gate.EndCooldowns(scopeOfToken(free))
	}
	if !d.Until.IsZero() {
		s.log.Warnf("%s answers %d to the token %s of %s: it is not used until %s", x.site, status, token.Label(), pool.Name(), d.Until.Format(time.RFC3339))
		s.gate.CoolAll(scopeOfToken(token), d.Until, "quarantine")
	}
	return d.Again, d.Until
}

// quarantine keeps tokens from being used that the site does not accept: another token was
// accepted for the same request.
func (s *lessons) quarantine(x *Request, denied []*tokens.Token) {
	pool, now := x.progress.plan.Pool, s.clock.Now()
	for _, token := range denied {
		availability := pool.Availability(now, token, "")
		s.log.Warnf("%s does not accept the token %s of %s: it is not used until %s", x.site, token.Label(), pool.Name(), availability.Until.Format(time.RFC3339))
		s.gate.CoolAll(scopeOfToken(token), availability.Until, "quarantine")
	}
}
