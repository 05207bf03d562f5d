package dispatch

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/dispatch/robots"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/status"
)

// admission decides when a request is sent: it asks robots.txt, the breaker, the queue and
// the pool of tokens.
type admission struct {
	gate     *queue.Gate
	breakers *siteBreakers
	robots   *robots.Cache
	storage  *storage
	bytes    *siteBytes
	problems *problems
	activity *sitelog.Log
	clock    clock.Clock
	log      *logrus.Logger
	wake     func() // is called for each request
}

// wait holds a request until it may be sent. If it may not, wait tells why.
func (s *admission) wait(x *Request, r *http.Request) *problem.Problem {
	s.wake()
	if refused := s.breakers.refuse(x); refused != nil {
		return refused
	}
	x.subject.Prior = crawlDelay(x, r, s.robots)
	q, refused := s.prepare(x, r)
	if refused != nil {
		return refused
	}
	s.storage.broadcasts.Meet(x.waitContext(r), &q)
	permit, err := s.gate.Wait(x.waitContext(r), q)
	if refused := s.entered(x, permit, err); refused != nil {
		return refused
	}
	return s.waitUntilMayGo(x, r)
}

// prepare returns the question of a request to the queue. The wait of the request begins.
func (s *admission) prepare(x *Request, r *http.Request) (queue.Request, *problem.Problem) {
	q := s.ask(x, r)
	if !x.maySign() {
		return q, &problem.Insecure
	}
	t := &x.progress
	t.waitBegan = s.clock.Now()
	t.until = t.waitBegan
	if !x.Options.now() { // such a request is not sent a second time
		t.until = t.waitBegan.Add(patience(x)) // without the wait for its client's limits
	}
	return q, nil
}

// entered takes the queue's answer to a request: a permit, or an error.
func (s *admission) entered(x *Request, permit *queue.Permit, err error) *problem.Problem {
	x.reportQueued()
	if err != nil {
		s.noteRefusal(x, err)
		return s.problems.ofRefusal(x, err)
	}
	x.progress.permit = permit
	x.progress.before = x.own.waited + permit.Waited()
	return nil
}

// ask returns a request as the queue sees it.
func (s *admission) ask(x *Request, r *http.Request) queue.Request {
	x.subject.Method, x.subject.Path = r.Method, policy.NormalPath(r.URL.EscapedPath())
	x.progress.plan = x.Snapshot.planOf(x.site, x.rule)
	x.subject.Credential = ownBudget(r)
	if x.progress.plan != nil && x.progress.plan.CountsBytes {
		if x.subject.Estimate = -x.subject.Declared; x.subject.Estimate >= 0 { // a list of limits for the declared amount alone
			x.subject.Estimate = s.bytes.Sizes.Usual(x.site)
		}
	}
	s.findSubject(x)
	q := queue.Request{
		Site: x.site, Client: x.ClientName(), Priority: x.priority(),
		Cost: x.Options.Cost, Tag: x, Observe: x.Snapshot.policy.Observes(),
		Method: x.subject.Method, Path: x.subject.Path, Generation: x.Snapshot.made, Version: x.seen,
	}
	x.Options.bound(&q)
	q.Limits, q.Needs = x.progress.plan.Needs(&x.subject)
	if x.Client != nil {
		q.Weight = x.Client.Weight
	}
	if x.subject.Tokens != nil || x.rule != nil && len(x.rule.Backends) > 0 {
		q.Order = order{x}
	}
	return q
}

// waitUntilMayGo has a request that has a permit wait again as often as its breaker or its
// token requires.
func (s *admission) waitUntilMayGo(x *Request, r *http.Request) *problem.Problem {
	for {
		again, refused := s.mayGo(x, r)
		if again == nil {
			return refused
		}
		if err := x.progress.permit.Again(x.waitContext(r), *again); err != nil {
			return s.lostPermit(x, err)
		}
	}
}

// mayGo decides whether a request that has a permit is sent now. If again is not nil, the
// request has to wait once more.
func (s *admission) mayGo(x *Request, r *http.Request) (again *queue.Retry, refused *problem.Problem) {
	t := &x.progress
	s.noteGrant(x)
	t.result = queue.Result{Outcome: limit.Abandoned, Unsent: true}
	if x.Caller.HasLeft() {
		return nil, s.problems.ofRefusal(x, context.Canceled)
	}
	again, err := s.passBreakerAndToken(x, r)
	switch {
	case err != nil:
		return nil, s.problems.ofRefusal(x, err)
	case again == nil:
		if b := x.backend(); b != nil && b != t.to.backend { // otherwise it was counted when its backend was chosen
			t.to.leave()
			b.Load.Begin()
			t.to.backend = b
		}
		return nil, nil
	}
	t.to.leave()
	t.waitBegan = s.clock.Now()
	return again, nil
}

