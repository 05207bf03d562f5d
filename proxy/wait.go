package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/upstream"
)

// turn is what an exchange has to do with the queue: the permit it goes by, and
// how its attempts went.
type turn struct {
	bearer
	study    study // of the last answer
	plan     *plan
	permit   *queue.Permit
	probe    func(error)  // tells the breaker how the attempt ended
	result   queue.Result // of the last attempt
	until    time.Time    // how long it may wait
	failures int
	refusals int
	passed   uint64   // answers to others when it was refused last
	at       *backend // where the attempt is made, if it is counted there
	lost     error    // of the last attempt, if another was to follow it
	status   int      // the same, where there was an answer
	aimed    bool     // the request's URL names what it was sent to last
	avoid    []string // backends that failed this request

	// Of the permit, for the answer, which may come when that is over.
	waited  time.Duration
	held    *queue.Permit // the permit of its last wait; nil: it never had to wait
	holds   requestHolds  // its waits
	refused int           // answers that refused it because of a limit, the last one included
	before  time.Duration // of that, before the first attempt
	sent    int           // attempts that were made
	would   *queue.Keeps
	joined  bool // it shared the answer to another request
}

// wait holds the request until its site lets it go. The answer is a refusal of
// ours, nil when it may go.
func (s *Server) wait(x *exchange, r *http.Request) *answer {
	s.stir()
	if no := s.brokenSite(x); no != nil {
		return no
	}
	x.prior = s.prior(x, r)
	q := s.ask(x, r)
	if !x.mayCarry() {
		return &answerInsecure
	}
	began := time.Now()
	if s.desk != nil {
		s.desk.meet(x.while(r), &q)
	}
	x.turn.until = began
	if !x.wish.now() { // such a request is not sent a second time
		x.turn.until = began.Add(patience(x))
	}
	permit, err := s.gate.Wait(x.while(r), q)
	x.placed()
	if err != nil {
		s.heldInVain(x, err, time.Since(began))
		return s.heldBack(x, err)
	}
	x.turn.permit = permit
	x.turn.before = permit.Waited()
	return s.granted(x, r)
}

// ask is the request as the queue sees it.
func (s *Server) ask(x *exchange, r *http.Request) queue.Request {
	x.method, x.path = r.Method, policy.NormalPath(r.URL.EscapedPath())
	x.turn.plan = x.state.planOf(x.site, x.rule)
	x.own = ownBudget(r)
	if x.turn.plan != nil && x.turn.plan.bytes > 0 {
		if x.estimate = -x.declared; x.estimate >= 0 { // nobody else is like one who declares
			x.estimate = s.sizes.usual(x.site)
		}
	}
	s.place(x)
	q := queue.Request{
		Site: x.site, Client: x.clientName(), Priority: queue.DefaultPriority,
		Cost: x.wish.cost, Tag: x, Observe: x.state.policy.Observes(),
		Method: x.method, Path: x.path, Made: x.state.made, Seen: x.seen,
	}
	if x.wish.limited {
		q.Wait, q.Now = x.wish.wait, x.wish.now()
		if q.Now {
			q.Wait = leastWait
		}
	}
	q.Limits, q.Shared = x.turn.plan.needs(x)
	if x.rule != nil {
		q.Priority = x.rule.Priority
	}
	if x.client != nil {
		q.Weight = x.client.weight
		if x.client.priority != queue.DefaultPriority {
			q.Priority = x.client.priority
		}
	}
	if x.wish.urgency > 0 {
		q.Priority = x.wish.urgency - 1
	}
	switch {
	case x.turn.set != nil:
		q.Pick = x.chooseToken
		if x.turn.denials.None() {
			q.Order = x.turn.set.Order()
		}
	case x.rule != nil && len(x.rule.Backends) > 0:
		q.Pick = x.choose
	}
	return q
}

// while is the context of a wait.
func (x *exchange) while(r *http.Request) context.Context {
	if x.waiting != nil {
		return x.waiting
	}
	return r.Context()
}

// patience is how long a request may wait, in all its waits.
func patience(x *exchange) time.Duration {
	wait := x.state.policy.Queue.Wait
	if x.wish.now() {
		return leastWait
	}
	if x.wish.limited {
		wait = min(wait, x.wish.wait)
	}
	return wait
}

