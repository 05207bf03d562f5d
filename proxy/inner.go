package proxy

import (
	"net"
	"net/http"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// innerHandler answers the requests inside CONNECTs.
type innerHandler struct {
	*forwarder
	refusals *certificateRefusals
}

// ServeHTTP forwards a request to the target of the connection's CONNECT. A request with
// another Host is refused, because limits and tokens are chosen by the target.
func (h *innerHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(p *problem.Problem) { refuse(h.metrics, w, r, p) }
	conn := connOf(r)
	if conn == nil || conn.grant == nil {
		refuse(&problem.Bug)
		return
	}
	conn.errors.inHandler.Store(true)
	if r.Method == http.MethodConnect {
		// The next bytes may be for the tunnel that is refused, and must not be read as a
		// request.
		closeAfter(w, r)
		refuse(&problem.Method)
		return
	}
	if r.ProtoMajor == 1 && r.ProtoMinor > 1 {
		refuse(&problem.Version)
		return
	}
	if r.URL.User != nil {
		refuse(&problem.Userinfo)
		return
	}
	snapshot := h.dispatcher.Current()
	if p := readmit(snapshot.Policy(), conn); p != nil {
		refuse(p)
		return
	}
	target := conn.grant.target
	if r.Host != "" || r.ProtoAtLeast(1, 1) {
		asked, err := policy.ParseTarget(target.Scheme, r.Host)
		if err != nil {
			refuse(&problem.BadTarget)
			return
		}
		if asked != target || (r.URL.Scheme != "" && r.URL.Scheme != target.Scheme) {
			refuse(&problem.Misdirected)
			return
		}
	}
	x := &exchange{Request: dispatch.Request{Snapshot: snapshot, Target: target, Client: conn.grant.client}, conn: conn}
	h.forward(w, r, x, conn.grant.via)
}

// connState is called by http.Server when the state of a connection changes. The first byte
// of a request shows that the client has accepted the certificate of an intercepted
// connection; a connection that ends without a request may show that it has not.
func (h *innerHandler) connState(c net.Conn, state http.ConnState) {
	onIdle(c, state)
	conn := bareConn(c)
	if conn == nil || conn.grant == nil || conn.grant.target.Scheme != "https" {
		return
	}
	switch grant := conn.grant; state {
	case http.StateActive:
		if !grant.used.Swap(true) {
			h.refusals.accepted(keyOf(conn.addr, grant.client, grant.target.Host))
		}
	case http.StateClosed:
		if !grant.used.Load() && !h.conns.draining() {
			h.refusals.rejected(h.dispatcher.Policy(), conn.addr, grant.client, grant.target, false)
		}
	}
}
