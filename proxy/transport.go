package proxy

import (
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

	// send
	x.sent = time.Now()
	if err := x.state.mayForward(x.target); err != nil {
		return s.failed(x, r, err), nil
	}
	resp, err := x.state.upstream.RoundTrip(r)
	x.answered = time.Now()

	// answer
	if err != nil {
		return s.failed(x, r, err), nil
	}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		// A challenge of the next hop, or of a site that plays one. It is not
		// for the client, who would answer it with what it has for abide.
		resp.Body.Close()
		kind := upstream.Protocol
		if x.state.nextHop != nil {
			kind = upstream.Hop
		}
		return s.failed(x, r, &upstream.Error{Kind: kind}), nil
	}
	return x.deliver(resp), nil
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