// inTime tells whether what a verdict asks for can still come to pass. What a
// failure has left of an answer is better than none; a refusal is looked at by the
// queue, which knows when the site would be ready. broken is until when the breaker
// keeps all that could be tried.
func (t *turn) inTime(v verdict, broken, now time.Time) bool {
	return v.refused || !now.Add(v.pause).After(t.until) && !broken.After(t.until)
}

// granted is for a request that has a permit: it may go if its breaker lets it.
func (s *Server) granted(x *exchange, r *http.Request) *answer {
	t := &x.turn
	for {
		s.letGo(x)
		t.result = queue.Result{Outcome: limit.Abandoned, Unsent: true}
		if x.leftWhileHeld() {
			return s.heldBack(x, errLeft)
		}
		again, err := s.depart(x, r)
		switch {
		case err != nil:
			return s.heldBack(x, err)
		case again == nil:
			x.embark()
			return nil
		}
		t.left()
		began := time.Now()
		if err := t.permit.Again(x.while(r), *again); err != nil {
			return s.overFor(x, err, time.Since(began))
		}
	}
}

// depart has the breaker and the token say whether a granted request may go. If not
// it answers what the queue has to be told.
func (s *Server) depart(x *exchange, r *http.Request) (*queue.Retry, error) {
	t := &x.turn
	done, until := s.breakers.enter(x.party(), s.policy().Breaker, time.Now())
	if !until.IsZero() && !x.state.policy.Observes() {
		// Another request came first, by another way, and failed.
		if x.grouped() {
			return &queue.Retry{Result: t.result, NotBefore: until}, nil
		}
		return &queue.Retry{Result: t.result, Cool: t.plan.party(x), Until: until, Why: becauseBroken}, nil
	}
	again, err := s.equip(x, r)
	if again == nil && err == nil {
		t.probe = done
	} else if done != nil {
		done(errNoVerdict)
	}
	return again, err
}

// again sends the request back into the queue, at its old place.
func (s *Server) again(x *exchange, r *http.Request, v verdict) *answer {
	t := &x.turn
	t.left()
	x.flying(false)
	retry := queue.Retry{Result: t.result}
	switch {
	case v.refused:
		t.refusals++
		retry.Cool, retry.Until, retry.Why = t.study.at, v.until, v.why
	case v.denied: // the token is to blame, and the pool counts that
		if !v.token.IsZero() {
			retry.Cool, retry.Until, retry.Why, retry.Alone = scopeOfToken(t.token), v.token, "quarantine", true
		}
	default:
		t.failures++
	}
	if v.refused && t.ways() {
		v.pause -= v.until.Sub(x.answered)
	}
	if v.pause > 0 && !(v.refused && t.elsewhere()) {
		retry.NotBefore = time.Now().Add(v.pause)
	}
	began := time.Now()
	if err := t.permit.Again(x.while(r), retry); err != nil {
		return s.overFor(x, err, time.Since(began))
	}
	if no := s.granted(x, r); no != nil {
		return no
	}
	x.meter.Replayed(v.reason)
	return nil
}

// learn hears how an attempt ended and tells the queue, the breaker and the
// balance of backends. It takes an attempt back that could not be made in time.
func (s *Server) learn(x *exchange, status int, err error, v verdict) verdict {
	t, who := &x.turn, x.party()
	t.result = queue.Result{Outcome: outcomeOf(status, err, v), Unsent: err != nil && unsent(err)}
	how, took := healthOf(status, err, v), x.answered.Sub(x.sent)
	if upstream.KindOf(err) == upstream.Canceled {
		t.abandoned(took, x.answered)
	}
	t.heard(how, took, x.answered)
	broken := s.judged(who, t.probe, how, status, err, x.answered)
	t.probe = nil
	if !broken.IsZero() && !x.grouped() {
		t.permit.Cool(t.plan.party(x), broken, becauseBroken)
	}
	if t.elsewhere() {
		broken = time.Time{}
	}
	v.again = v.again && t.inTime(v, broken, x.answered)
	if v.refused {
		t.refused++
		x.meter.RefusedBy(t.study.word)
		s.activity.refused(siteRefusal{
			site: x.site, status: status, scope: t.study.word, token: t.label, until: v.until, why: v.why,
			again: v.again && v.until.Sub(x.answered) <= x.state.policy.Queue.Wait,
		})
	} else if err == nil {
		s.activity.accepted(x.site, x.sent)
	}
	if s.activity.debugs() {
		s.activity.outcome(x, status, err, v)
	}
	switch {
	case v.again:
		if t.lost, t.status = err, status; v.refused {
			t.status = 0
		}
	case v.refused:
		t.permit.Cool(t.study.at, v.until, v.why)
	default:
		t.permit.Answered(t.result.Outcome) // who waits behind a probe need not wait for its body
	}
	return v
}

