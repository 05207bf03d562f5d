package dispatch

import (
	"net/http"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/sites"
)

// learned is what the last answer says of a refusal.
type learned struct {
	refusal hint
	at      queue.Scope // what the refusal is about
	word    string      // the kind of scope, for the metrics
}

// learnFrom reads what an answer says of limits, and passes it on. It returns the answer to
// be used from now on: reading may have taken the beginning of the body, see headOf.
func (s *lessons) learnFrom(x *Request, r *http.Request, resp *http.Response) *http.Response {
	t := &x.progress
	t.learned = learned{}
	if resp == nil {
		return nil
	}
	if t.plan == nil || !t.plan.Learns || x.subject.Class == nil {
		t.learned.plain(x, resp)
		return resp
	}
	request := learn.Request{Method: x.subject.Method, Host: x.Target.Host, Path: x.subject.Path, Dialect: t.plan.Dialect}
	var head []byte
	if learn.WantsBody(resp.StatusCode, request) {
		resp, head = headOf(resp)
	}
	lesson := learn.Read(resp.StatusCode, resp.Header, head, request, x.answered)
	hideTokenInNames(r, &lesson, x.progress.shown)
	s.apply(x, resp, &lesson)
	return resp
}

// plain reads Retry-After alone, for a site whose answers teach nothing.
func (l *learned) plain(x *Request, resp *http.Response) {
	if l.refusal = plainHint(resp.StatusCode, resp.Header, x.answered); l.refusal.is {
		l.at, l.word = x.refusedScope()
	}
}

// apply passes a lesson on to what is known of the site, to the tokens and to the queue, and
// keeps what the verdict needs.
func (s *lessons) apply(x *Request, resp *http.Response, lesson *learn.Lesson) {
	t := &x.progress
	a := sites.Answer{
		Lesson: lesson, At: x.answered, Class: x.subject.Class, Sent: x.sent, Budget: x.budget(),
		Backend: x.backend() != nil, Reserve: t.plan.Reserve(), Level: t.level, Failed: resp.StatusCode >= 500,
		Denied: resp.StatusCode == http.StatusForbidden, Unavailable: resp.StatusCode == http.StatusServiceUnavailable,
	}
	if a.Unavailable {
		a.Sent = t.permit.Granted()
	}
	unavailable := x.subject.Known.Unavailable(&a, t.permit)
	if len(lesson.Limits) > 0 || lesson.Throttled {
		a.Sent = t.permit.Granted() // the time by which ledgers know the request
	}
	all := x.subject.Known.LearnFrom(&a, t.permit)
	for i := range all.Announcements {
		if announcement := &all.Announcements[i]; t.token != nil && !announcement.Site && !announcement.Refused && announcement.Limit.Remaining.Known && announcement.Limit.Remaining.N < 1 {
			t.plan.Pool.Spend(a.At, t.token, x.poolRoute(announcement.Title), announcement.Limit.Reset, "nothing is left")
		}
	}
	if lesson.Throttled {
		t.learned.refusal = hintOf(lesson, resp.Header, a.At)
		t.learned.refusal.unsafe = unavailable
		t.learned.refusal.final = lesson.Permanent && (t.token == nil || len(x.subject.Tokens.Tokens()) < 2)
	}
	if lesson.Throttled && !lesson.Lock {
		b := x.subject.Known.Blame(&a, &all, x.refused(), t.permit)
		t.learned.at, t.learned.word, t.refusedAt, t.odd = b.At, b.Word, x.answered, b.Odd
		if !b.Until.IsZero() {
			t.learned.refusal.said, t.learned.refusal.exact, t.learned.refusal.wait = true, true, max(b.Until.Sub(x.answered), 0)
		}
		all.Changed = all.Changed || b.Changed
	}
	if all.Changed {
		s.gate.Replan(x.site, x.subject.Known.Version())
	}
}

// refused is the request for sites.Site.Blame.
func (x *Request) refused() *sites.Refused {
	t := &x.progress
	narrowest, word := x.refusedScope()
	r := &sites.Refused{
		Narrowest: narrowest, Word: word, Whole: x.breakerScope(),
		Token: queue.Scope{Limit: plans.TokenLimit}, Pooled: x.subject.Tokens != nil, Signed: t.token != nil,
		Refusals: t.refusals, Since: t.refusedAt, Odd: t.odd,
	}
	if t.token != nil {
		r.Token = scopeOfToken(t.token)
	}
	return r
}

// place is where the request was sent, and for whom.
func (x *Request) place() plans.Place {
	return plans.Place{Backend: x.backend(), Budget: x.budget(), Client: x.ClientName()}
}

// refusedScope is what a refusal is about as far as the site does not say that, and the kind
// of it for the metrics.
func (x *Request) refusedScope() (queue.Scope, string) {
	at := x.place()
	return x.progress.plan.Scope(&x.subject, &at)
}

// breakerScope is what the request's breaker keeps from being sent.
func (x *Request) breakerScope() queue.Scope {
	at := plans.Place{Backend: x.backend()}
	return at.Whole()
}

// unpaid is how long a token is not used after an answer that asks for a payment.
const unpaid = time.Hour

// hintOf is how long to wait after a refusal, as its lesson says.
func hintOf(l *learn.Lesson, h http.Header, now time.Time) hint {
	r := hint{is: !l.Lock, lock: l.Lock, said: !l.RetryAt.IsZero(), overload: l.Overload}
	switch {
	case r.said:
		r.wait = max(l.RetryAt.Sub(now), 0)
	case l.Permanent:
		r.said, r.wait = true, unpaid
	}
	r.why = whyRefused(r.said, h)
	return r
}
