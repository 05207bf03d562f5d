package proxy

import (
	"errors"
	"net/http"
	"strings"
	"time"

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

// refusedBodyWait is the time for which a refusal waits for the body of the refused request.
const refusedBodyWait = time.Second

// refuse answers a request with an error response of abide.
func refuse(m *metrics.Metrics, w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	m.Refused(p.Reason)
	if conn := connOf(r); conn != nil && r.ProtoMajor == 1 && r.ContentLength != 0 {
		// net/http reads the rest of the body before it writes the response. A body that has
		// already come costs nothing, and the connection stays usable. A body that does not
		// come must not delay the response.
		conn.discards.Store(true)
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyWait))
	}
	p.Write(w, r)
}

// maxTrailers bounds the trailer fields that a request announces: each takes a hundred
// times the memory of its letters for as long as the body is read.
const maxTrailers = 64

// checkRequest returns the problem for which a request cannot be forwarded, nil if it can.
func checkRequest(r *http.Request) *problem.Problem {
	switch {
	case r.URL.User != nil:
		return &problem.Userinfo
	case r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.ContentLength == 0 && r.Header["Content-Length"] == nil && usuallyHasBody(r.Method):
		// net/http ignores Transfer-Encoding on HTTP/1.0, as it must; the bytes after the
		// head would then be read as the next request.
		return &problem.LengthRequired
	case !expectsOnly100(r.Header["Expect"]):
		return &problem.Expectation
	case len(r.Trailer) > maxTrailers:
		return &problem.Trailers
	}
	return nil
}

func usuallyHasBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// expectsOnly100 reports whether the Expect header is empty, or has only 100-continue, which
// net/http handles.
func expectsOnly100(lines []string) bool {
	for _, line := range lines {
		for value := range strings.SplitSeq(line, ",") {
			if value = strings.TrimSpace(value); value != "" && !strings.EqualFold(value, "100-continue") {
				return false
			}
		}
	}
	return true
}

// closeAfter ends the client's connection with the response.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header()["Connection"] = []string{"close"}
	}
}