// letGo notes that the request is held no more, and for what it was.
func (s *Server) letGo(x *exchange) {
	t := &x.turn
	before := t.waited
	t.note()
	waited := t.waited - before
	if waited > 0 {
		t.holds.add(t.permit.KeptBy(), waited)
		s.activity.released(x, t.permit.KeptBy(), waited)
	}
	if s.activity.debugs() && waited > 0 {
		s.activity.decided(x, "let go after %v", waited.Round(time.Millisecond))
	}
}

// heldInVain notes that the request is held no more and does not go: its client has
// left, or the queue refuses it.
func (s *Server) heldInVain(x *exchange, err error, waited time.Duration) {
	t := &x.turn
	t.waited += waited
	limit, why := "", "its client has left"
	var no *queue.Refusal
	if errors.As(err, &no) {
		limit, why = no.Limit, no.Error()
	}
	if t.held != nil { // it did wait
		limit = t.held.KeptBy()
	}
	t.holds.add(limit, waited)
	if t.held != nil {
		s.activity.released(x, limit, waited)
	}
	if s.activity.debugs() {
		s.activity.decided(x, "not let go, after %v: %s", waited.Round(time.Millisecond), why)
	}
}

// note keeps what the answer tells of the permit.
func (t *turn) note() {
	t.waited, t.would = t.permit.Waited(), t.permit.Would()
}

// overFor is for a request whose permit the queue has taken back, after a last wait.
func (s *Server) overFor(x *exchange, err error, waited time.Duration) *answer {
	x.turn.note()
	s.heldInVain(x, err, waited)
	x.turn.permit = nil
	return s.heldBack(x, err)
}

// finish gives the permit up, once.
func (t *turn) finish() {
	t.left()
	if t.probe != nil {
		t.probe(errNoVerdict)
		t.probe = nil
	}
	if t.permit != nil {
		t.permit.Finish(t.result)
		t.permit = nil
	}
}

// heldBack turns the queue's refusal into an answer.
func (s *Server) heldBack(x *exchange, err error) *answer {
	var no *queue.Refusal
	if errors.Is(err, errInsecure) {
		return &answerInsecure
	}
	if !errors.As(err, &no) {
		if a := x.upload.answer(); a != nil {
			return a // it has not left: what it sends makes no sense
		}
		return answerLeft
	}
	a, t := &answerQueueFull, &x.turn
	switch no.Reason {
	case queue.TooLong:
		switch a = &answerTooLong; {
		case t.lost != nil:
			return s.failure(x, t.lost) // which was to be tried again
		case t.status != 0:
			a = answerFailed.as(t.status)
		case strings.Contains(no.Limit, becauseBroken):
			a = &answerBroken
		}
	case queue.Never:
		a = &answerNever
	case queue.Away:
		a = &answerAway
	case queue.Exhausted:
		a = &answerExhausted
	case queue.Draining:
		a = &answerDraining
	}
	own := a.until(no.Limit, no.RetryAt, time.Now())
	if own.retry == 0 && no.Reason != queue.Never {
		own.retry = time.Second // nobody knows when, but waiting helps
	}
	return own
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

// HeldCounts counts the requests that wait at each site.
func (s *Server) HeldCounts() map[queue.HeldCount]int { return s.gate.HeldCounts("") }

// Held is a request that waits, and for what.
type Held = queue.Held

// boundsOf are the queue's, as the operator wrote them.
func boundsOf(p *policy.Policy) queue.Bounds {
	return queue.Bounds{Max: p.Queue.Max, PerSite: p.Queue.PerSite, Wait: p.Queue.Wait, Aging: p.Queue.Aging}
}

// replan gives a request the limits of the configuration that is new.
func (s *Server) replan(q queue.Request) (limits [][]queue.Limit, seen uint64) {
	st := s.state.Load()
	if p, ok := q.Tag.(pouch); ok {
		return [][]queue.Limit{st.bytesOf(p.who, p.trickles)}, q.Seen
	}
	x, ok := q.Tag.(*exchange)
	if !ok {
		return q.Limits, q.Seen
	}
	x.turn.plan = st.planOf(x.site, st.policy.Match(x.target).Rule)
	s.place(x)
	limits, _ = x.turn.plan.needs(x)
	return limits, x.seen
}
