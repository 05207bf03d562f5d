package dispatch

import (
	"context"
	"net/http"
	"strings"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/status"
)

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
	case x.Snapshot.dialer.Named(to.Host, to.Port), x.rule != nil && len(x.rule.Backends) > 0:
		return nil
	}
	if err := x.Snapshot.guard.CheckHost(to.Host, to.Port); err != nil {
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
		resp := &http.Response{StatusCode: e.Status, Header: headerOf(e.Headers), Body: http.NoBody, Request: r}
		hideToken(resp, x.progress.shown)
		resp = s.lessons.learnFrom(x, r, resp)
		v := judge(x.Snapshot.policy.Retry, x.attempt(r, resp, nil), x.answered, 0.5)
		v = s.lessons.judgeToken(x, r, resp, v)
		v.again = false // whoever has sent it sends it again, or not
		s.lessons.tellAll(x, e.Status, nil, v)
		x.meter.Request(x.subject.Method, e.Status, x.answered.Sub(x.sent))
	}
	if e.Bytes > 0 {
		x.meter.Read(int(e.Bytes))
		x.progress.result.Bytes, x.progress.result.Exact = e.Bytes, true
		x.received = e.Bytes
		s.bytes.Sizes.Add(x.site, e.Bytes)
	}
}

func headerOf(pairs [][2]string) http.Header {
	h := http.Header{}
	for _, p := range pairs {
		h.Add(strings.TrimSpace(p[0]), p[1])
	}
	return h
}
