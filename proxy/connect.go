package proxy

import (
	"net/http"
	"net/netip"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// connectHandler answers CONNECTs: it refuses them, tunnels their bytes, or gives their
// connection to the inner server, which sees the requests inside.
type connectHandler struct {
	opener
	counts connectCounts
}

// serve answers a CONNECT of an admitted client.
func (h *connectHandler) serve(w http.ResponseWriter, r *http.Request, snapshot *dispatch.Snapshot, client *dispatch.Client) {
	h.counts.all.Add(1)
	host, port, err := policy.ParseAuthority(r.RequestURI)
	if err != nil {
		refuse(h.metrics, w, r, &problem.BadTarget)
		return
	}
	options, valid := dispatch.ReadOptions(r.Header, dispatch.RequestOptions{})
	if p := h.refusal(r, snapshot, policy.Target{Scheme: "https", Host: host, Port: port}, valid); p != nil {
		refuse(h.metrics, w, r, p)
		return
	}
	o := opening{opener: &h.opener, snapshot: snapshot, host: host, port: port, client: client, via: dispatch.JoinVia("", r.Header["Via"]), options: options}
	if port == 80 {
		if o.wait(w, r, "http") {
			o.openCleartext(w, r)
		}
		return
	}
	conn := connOf(r)
	https := h.interception.decide(snapshot.Policy(), host, port, trustsCA(snapshot.Policy(), r, conn, client), func() bool {
		return conn != nil && h.interception.refusals.passes(keyOf(conn.addr, client, host))
	})
	if https.Why == policy.UnreadConstrained {
		h.interception.warnConstrained(host)
	}
	switch {
	case https.Open:
		o.intercept(w, r) // the requests inside wait
	case o.wait(w, r, "https"):
		o.tunnel(w, r, https.Why)
	}
}

// refusal is why a CONNECT is refused, nil if it is not. validOptions says that the request's
// options could be read.
func (h *connectHandler) refusal(r *http.Request, snapshot *dispatch.Snapshot, to policy.Target, validOptions bool) *problem.Problem {
	switch {
	case r.ContentLength != 0:
		return &problem.ConnectBody
	case !snapshot.Policy().Egress.Ports.Allows(to.Port):
		h.counts.portRefused(to)
		return &problem.Port
	case snapshot.Passed(r.Header["Via"]):
		return &problem.Loop
	case !validOptions:
		return &problem.Wish
	}
	// A literal address needs no look-up, so a forbidden one is refused before the tunnel
	// is open: every client shows that response.
	if ip, err := netip.ParseAddr(to.Host); err == nil {
		if err := snapshot.CheckAddress(ip, to.Port); err != nil {
			return problem.OfUpstream(err)
		}
	}
	return dispatch.OwnedHost(snapshot.Policy().Shard, to.Host, to.Port)
}
