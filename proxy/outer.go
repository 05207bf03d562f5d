package proxy

import (
	"net/http"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// outerHandler answers what clients send to the proxy's own port: CONNECTs, and requests
// with an absolute URL.
type outerHandler struct {
	forwarder *forwarder
	access    *access
	connects  *connectHandler
}

func (h *outerHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := connOf(r)
	if conn != nil {
		conn.errors.inHandler.Store(true)
	}
	if p := h.serve(w, r, conn); p != nil {
		refuse(h.forwarder.transport.metrics, w, r, p)
	}
}

// serve answers a request, or returns the problem for which it is refused.
func (h *outerHandler) serve(w http.ResponseWriter, r *http.Request, conn *clientConn) *problem.Problem {
	snapshot := h.forwarder.transport.dispatcher.Current()
	if r.ProtoMajor != 1 || r.ProtoMinor > 1 {
		return &problem.Version
	}
	client, refusal := h.access.admit(snapshot.Policy(), r)
	if refusal != nil {
		return refusal
	}
	if r.Method == http.MethodConnect {
		if !expectsOnly100(r.Header["Expect"]) {
			closeAfter(w, r) // the next bytes may be for the tunnel
			return &problem.Expectation
		}
		return h.connects.serve(w, r, snapshot, client)
	}
	if r.URL.Host == "" && r.URL.Scheme == "" {
		if r.Method == http.MethodOptions && r.RequestURI == "*" {
			w.Header().Set("Allow", problem.AllowedMethods+", CONNECT")
			w.Header().Set("Content-Length", "0")
			return nil
		}
		return &problem.NotAProxyRequest
	}
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return &problem.Scheme
	}
	target, err := policy.ParseTarget(r.URL.Scheme, r.URL.Host)
	if err != nil {
		return &problem.BadTarget
	}
	h.forwarder.forward(w, r, &exchange{Request: dispatch.Request{Snapshot: snapshot, Target: target, Client: client}, conn: conn}, "")
	return nil
}
