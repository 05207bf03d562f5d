package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/upstream"
)

// turn is what an exchange has to do with the queue: the permit it goes by, and
// how its attempts went.
type turn struct {
	permit   *queue.Permit
	scope    queue.Scope // what a refusal of the site is about
	result   queue.Result
	failures int
	refusals int
	waited   time.Duration // before the first attempt
}

// wait holds the request until its site lets it go. The response is a refusal of
// ours, nil when it may go.
func (s *Server) wait(x *exchange, r *http.Request, rule *policy.Site) *http.Response {
	q := queue.Request{
		Site: x.site, Client: x.clientName(), Priority: queue.DefaultPriority,
		Cost: x.wish.cost, Wait: x.wish.wait, Tag: x, Observe: x.state.policy.Observes(),
	}
	if rule != nil {
		q.Priority = rule.Priority
	}
	if x.client != nil {
		q.Weight = x.client.weight
		if x.client.priority != queue.DefaultPriority {
			q.Priority = x.client.priority
		}
	}
	if x.wish.priority >= 0 {
		q.Priority = x.wish.priority
	}
	x.method, x.path = r.Method, r.URL.EscapedPath()
	q.Limits, x.turn.scope = x.state.plans[rule].needs(x)
	permit, err := s.gate.Wait(r.Context(), q)
	if err != nil {
		return s.heldBack(x, r, err)
	}
	x.turn.permit = permit
	x.turn.waited = permit.Waited()
	x.meter.Waited(x.turn.waited)
	x.turn.result = queue.Result{Outcome: limit.Abandoned}
	return nil
}

// retry sends the request back into the queue, at its old place.
func (s *Server) retry(x *exchange, r *http.Request, v verdict) *http.Response {
	t := &x.turn
	again := queue.Retry{Result: t.result}
	if v.refused {
		t.refusals++
		again.Cool, again.Until, again.Why = t.scope, v.until, v.why
	} else {
		t.failures++
		again.NotBefore = time.Now().Add(v.pause)
	}
	x.meter.Replayed(v.reason)
	if err := t.permit.Again(r.Context(), again); err != nil {
		t.permit = nil // it is finished
		return s.heldBack(x, r, err)
	}
	t.result = queue.Result{Outcome: limit.Abandoned}
	return nil
}

// learn notes how an attempt ended, for the queue.
func (t *turn) learn(status int, err error, v verdict) {
	switch {
	case v.refused:
		t.result.Outcome = limit.Refused
	case err != nil || status >= 500:
		t.result.Outcome = limit.Failed
		t.result.Unsent = err != nil && unsent(err)
	default:
		t.result.Outcome = limit.Success
	}
}

// unsent tells whether nothing of a request that failed has reached its site.
func unsent(err error) bool {
	var e *upstream.Error
	return errors.As(err, &e) && !e.Sent
}

// kind is the scope of a refusal, in a word.
func (t *turn) kind() string {
	if t.scope.Limit != "" {
		return "route"
	}
	return "site"
}

// finish gives the permit up, once.
func (t *turn) finish() {
	if t.permit != nil {
		t.permit.Finish(t.result)
		t.permit = nil
	}
}

// heldBack turns the queue's refusal into an answer.
func (s *Server) heldBack(x *exchange, r *http.Request, err error) *http.Response {
	var no *queue.Refusal
	if !errors.As(err, &no) {
		panic(http.ErrAbortHandler) // the client has left
	}
	a := &answerQueueFull
	switch no.Reason {
	case queue.TooLong:
		a = &answerTooLong
	case queue.Never:
		a = &answerNever
	case queue.Draining:
		a = &answerDraining
	}
	s.metrics.Refused(a.reason)
	return a.until(no.Limit, no.RetryAt, time.Now()).response(r, x.site)
}

// clientName is whose turn it is: the name that authenticated, the one that the
// request gives where nobody has to, or else the address.
func (x *exchange) clientName() string {
	switch {
	case x.client != nil:
		return x.client.name
	case x.wish.client != "" && len(x.state.policy.Access.Clients) == 0:
		return x.wish.client
	case x.conn != nil:
		return x.conn.name()
	}
	return ""
}

// Holds are the requests that wait at a site, in order; "" is every site.
func (s *Server) Holds(site string) []Held { return s.gate.Holds(site) }

// Held is a request that waits, and for what.
type Held = queue.Held

// boundsOf are the queue's, as the operator wrote them.
func boundsOf(p *policy.Policy) queue.Bounds {
	return queue.Bounds{Max: p.Queue.Max, PerSite: p.Queue.PerSite, Wait: p.Queue.Wait, Aging: p.Queue.Aging}
}

// replan gives a request that waits the limits of the configuration that is new.
func (s *Server) replan(q queue.Request) [][]queue.Limit {
	x, ok := q.Tag.(*exchange)
	if !ok {
		return q.Limits
	}
	st := s.state.Load()
	limits, _ := st.plans[st.policy.Match(x.target).Rule].needs(x)
	return limits
}
