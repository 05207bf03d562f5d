package proxy

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/elazarl/goproxy"

	"github.com/abide-proxy/abide/upstream"
)

// RoundTrip is the path of every request that abide can see, whichever way it
// came: plain, in a cleartext CONNECT, or intercepted over HTTP/1 or HTTP/2.
// It always has an answer, the site's own or one of ours.
func (s *Server) RoundTrip(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	x := exchangeOf(r.Context())

	// match
	match := x.state.policy.Match(x.target)
	x.site, x.meter = match.Site, s.metrics.Site(match.Site)
	if err := x.state.mayForward(x.target); err != nil {
		return s.failed(x, r, err), nil
	}

	// wait
	if err := s.keep(x, r); err != nil {
		return s.failed(x, r, err), nil
	}
	if no := s.wait(x, r, match.Rule); no != nil {
		return no, nil
	}
	for {
		// send
		resp, err := s.send(x, r)

		// again?
		v := judge(x.state.policy.Retry, x.attempt(r, resp, err), x.answered, rand.Float64())
		x.turn.learn(x.status(resp), err, v)
		if v.refused {
			x.meter.RefusedBy(x.turn.kind())
		}
		if v.again {
			if resp != nil {
				resp.Body.Close()
			}
			if no := s.retry(x, r, v); no != nil {
				return no, nil
			}
			continue
		}

		// answer
		if v.refused {
			x.turn.permit.Cool(x.turn.scope, v.until, v.why)
		}
		if err != nil {
			return s.failed(x, r, err), nil
		}
		return x.deliver(resp), nil
	}
}

// send is one attempt.
func (s *Server) send(x *exchange, r *http.Request) (*http.Response, error) {
	x.rewind(r)
	x.sent = time.Now()
	if x.first.IsZero() {
		x.first = x.sent
	}
	resp, err := x.state.upstream.RoundTrip(r)
	x.answered = time.Now()
	if err == nil && resp.StatusCode == http.StatusProxyAuthRequired {
		// A challenge of the next hop, or of a site that plays one. It is not
		// for the client, who would answer it with what it has for abide.
		resp.Body.Close()
		kind := upstream.Protocol
		if x.state.nextHop != nil {
			kind = upstream.Hop
		}
		return nil, &upstream.Error{Kind: kind, Sent: true}
	}
	return resp, err
}

func (x *exchange) status(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	return resp.StatusCode
}

// attempt is what judge has to know.
func (x *exchange) attempt(r *http.Request, resp *http.Response, err error) attempt {
	a := attempt{
		err: err, status: x.status(resp), safe: repeatable(r), possible: x.again(r),
		failures: x.turn.failures, refusals: x.turn.refusals,
	}
	if resp != nil {
		a.header = resp.Header
	}
	return a
}

// failed turns a failure into words of ours.
func (s *Server) failed(x *exchange, r *http.Request, err error) *http.Response {
	// A body that could not be read comes first: net/http cancels the request
	// for it, although the client may well be there to hear why.
	a := x.upload.answer()
	if r.Body != nil {
		r.Body.Close()
	}
	if a == nil {
		a = upstreamAnswer(err)
		if a == upstreamAnswers[upstream.Canceled] {
			if !x.upload.spared() {
				panic(http.ErrAbortHandler) // the client has left; nobody reads an answer
			}
			a = upstreamAnswers[upstream.Closed]
		}
		s.log.WithError(err).WithField("host", x.target.Host).Debug("upstream failed")
	}
	s.metrics.Refused(a.reason)
	return a.response(r, x.site)
}

// noHeader stands in for a header that goes around goproxy. Nobody writes to it.
var noHeader = http.Header{}

// deliver makes an upstream's response one that may be written to the client.
func (x *exchange) deliver(resp *http.Response) *http.Response {
	stripHop(resp.Header)
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