// passBreakerAndToken asks the breaker, and acquires a token. If one of them holds the
// request back, passBreakerAndToken returns the way back into the queue.
func (s *admission) passBreakerAndToken(x *Request, r *http.Request) (*queue.Retry, error) {
	t := &x.progress
	pass, until := s.breakers.Enter(x.breaker(), s.breakers.rule(), s.clock.Now())
	if !until.IsZero() && !x.Snapshot.policy.Observes() {
		// Another request failed since this one was granted.
		switch {
		case s.breakers.neverCame(x):
			return nil, &queue.Refusal{Reason: queue.TooLong, Limit: sitelog.SiteFailed, RetryAt: until}
		case x.grouped():
			return &queue.Retry{Result: t.result, NotBefore: until}, nil
		}
		return &queue.Retry{Result: t.result, Cool: x.breakerScope(), Until: until, Why: sitelog.SiteFailed}, nil
	}
	again, err := s.acquireToken(x, r)
	if again == nil && err == nil {
		t.pass = pass
	} else {
		pass.Cancel()
	}
	return again, err
}

// waitAgain puts a request back into the queue, at its old place, until it may be sent again.
func (s *admission) waitAgain(x *Request, r *http.Request, v verdict) *problem.Problem {
	if err := x.progress.permit.Again(x.waitContext(r), s.retryOf(x, v)); err != nil {
		return s.lostPermit(x, err)
	}
	if refused := s.waitUntilMayGo(x, r); refused != nil {
		return refused
	}
	x.meter.Replayed(v.reason)
	return nil
}

// retryOf tells the queue of a request that is sent again. The wait of the request begins.
func (s *admission) retryOf(x *Request, v verdict) queue.Retry {
	t := &x.progress
	t.to.leave()
	x.tellMembersSent(false)
	retry := queue.Retry{Result: t.result, Other: len(t.to.over) > 0 || len(x.subject.Over) > 0 || v.denied}
	switch {
	case v.refused:
		t.refusals++
		if !v.alone {
			retry.Cool, retry.Until, retry.Why = t.learned.at, v.until, v.why
		}
	case v.denied: // because of the token; the pool counts that
		if !v.token.IsZero() {
			retry.Cool, retry.Until, retry.Why, retry.Alone = scopeOfToken(t.token), v.token, "quarantine", true
		}
	default:
		t.failures++
	}
	if set := x.subject.Tokens; v.refused && set != nil && (len(set.Tokens()) > 1 || t.plan.Tokens.Anonymous) { // the first that is ready goes
		v.pause -= v.until.Sub(x.answered)
	}
	t.waitBegan = s.clock.Now()
	if v.pause > 0 && !(v.refused && t.to.elsewhere) {
		retry.NotBefore = t.waitBegan.Add(v.pause)
	}
	return retry
}

// noteGrant notes that a request is held no more, the time that it was held, and the limit.
func (s *admission) noteGrant(x *Request) {
	t := &x.progress
	before := t.waited
	x.noteWaits()
	waited := t.waited - before
	s.activity.Released(&x.activity, x.site, t.permit.BlockedBy(), waited)
	if s.activity.Debugs() && waited > 0 {
		x.LogDecision("let go after %v", waited.Round(time.Millisecond))
	}
}

// noteRefusal notes that a request is held no more and is not sent: its client has left, or
// the queue refuses the request.
func (s *admission) noteRefusal(x *Request, err error) {
	t := &x.progress
	waited := s.clock.Now().Sub(t.waitBegan)
	t.waited += waited
	limit, why := "", "its client has left"
	if stop := problem.StopOf(&x.ctx); stop != nil {
		why = stop.Title
	}
	if refusal, ok := errors.AsType[*queue.Refusal](err); ok {
		limit, why = refusal.Limit, refusal.Error()
	}
	if t.waiter != nil { // it did wait
		s.activity.Released(&x.activity, x.site, t.waiter.BlockedBy(), waited)
	} else {
		x.activity.Add(limit, waited)
	}
	if s.activity.Debugs() {
		x.LogDecision("not let go, after %v: %s", waited.Round(time.Millisecond), why)
	}
}

// lostPermit answers a request whose permit the queue has taken back after a wait.
func (s *admission) lostPermit(x *Request, err error) *problem.Problem {
	x.noteWaits()
	s.noteRefusal(x, err)
	x.progress.permit = nil
	return s.problems.ofRefusal(x, err)
}

// hooks implements queue.Hooks: the queue calls the dispatcher under the lock of a site.
type hooks struct{ *admission }

// The interfaces of the queue that types of other packages implement.
var (
	_ queue.Hooks     = hooks{}
	_ queue.Ranking   = order{}
	_ queue.Remote    = (*ledger.Ledger)(nil)
	_ queue.Learning  = (*ledger.Ledger)(nil)
	_ queue.Unknowing = (*ledger.SlowStart)(nil)
	_ queue.Storable  = (*ledger.Ledger)(nil)
)

// Waits is called when a request has to wait.
func (hooks) Waits(q *queue.Request, p *queue.Permit) {
	switch tag := q.Tag.(type) {
	case *Request:
		tag.beginWait(p)
	case *clientRequest:
		tag.x.beginWait(p)
	}
}

// Cooled is called when a cooldown begins in this process.
func (s hooks) Cooled(site string, at queue.Scope, until time.Time, why string) {
	s.storage.cooled(site, at, until, why)
}

