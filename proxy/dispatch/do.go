package dispatch

import (
	"context"
	"errors"
	"net/http"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/status"
)

// Do sends a request as often as it takes. It returns the site's answer, whose body is
// still to come, or a *problem.Problem. End must be called when the answer is over.
func (s *Dispatcher) Do(ctx context.Context, x *Request) (*http.Response, error) {
	resp, refused := s.do(ctx, x)
	if refused != nil {
		if stop := problem.StopOf(ctx); stop != nil && !x.Caller.HasLeft() {
			refused = stop
		}
		if x.Status = refused.Status; refused != problem.Left {
			x.Refusal = refused.Reason
		} else if s.admission.breakers.Failing(x.breaker(), s.clock.Now()) {
			x.progress.learned.denial = status.WhileFailing
		}
		return nil, refused
	}
	x.Status = resp.StatusCode
	return resp, nil
}

func (s *Dispatcher) do(ctx context.Context, x *Request) (*http.Response, *problem.Problem) {
	if problem := s.begin(ctx, x); problem != nil {
		return nil, problem
	}
	if err := x.Caller.Prepare(x.HTTP); err != nil {
		return nil, s.problems.ofFailure(x, err)
	}
	var resp *http.Response
	problem := s.admission.waitForClient(x)
	if problem == nil {
		resp, problem = s.coalescing.share(x, x.HTTP)
	}
	x.meter.Waited(x.progress.waited)
	return resp, problem
}

// begin finds the site of a request, and removes what is not for it. It refuses a request that may
// not go there, and a URL of another crawler.
func (s *Dispatcher) begin(ctx context.Context, x *Request) *problem.Problem {
	if x.ctx.Context == nil {
		x.HTTP = x.HTTP.WithContext(x.Bind(ctx))
	}
	if refused := s.match(x); refused != nil {
		return refused
	}
	if x.rule == nil || !x.rule.Trace {
		for _, name := range [...]string{"Traceparent", "Tracestate", "Baggage"} {
			delete(x.HTTP.Header, name)
		}
	}
	x.writeHeaders(x.HTTP)
	return owned(x.Snapshot.policy.Shard, x.Target, x.HTTP.URL)
}

// sendUntilDone sends a request as often as it takes. It returns the site's answer, whose body
// is still to come, or why there is none.
func (s *Dispatcher) sendUntilDone(x *Request, r *http.Request) (*http.Response, *problem.Problem) {
	if refused := s.admission.wait(x, r); refused != nil {
		return nil, refused
	}
	for {
		resp, err := s.send(x, r)
		hideToken(resp, x.progress.shown)
		resp, v := s.learnAndJudge(x, r, resp, err)
		if !v.again {
			return s.result(x, resp, err)
		}
		if refused := s.admission.waitAgain(x, r, v); refused != nil {
			return nil, refused
		}
	}
}

// learnAndJudge learns from the answer to an attempt, and decides whether there is another
// attempt. If there is, the answer is closed.
func (s *Dispatcher) learnAndJudge(x *Request, r *http.Request, resp *http.Response, err error) (*http.Response, verdict) {
	resp = s.lessons.learnFrom(x, r, resp, err)
	a := x.attempt(r, resp, err)
	a.comesBack = x.progress.pass.Probes() || s.admission.breakers.ComesBack(x.breaker(), s.admission.breakers.rule(), unsent(err), x.answered)
	v := judge(x.Snapshot.policy.Retry, a, x.answered, s.lessons.jitter())
	v = s.lessons.judgeToken(x, r, resp, v)
	v = s.lessons.probe(x, r, resp, v)
	v = s.lessons.tellAll(x, statusOf(resp), err, v)
	v.again = v.again || x.progress.probing && err == nil // its answer is not the client's
	if v.again && resp != nil {
		resp.Body.Close()
	}
	return resp, v
}

// result returns the answer of the last attempt as the request gets it.
func (s *Dispatcher) result(x *Request, resp *http.Response, err error) (*http.Response, *problem.Problem) {
	if err != nil {
		return nil, s.problems.ofFailure(x, err)
	}
	if refused := s.bytes.tooLong(x, resp); refused != nil {
		resp.Body.Close()
		return nil, refused
	}
	x.Caller.Release()
	return resp, nil
}

// send makes one attempt. It goes by the newest outbound: that of the time when the request
// came may be closed, or lead where nothing may go any more.
func (s *Dispatcher) send(x *Request, r *http.Request) (resp *http.Response, err error) {
	s.beginAttempt(x)
	st := s.Current()
	for {
		request := probeOf(x, x.Caller.Attempt(r))
		if err = st.mayForward(x.pointAtBackend(request)); err == nil {
			resp, err = st.sends.RoundTrip(x.sign(request))
		}
		now := s.Current()
		if !errors.Is(err, upstream.ErrTransportClosed) || now.outbound == st.outbound || !x.Caller.Replayable(r) {
			break
		}
		st = now // since a moment ago
	}
	s.endAttempt(x)
	if err == nil && resp.StatusCode == http.StatusProxyAuthRequired {
		// A challenge of a site that plays a proxy. A client would answer it with its credential
		// for abide.
		resp.Body.Close()
		return nil, &upstream.Error{Kind: upstream.Protocol, Sent: true}
	}
	return resp, err
}

// beginAttempt notes that the request is sent.
func (s *Dispatcher) beginAttempt(x *Request) {
	x.tellMembersSent(true)
	x.progress.sent++
	x.progress.result = queue.Result{Outcome: limit.Abandoned}
	if s.activity.Debugs() {
		with := ""
		if x.progress.label != "" {
			with = ", with the token " + x.progress.label
		}
		x.LogDecision("sent, attempt %d%s", x.progress.sent, with)
	}
	if x.subject.Known != nil {
		x.progress.level = x.subject.Known.Begin()
	}
	x.sent = s.clock.Now()
	if x.first.IsZero() {
		x.first = x.sent
	}
	x.Caller.EndWait()
	s.bytes.acquire(x)
	if x.bytes != nil {
		x.progress.permit.OfferReserved()
	}
	known, t := x.subject.Known, &x.progress
	t.probing = known != nil && !x.Caller.HasBody() && (t.probe == probeNext || known.Blocks()) && known.Known(x.Target.HostPort()) != ""
	if t.probe == probeNext {
		t.probe = 0
	}
}

// endAttempt notes that the head of an answer has come, or that none comes.
func (s *Dispatcher) endAttempt(x *Request) {
	x.answered = s.clock.Now()
	if x.subject.Known != nil {
		x.progress.level = max(x.progress.level, x.subject.Known.End())
	}
	if x.bytes != nil {
		x.progress.permit.Unreserve() // from here on its bytes are taken as they come
	}
}

func statusOf(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	return resp.StatusCode
}

// attempt describes the last attempt for judge.
func (x *Request) attempt(r *http.Request, resp *http.Response, err error) attempt {
	a := attempt{
		err: err, status: statusOf(resp), safe: repeatable(r), possible: x.replayable(r),
		failures: x.progress.failures, refusals: x.progress.refusals,
	}
	if a.refusal = x.progress.learned.refusal; a.refusal.refused {
		a.row = x.progress.permit.RefusalsInRow(x.progress.learned.at)
	}
	return a
}
