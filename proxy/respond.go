package proxy

import (
	"errors"
	"net/http"

	"github.com/elazarl/goproxy"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// transport sends requests through the dispatcher, for goproxy and WebSockets.
type transport struct {
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Metrics
}

// RoundTrip sends every request that abide can see, whether it came without CONNECT, in a
// cleartext CONNECT, or intercepted over HTTP/1 or HTTP/2. A refusal of abide becomes a
// response.
func (t *transport) RoundTrip(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	x := exchangeOf(r.Context())
	x.HTTP = r
	resp, err := t.dispatcher.Do(r.Context(), &x.Request)
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return t.respond(x, r, p), nil
	}
	return x.deliver(resp), err
}

// respond is the response to a request that abide answers itself.
func (t *transport) respond(x *exchange, r *http.Request, p *problem.Problem) *http.Response {
	if r.Body != nil {
		r.Body.Close()
	}
	if p == problem.Left {
		panic(http.ErrAbortHandler) // the client has left
	}
	t.metrics.Refused(p.Reason)
	if x.Snapshot.Debugs() {
		x.LogDecision("answered by abide: %d %s", p.Status, p.Reason)
	}
	return p.Response(r, x.Site())
}

// emptyHeader is the header that goproxy sees: responseWriter has the real one. Nothing
// writes to emptyHeader.
var emptyHeader = http.Header{}

// deliver makes an upstream's response the client's.
func (x *exchange) deliver(resp *http.Response) *http.Response {
	stripHop(resp.Header)
	x.RewriteRedirects(resp.Header)
	x.writer.head, resp.Header = resp.Header, emptyHeader
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	if resp.Body != http.NoBody {
		x.download = download{body: resp.Body, writer: &x.writer, left: resp.ContentLength}
		resp.Body = &x.download
	}
	return resp
}
