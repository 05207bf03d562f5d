package dispatch

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/dispatch/robots"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/tokens"
)

// lessons reads answers. It tells the knowledge of the site, the queue, the pool of tokens, the
// breaker, the load of the backend, and the log.
type lessons struct {
	gate     *queue.Gate
	breakers *siteBreakers
	activity *sitelog.Log
	log      *logrus.Logger
	denials  *sitelog.LineLimit // of the lines about denied tokens
	jitter   func() float64     // numbers from 0 to 1
}

// tellAll tells the queue, the breaker and the load of the backend how an attempt ended. If
// the next attempt could not be made in time, the answer is a verdict without one.
func (s *lessons) tellAll(x *Request, status int, err error, v verdict) verdict {
	t := &x.progress
	t.result = queue.Result{Outcome: outcomeOf(status, err, v), Unsent: err != nil && unsent(err)}
	how, took := backends.HealthOf(status, err, v.refused), x.answered.Sub(x.sent)
	if t.to.backend != nil && upstream.KindOf(err) == upstream.Canceled { // the client left
		t.to.backend.Load.AddAbandoned(took, x.answered)
	}
	t.to.addHealth(how, err, took, x.answered)
	known := x.subject.Known
	blocked := v.why == refusesAll || known != nil && known.Blocks()
	answered := known != nil && known.Answered() && (!x.grouped() || upstream.KindOf(err) != upstream.Resolve) // another host of the group may have
	broken := s.breakers.update(x, t.pass, how, status, err, answered, blocked, v.refused && !blocked, x.answered)
	t.pass = backends.Pass{}
	v.again = v.again && (broken.IsZero() || !s.breakers.neverCame(x))
	if !broken.IsZero() && !x.grouped() {
		t.permit.Cool(x.breakerScope(), broken, sitelog.SiteFailed)
		if x.backend() != nil {
			s.gate.AskAgain(x.site) // some wait for this backend alone
		}
		if s.breakers.neverCame(x) {
			s.gate.RefuseHeld(x.site, queue.Refusal{Reason: queue.TooLong, Limit: sitelog.SiteFailed, RetryAt: broken})
		}
	}
	if status == http.StatusForbidden && !v.again && known != nil && !answered && t.plan != nil && t.plan.Learns {
		// It has answered nothing else, so no request can verify that it blocks: the pauses double, up to that of the breaker.
		if n, lasts := s.breakers.Streak(x.breaker(), x.answered); n >= manyForbidden {
			t.permit.Cool(x.breakerScope(), x.answered.Add(min(lasts, s.breakers.rule().Pause)), failureOf(status, nil, false))
		}
	}
	if v.again {
		if s.breakers.passOver(x); t.to.elsewhere {
			if broken = (time.Time{}); how == backends.Ill {
				v.pause = 0
			}
		}
		// The queue knows when a site that refuses is ready. The answer of a failure that cannot be repaired in time is better than none.
		v.again = v.refused || !x.answered.Add(v.pause).After(t.until) && !broken.After(t.until)
	}
	if v.refused {
		if err == nil {
			t.refusedAnswers++
		}
		x.meter.RefusedBy(t.learned.word)
		s.activity.Refused(sitelog.Refusal{
			Site: x.site, Status: status, Scope: t.learned.word, Backend: breakerOf(x.site, x.backend()).Backend, Token: t.label, Until: v.until, Why: v.why,
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
	case v.refused && !v.alone:
		t.permit.Cool(t.learned.at, v.until, v.why)
	default:
		t.permit.Answered(t.result.Outcome) // requests that wait for the result of a probe need not wait for its body
	}
	return v
}

// judgeToken tells the pool how the site answered to the token. If another token may be
// accepted, the request is sent again: the site has not done what it denied.
func (s *lessons) judgeToken(x *Request, r *http.Request, resp *http.Response, v verdict) verdict {
	t, status := &x.progress, statusOf(resp)
	if t.token == nil {
		return v
	}
	again, until := false, time.Time{} // another token should be tried, and this one is not used before
	token, pool, now, denials := t.token, t.plan.Pool, x.answered, &t.denials
	answer := tokens.Answer{Status: status, Reason: t.learned.denial, Sent: x.sent, Site: x.site, Route: x.poolRoute(x.route())}
	if t.probing { // the answer is to another request
		answer.Route, denials = "", new(tokens.Denials)
	}
	switch {
	case status == 0:
		pool.EndWithoutAnswer(token, t.began)
	case v.refused:
		pool.Cool(now, token, x.poolRoute(x.route()), v.until, v.why)
		s.settle(x, pool.Success(now, token, answer, denials))
	case status == http.StatusUnauthorized && x.subject.Tokens.Renew(now, token, t.credential):
		again = true
	case answer.Denies():
		d := pool.Deny(now, token, answer, denials)
		if d.Last {
			s.log.WithFields(logrus.Fields{"site": x.site, "token": token.Label(), "reason": answer.Reason}).Warnf("%s does not accept the token %s of %s (%s), and no other token of the pool can go: clients get its answers", x.site, token.Label(), pool.Name(), answer.Reason)
		}
		again, until = s.settle(x, d)
	case status >= 400 && status < 500:
		again, until = s.settle(x, pool.Fail(now, token, answer, denials))
	default:
		s.settle(x, pool.Success(now, token, answer, denials))
	}
	if again && x.replayable(r) {
		return verdict{again: true, denied: true, reason: "denied", token: until}
	}
	return v
}

// nothingLeft and tooLittleLeft are the reasons why a token is spent by what its site announces.
const nothingLeft, tooLittleLeft = "nothing is left", "too little is left"

// putAway lets nothing go with a token at a site, or at all sites if site is "".
func putAway(gate *queue.Gate, token *tokens.Token, site string, until time.Time) {
	if site != "" {
		gate.Cool(site, scopeOfToken(token), until, queue.Quarantine)
		return
	}
	gate.CoolAll(scopeOfToken(token), until, queue.Quarantine)
}

// settle tells the queue which tokens are in quarantine now, and which are not any more.
func (s *lessons) settle(x *Request, d tokens.Decision) (again bool, until time.Time) {
	for _, free := range d.Released {
		s.gate.EndCooldowns(scopeOfToken(free))
	}
	if d.Blamed {
		x.progress.learned.denial = "refused for this resource"
	}
	pool, denied := x.progress.plan.Pool, d.Quarantined
	if !d.Until.IsZero() {
		denied = append(denied, x.progress.token)
	}
	for _, token := range denied {
		a := pool.Availability(x.answered, token, x.site)
		if s.denials.Due(pool.Name()+" "+token.Label()+" "+x.site, x.answered) { // others were in flight
			s.log.WithFields(logrus.Fields{"site": x.site, "token": token.Label(), "reason": a.Why}).Warnf("%s does not accept the token %s of %s (%s): it is not used until %s", x.site, token.Label(), pool.Name(), a.Why, a.Until.Format(time.RFC3339))
		}
		putAway(s.gate, token, a.Site, a.Until)
		s.gate.AskAgain(x.site) // some wait for this token alone
	}
	return d.Again, d.Until
}

// learnFrom reads what an answer says of limits, and passes it on. It returns the answer to
// be used from now on: reading may have taken the beginning of the body, see headOf. err tells why
// there is none.
func (s *lessons) learnFrom(x *Request, r *http.Request, resp *http.Response, err error) *http.Response {
	if e, ok := errors.AsType[*upstream.Error](err); ok && e.Refused { // as by 429
		s.learnFrom(x, r, &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: http.NoBody}, nil)
		return nil
	}
	t := &x.progress
	t.learned = learned{}
	switch learns := t.plan != nil && t.plan.Learns && x.subject.Class != nil; {
	case resp == nil && learns && (backends.Blame(err) == backends.Ill || stale(err) && x.subject.Known.Closes(x.answered, x.breaker().Backend)):
		s.apply(x, 0, nil, &learn.Lesson{}, upstream.ClosedBySite(err))
		return nil
	case resp == nil:
		return nil
	case !learns:
		if t.learned.refusal = plainHint(resp.StatusCode, resp.Header, x.answered); t.learned.refusal.refused {
			t.learned.at, t.learned.word = x.refusedScope()
		}
		return resp
	}
	request := learn.Request{Method: x.subject.Method, Host: x.Target.Host, Path: x.subject.Path, Dialect: t.plan.Dialect}
	var head []byte
	if learn.WantsBody(resp.StatusCode, request) {
		resp, head = headOf(resp)
	}
	lesson := learn.Read(resp.StatusCode, resp.Header, head, request, x.answered)
	if short, page := isShort(resp); head == nil && short && r.Method == http.MethodGet && !lesson.Throttled {
		resp, head = wholeOf(resp)
		if page {
			t.learned.page = lookOf(resp, head)
		}
		t.learned.masked = page && x.subject.Known.Alike(r.URL.RequestURI(), t.learned.page) || learn.SpeaksOfRefusal(decoded(resp.Header, head))
	}
	hideTokenInNames(r, &lesson, x.progress.shown)
	s.apply(x, resp.StatusCode, resp.Header, &lesson, false)
	if why := &t.learned.refusal.why; *why != "" {
		*why += wordsOf(r, resp.StatusCode, head, x.progress.shown)
	}
	return resp
}

// apply passes a lesson on to what is known of the site, to the tokens and to the queue, and
// notes what the verdict needs. Without an answer the status is 0; closed: the site has closed the connection.
func (s *lessons) apply(x *Request, status int, header http.Header, lesson *learn.Lesson, closed bool) {
	t := &x.progress
	a := sites.Answer{
		Lesson: lesson, At: x.answered, Class: x.subject.Class, Sent: x.sent, Budget: x.budget(),
		Backend: x.backend() != nil, Origin: x.breaker().Backend, Reserve: t.plan.Reserve(), Level: t.level, Failed: status == 0 || status >= 500,
		Denied: status == http.StatusForbidden || t.learned.masked, Closed: closed, Unavailable: closed || status == http.StatusServiceUnavailable,
	}
	if a.Unavailable {
		a.Sent = t.permit.Granted()
	}
	a.Unavailable = x.subject.Known.Unavailable(&a)
	if status == 0 && !a.Unavailable {
		return
	}
	if len(lesson.Limits) > 0 || lesson.Throttled || len(x.subject.Class.Limits) > 0 {
		a.Sent = t.permit.Granted() // the time by which ledgers know the request
	}
	found := x.subject.Known.LearnFrom(&a, t.permit)
	for i := range found.Announcements {
		if announcement := &found.Announcements[i]; t.token != nil && !announcement.Site && !announcement.Refused && announcement.Limit.Remaining.Known && announcement.Limit.Remaining.N < 1 {
			t.plan.Pool.Spend(a.At, t.token, x.poolRoute(announcement.Title), announcement.Limit.Reset, nothingLeft)
		}
	}
	refused := lesson.Throttled && !lesson.Permanent
	switch {
	case refused:
		said := !lesson.RetryAt.IsZero()
		t.learned.refusal = hint{
			refused: !lesson.Lock, lock: lesson.Lock, overload: lesson.Overload, unsafe: a.Unavailable,
			said: said, wait: max(lesson.RetryAt.Sub(a.At), 0), why: whyRefused(said, header),
		}
	case lesson.Permanent:
		t.learned.denial = cmp.Or(lesson.Reason, "waiting does not help")
	}
	if refused && !lesson.Lock {
		s.blame(x, &a, &found)
	} else if found.Changed {
		s.gate.Replan(x.site, x.subject.Known.Version())
	}
}

// blame finds the scope of a refusal, and returns the time until which its limit lets nothing go,
// zero if that is not known. It replans the requests that wait if the limits are others now.
func (s *lessons) blame(x *Request, a *sites.Answer, found *routes.Learned) (until time.Time) {
	t := &x.progress
	b := x.subject.Known.Blame(a, found, x.refused(), t.permit)
	t.learned.at, t.learned.word, t.refusedAt, t.odd = b.At, b.Word, x.answered, b.Odd
	if hint := &t.learned.refusal; b.Alone {
		hint.alone, hint.wait = true, max(hint.wait, b.Until.Sub(x.answered))
	} else if !b.Until.IsZero() {
		hint.said, hint.exact, hint.wait = true, true, max(b.Until.Sub(x.answered), 0)
	}
	if found.Changed || b.Changed {
		s.gate.Replan(x.site, x.subject.Known.Version())
	}
	return b.Until
}

// refusesAll is the cause of a pause after an answer by which a site blocks this client.
const refusesAll = "the site refuses everything"

// probePause is the wait of a request while another probes whether the site blocks.
const probePause = time.Second

// probe finds out the meaning of an answer 403 that says nothing more, or of a short success that
// speaks of a refusal or is a page that another URL has, too. Where requests have succeeded before, one that did is sent again: if the site
// refuses it, too, the site blocks this client, and nothing is sent for a while. The request itself is sent again after that.
func (s *lessons) probe(x *Request, r *http.Request, resp *http.Response, v verdict) verdict {
	known, t := x.subject.Known, &x.progress
	if known == nil || resp == nil || t.plan == nil || !t.plan.Learns {
		return v
	}
	status, suspect := resp.StatusCode, resp.StatusCode == http.StatusForbidden || t.learned.masked
	switch {
	case t.probing && v.refused:
		return v // for another reason
	case t.probing:
		if known.Verified(x.answered, suspect) {
			return s.blocked(x, r, resp)
		}
		t.probe = probed
		return verdict{again: true, reason: "verified"}
	case v.again || v.refused || !x.replayable(r) || x.Caller.HasBody():
		return v
	case !suspect && t.probe == probed:
		known.Misjudged() // the time between has made the difference
		return v
	case !suspect && status == http.StatusOK && r.Method == http.MethodGet:
		if known.WantsKnown() && r.URL.Path != robots.Path { // who blocks a crawler may still answer robots.txt
			known.SetKnown(x.Target.HostPort(), r.URL.RequestURI(), t.learned.page)
		}
		return v
	case !suspect:
		return v
	}
	page := t.learned.page
	if !page.Text {
		page = lookOf(resp, nil)
	}
	switch known.Forbidden(x.answered, x.Target.HostPort(), page, t.refusals > 0) {
	case sites.Verify:
		t.probe = probeNext
		return verdict{again: true, unclear: true, reason: "verified"}
	case sites.Verifying:
		return verdict{again: true, unclear: true, reason: "verified", pause: probePause}
	case sites.Blocked:
		return s.blocked(x, r, resp)
	case sites.Forbidden:
		if t.learned.masked {
			known.Succeeded(x.answered, t.permit.Granted(), x.subject.Class.Template, x.budget(), x.breaker().Backend)
		}
	}
	return v
}

// blocked learns from an answer by which the site refuses everything.
func (s *lessons) blocked(x *Request, r *http.Request, resp *http.Response) verdict {
	t := &x.progress
	a := sites.Answer{
		Lesson: &learn.Lesson{Throttled: true, Block: !t.learned.masked, Scope: learn.Site}, At: x.answered, Class: x.subject.Class,
		Sent: t.permit.Granted(), Budget: x.budget(), Backend: x.backend() != nil, Reserve: t.plan.Reserve(), Failed: true,
	}
	until := s.blame(x, &a, &routes.Learned{})
	if t.learned.masked {
		t.learned.refusal.refused = true
		return judge(x.Snapshot.policy.Retry, x.attempt(r, resp, nil), x.answered, s.jitter())
	}
	return verdict{refused: true, again: true, reason: "refused", until: until, why: refusesAll}
}

// probeOf returns the request that a probe sends in place of r: one that succeeded before. It
// returns r for an attempt that is no probe.
func probeOf(x *Request, r *http.Request) *http.Request {
	if !x.progress.probing {
		return r
	}
	u, err := url.ParseRequestURI(x.subject.Known.Known(x.Target.HostPort()))
	if err != nil {
		return r
	}
	request := r.Clone(r.Context())
	request.Method, request.URL.Path, request.URL.RawPath, request.URL.RawQuery = http.MethodGet, u.Path, u.RawPath, u.RawQuery
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range"} {
		request.Header.Del(name)
	}
	return request
}