// Limits returns the limits that a request has by the configuration that is new.
func (s hooks) Limits(q queue.Request) (limits [][]queue.Limit, needs *queue.Needs, seen uint64) {
	st := s.storage.sites.current.Load()
	if source, ok := q.Tag.(bandwidth.Tag); ok {
		return [][]queue.Limit{source.Limits()}, nil, q.Version
	}
	if t, ok := q.Tag.(interface {
		limits(*Snapshot) [][]queue.Limit
	}); ok {
		return t.limits(st), nil, q.Version
	}
	x, ok := q.Tag.(*Request)
	if !ok {
		return q.Limits, q.Needs, q.Version
	}
	x.progress.plan = st.planOf(x.site, st.policy.Match(x.Target).Rule)
	s.findSubject(x)
	limits, needs = x.progress.plan.Needs(&x.subject)
	return limits, needs, x.seen
}

// findSubject finds the class of a request's route, and the tokens that it may be sent with.
func (s *admission) findSubject(x *Request) {
	p := x.progress.plan
	x.subject.Class, x.subject.Tokens, x.subject.Documented, x.subject.Over = nil, nil, nil, nil
	x.subject.Leads = x.Client != crawler && !x.explained && !x.sentByCaller
	if p == nil {
		return
	}
	if p.Learns && x.subject.Known == nil {
		if x.explained {
			x.subject.Known = s.storage.learned.Recall(x.site)
		} else {
			x.subject.Known = s.storage.learned.Open(x.site)
		}
	}
	if p.Learns && x.subject.Known != nil {
		host := ""
		if x.grouped() && x.rule.Group != "rule" {
			host = x.Target.Host // of group: domain. What group: rule joins is counted together
		}
		said := learn.About(learn.Request{Method: x.subject.Method, Host: x.Target.Host, Path: x.subject.Path, Dialect: p.Dialect})
		x.subject.Documented = said.Limits
		x.subject.Class, x.seen = x.subject.Known.Class(x.subject.Method, host, x.subject.Path, said.EntitySegment)
	}
	if p.Pool != nil && x.Client != crawler { // robots.txt needs no token
		x.subject.Tokens = p.Pool.Set()
	}
	x.subject.Over = s.breakers.passedOver(x)
}

// Admit waits until a request may be sent that its caller sends itself. bytes is the length that
// the caller expects of the answer; 0 is the usual length at the site. Complete must follow,
// unless Admit tells why the request may not be sent.
func (s *Dispatcher) Admit(ctx context.Context, x *Request, bytes int64) *problem.Problem {
	x.sentByCaller, x.subject.Declared = true, bytes
	if x.Options.Wait > 0 {
		x.Options.Wait = max(x.Options.Wait, leastWait)
	}
	refused := s.match(x)
	r := x.HTTP.WithContext(x.Bind(ctx))
	if refused == nil {
		refused = owned(x.Snapshot.policy.Shard, x.Target, r.URL)
	}
	if refused == nil {
		refused = reachable(x)
	}
	if refused == nil {
		x.HTTP = r
		refused = s.admission.waitForClient(x)
	}
	if refused == nil {
		refused = s.admission.wait(x, r)
	}
	if refused != nil {
		s.End(x, 0)
		return refused
	}
	x.sent = s.clock.Now()
	x.first = x.sent
	x.progress.result = queue.Result{Outcome: limit.Abandoned}
	x.HTTP = r.WithContext(x.Bind(context.Background())) // it outlives the call
	return nil
}

// reachable refuses what a request through abide would not reach either, as far as that is
// known without asking for the addresses of a name.
func reachable(x *Request) *problem.Problem {
	to := x.Target
	switch {
	case x.Snapshot.ownAddresses.named(to.Host, to.Port):
		return &problem.Loop
	case x.rule != nil && len(x.rule.Backends) > 0:
		return nil
	}
	if err := x.Snapshot.dialer.Check(to.Host, to.Port); err != nil {
		return problem.OfUpstream(err)
	}
	return nil
}

// Complete reports the end of a request that Admit let go. The dispatcher learns from it as from an
// answer to a request of its own.
func (s *Dispatcher) Complete(x *Request, e status.PermitEnd) {
	defer s.End(x, 0)
	x.answered = s.clock.Now()
	if e.Unsent {
		x.progress.result = queue.Result{Outcome: limit.Abandoned, Unsent: true}
		return
	}
	if r := x.HTTP; e.Status > 0 {
		resp := &http.Response{StatusCode: e.Status, Header: http.Header{}, Body: http.NoBody, Request: r}
		for _, pair := range e.Headers {
			resp.Header.Add(strings.TrimSpace(pair[0]), pair[1])
		}
		hideToken(resp, x.progress.shown)
		s.learnAndJudge(x, r, resp, nil)
		x.meter.Request(x.subject.Method, e.Status, x.answered.Sub(x.sent))
	}
	if e.Bytes > 0 {
		x.meter.Read(int(e.Bytes))
		x.progress.result.Bytes, x.progress.result.Exact = e.Bytes, true
		x.received = e.Bytes
		s.bytes.Sizes.Add(x.site, e.Bytes)
	}
}
