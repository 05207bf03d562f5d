package proxy

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/upstream"
)

// RoundTrip is the path of every request that abide can see, whichever way it
// came: plain, in a cleartext CONNECT, or intercepted over HTTP/1 or HTTP/2.
// It always has an answer, the site's own or one of ours.
func (s *Server) RoundTrip(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	x := exchangeOf(r.Context())

	// match
	match := x.state.policy.Match(x.target)
	x.site, x.rule, x.meter = match.Site, match.Rule, s.metrics.Site(match.Site)

	// whose?
	if no := s.owned(x, r); no != nil {
		return s.ours(x, r, no), nil
	}

	// wait, send, again?
	resp, no := s.share(x, r)
	x.meter.Waited(x.turn.waited)

	// answer
	if no != nil {
		return s.ours(x, r, no), nil
	}
	return x.deliver(resp), nil
}

// pursue has a request sent, as often as it takes: what it gives is the site's
// answer, whose body is still to come, or one of ours.
func (s *Server) pursue(x *exchange, r *http.Request) (*http.Response, *answer) {
	if err := s.keep(x, r); err != nil {
		return nil, s.failure(x, err)
	}
	if no := s.wait(x, r); no != nil {
		return nil, no
	}
	for {
		// send
		resp, err := s.send(x, r)
		x.hide(resp)

		// learn
		resp = s.study(x, r, resp)
		v := judge(x.state.policy.Retry, x.attempt(r, resp, err), x.answered, rand.Float64())
		v = s.credit(x, r, resp, v)
		v = s.learn(x, statusOf(resp), err, v)

		// again?
		if v.again {
			if resp != nil {
				resp.Body.Close()
			}
			if no := s.again(x, r, v); no != nil {
				return nil, no
			}
			continue
		}
		if err != nil {
			return nil, s.failure(x, err)
		}
		if no := s.tooLong(x, resp); no != nil {
			resp.Body.Close()
			return nil, no
		}
		s.release(x)
		return resp, nil
	}
}

// send is one attempt. It goes by the newest way to upstreams: that of the time
// when the request came may be closed, or lead where nothing may go any more.
func (s *Server) send(x *exchange, r *http.Request) (resp *http.Response, err error) {
	x.flying(true)
	x.turn.sent++
	x.turn.result = queue.Result{Outcome: limit.Abandoned}
	if s.activity.debugs() {
		s.activity.decided(x, "sent, attempt %d%s", x.turn.sent, withToken(x.turn.label))
	}
	x.sent = time.Now()
	if x.first.IsZero() {
		x.first = x.sent
	}
	x.resume()
	s.pocket(x)
	if x.bytes != nil {
		x.turn.permit.Lend()
	}
	st := s.state.Load()
	for {
		one := x.rewind(r)
		if err = st.mayForward(x.aim(one)); err == nil {
			resp, err = st.upstream.RoundTrip(x.carry(one))
		}
		now := s.state.Load()
		if !errors.Is(err, upstream.ErrTransportClosed) || now.stack == st.stack || !x.rewinds() {
			break
		}
		st = now // since a moment ago
	}
	x.answered = time.Now()
	if x.bytes != nil {
		x.turn.permit.Unreserve() // from here on its bytes are taken as they come
	}
	if err == nil && resp.StatusCode == http.StatusProxyAuthRequired {
		// A challenge of the next hop, or of a site that plays one. It is not
		// for the client, who would answer it with what it has for abide.
		resp.Body.Close()
		kind := upstream.Protocol
		if st.nextHop != nil {
			kind = upstream.Hop
		}
		return nil, &upstream.Error{Kind: kind, Sent: true}
	}
	return resp, err
}

func statusOf(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	return resp.StatusCode
}

// attempt is what judge has to know.
func (x *exchange) attempt(r *http.Request, resp *http.Response, err error) attempt {
	a := attempt{
		err: err, status: statusOf(resp), safe: repeatable(r), possible: x.replayable(r),
		failures: x.turn.failures, refusals: x.turn.refusals, elsewhere: x.turn.elsewhere(),
	}
	if resp != nil {
		a.refusal = x.turn.study.refusal
	}
	if a.refusal.is {
		a.row = x.turn.permit.Refused(x.turn.study.at)
	}
	return a
}

// failure turns an error into words of ours.
func (s *Server) failure(x *exchange, err error) *answer {
	// A body that could not be read comes first: net/http cancels the request
	// for it, although the client may well be there to hear why.
	if upstream.KindOf(err) == upstream.Canceled {
		x.upload.settled()
	}
	if a := x.upload.answer(); a != nil {
		return a
	}
	s.log.WithError(err).WithFields(logrus.Fields{"host": x.target.Host, "cause": errors.Unwrap(err)}).Debug("upstream failed")
	a := upstreamAnswer(err)
	s.tellTLS(x, err, a)
	if a == answerLeft && (x.upload.spared() || x.ctx.Err() == nil) {
		return upstreamAnswers[upstream.Closed]
	}
	return a
}

// ours is an answer of abide itself as a response.
func (s *Server) ours(x *exchange, r *http.Request, a *answer) *http.Response {
	if r.Body != nil {
		r.Body.Close()
	}
	if a == answerLeft {
		panic(http.ErrAbortHandler) // nobody reads an answer
	}
	s.metrics.Refused(a.reason)
	if s.activity.debugs() {
		s.activity.decided(x, "answered by abide: %d %s", a.status, a.reason)
	}
	return a.response(r, x.site)
}

// noHeader stands in for a header that goes around goproxy. Nobody writes to it.
var noHeader = http.Header{}

// deliver makes an upstream's response one that may be written to the client.
func (x *exchange) deliver(resp *http.Response) *http.Response {
	stripHop(resp.Header)
	x.homeward(resp.Header)
	x.writer.head, resp.Header = resp.Header, noHeader
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if resp.Body != http.NoBody {
		x.download = download{body: resp.Body, writer: &x.writer, left: resp.ContentLength}
		resp.Body = &x.download
	}
	return resp
}
