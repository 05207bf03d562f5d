package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
)

const (
	// portSilence is the time during which the log does not repeat that a port of a host is
	// refused.
	portSilence = time.Minute
	// cleartextPeek is the time for which a CONNECT to port 80 waits for the client's first
	// bytes. A client that waits for the server to speak first gets a tunnel.
	cleartextPeek = 2 * time.Second
	// methodLetters are the letters of a method. Lower case counts: a request with the method
	// get is HTTP, and is refused rather than tunnelled.
	methodLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"

	established = "HTTP/1.1 200 Connection established\r\n\r\n"
)

// connectHandler answers CONNECTs: it refuses them, tunnels their bytes, or gives their
// connection to the inner server, which sees the requests inside.
type connectHandler struct {
	dispatcher   *dispatch.Dispatcher
	ca           *ca.CA
	metrics      *metrics.Metrics
	log          *logrus.Logger
	interception *interception
	conns        *trackedConns
	inner        *innerListener
	forwarder    *forwarder // has the access log

	// CONNECTs of clients, and those of them to ports that egress.ports does not name.
	all, refusedPorts atomic.Uint64
	portLines         sitelog.LineLimit
}

// serve answers a CONNECT of an admitted client.
func (h *connectHandler) serve(w http.ResponseWriter, r *http.Request, snapshot *dispatch.Snapshot, client *dispatch.Client) {
	began := time.Now()
	h.all.Add(1)
	host, port, err := policy.ParseHostPort(r.RequestURI, 0)
	if err != nil {
		refuse(h.metrics, w, r, &problem.BadTarget)
		return
	}
	options, valid := dispatch.ReadOptions(r.Header, dispatch.RequestOptions{})
	if p := h.refusal(r, snapshot, client, policy.Target{Scheme: "https", Host: host, Port: port}, valid); p != nil {
		refuse(h.metrics, w, r, p)
		h.forwarder.countRefused(&dispatch.Request{Target: policy.Target{Scheme: "https", Host: host, Port: port}, Snapshot: snapshot, Client: client, Options: options, Address: connOf(r).name(), Start: began}, http.MethodConnect, p)
		return
	}
	o := opening{handler: h, snapshot: snapshot, host: host, port: port, client: client, via: dispatch.JoinVia("", r.Header["Via"]), options: options, began: began, key: keyOf(addressOf(r), client, host)}
	if port == 80 {
		if o.wait(w, r, "http") {
			o.openCleartext(w, r)
		}
		return
	}
	conn := connOf(r)
	https := h.interception.decide(snapshot.Policy(), host, port, trustsCA(snapshot.Policy(), r, conn, client), func() bool {
		if conn == nil {
			return false
		}
		o.key = h.interception.refusals.identify(conn, o.key, r.UserAgent())
		return h.interception.refusals.passes(snapshot.Policy(), conn.addr, o.key, o.target("https"))
	})
	if https.Why == policy.UnreadConstrained {
		h.interception.warnConstrained(host, snapshot.Policy().Match(policy.Target{Scheme: "https", Host: host, Port: port}).Site)
	}
	switch {
	case https.Open:
		o.intercept(w, r) // the requests inside wait
	case o.wait(w, r, "https"):
		o.tunnel(w, r, https.Why)
	}
}

// refusal returns the problem for which a CONNECT is refused, nil if it is not. validOptions
// says that the request's options could be read.
func (h *connectHandler) refusal(r *http.Request, snapshot *dispatch.Snapshot, client *dispatch.Client, to policy.Target, validOptions bool) *problem.Problem {
	switch {
	case r.ContentLength != 0:
		return &problem.ConnectBody
	case !snapshot.Policy().Egress.Ports.Allows(to.Port):
		return h.portRefused(snapshot.Policy(), to)
	case snapshot.Passed(r.Header["Via"]):
		return &problem.Loop
	case !validOptions:
		return &problem.Wish
	}
	if refused := snapshot.Forbidden(client, to); refused != nil {
		return refused
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

// portRefused counts and logs a CONNECT to a port that egress.ports does not name.
func (h *connectHandler) portRefused(p *policy.Policy, to policy.Target) *problem.Problem {
	h.refusedPorts.Add(1)
	allowed := strings.Trim(strings.ReplaceAll(fmt.Sprint(append(slices.Clone(p.Egress.Ports.List), to.Port)), " ", ","), "[]")
	why := fmt.Sprintf("egress.ports does not name port %d; add it there, or start abide with ABIDE_EGRESS_PORTS=%s", to.Port, allowed)
	if h.portLines.Due(to.HostPort(), time.Now()) {
		h.log.WithField("site", p.Match(to).Site).Warnf("CONNECT to %s is refused, since %s", to.HostPort(), why)
	}
	return problem.Port.With(why)
}

// opening is one CONNECT that was not refused.
type opening struct {
	handler  *connectHandler
	snapshot *dispatch.Snapshot
	host     string
	port     uint16
	client   *dispatch.Client // nil: access.clients is empty
	via      string           // Via header of the CONNECT
	options  dispatch.RequestOptions
	began    time.Time
	key      refusedKey // of https: what a refused certificate counts for
}

func (o *opening) target(scheme string) policy.Target {
	return policy.Target{Scheme: scheme, Host: o.host, Port: o.port}
}

// hijack writes the response 200 and takes the connection from the outer server. Bytes that
// the client has sent after its CONNECT become pending.
func (o *opening) hijack(w http.ResponseWriter) (*clientConn, error) {
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	conn, ok := raw.(*clientConn)
	if !ok {
		raw.Close()
		return nil, errors.New("the connection did not come from a clientListener")
	}
	conn.SetDeadline(time.Time{})
	if n := buffered.Reader.Buffered(); n > 0 {
		early, _ := buffered.Reader.Peek(n)
		conn.pending = append([]byte(nil), early...)
	}
	if _, err := io.WriteString(conn, established); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// refuse answers the CONNECT, unless its client has left.
func (o *opening) refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	if p = cmp.Or(problem.StopOf(r.Context()), p); p == &problem.Draining || r.Context().Err() == nil {
		refuse(o.handler.metrics, w, r, p)
	}
}

// tunnel connects to the site first, so that a failure has a status, and then relays bytes.
func (o *opening) tunnel(w http.ResponseWriter, r *http.Request, why policy.Unread) {
	refused := o.metered(r.Context(), r, "https", func(origin net.Conn) bool {
		conn, err := o.hijack(w)
		if err != nil {
			origin.Close()
			return false
		}
		o.handler.interception.countTunnel(o.snapshot.Policy(), o.target("https"), why)
		o.relay(conn, origin)
		return true
	})
	if refused != nil {
		o.refuse(w, r, refused)
	}
}

// metered connects to the site when the limits of the client let it, and calls relay, which reports
// whether it has moved bytes. It returns the problem of a tunnel that may not begin.
func (o *opening) metered(ctx context.Context, r *http.Request, scheme string, relay func(origin net.Conn) bool) *problem.Problem {
	end, refused := o.handler.dispatcher.WaitForClient(ctx, o.snapshot, o.client, o.options)
	if refused != nil {
		return refused
	}
	to, name := o.target(scheme), o.clientName(r)
	m := &tunnelMeter{SiteBudget: o.handler.dispatcher.TunnelBytes(o.snapshot.Policy().Match(to).Site, to, name)}
	defer o.handler.dispatcher.ReleaseTunnelBytes(m.SiteBudget)
	defer func() { end(m.received.Load() + m.sent.Load()) }()
	origin, err := o.snapshot.Upstream().Dial(upstream.WithVia(context.WithValue(ctx, upstream.MeterKey{}, m), o.via), o.host, o.port)
	if err != nil {
		return problem.OfUpstream(err)
	}
	if relay(origin) {
		o.handler.dispatcher.EndTunnel(m.Owner().Site, name, m.received.Load(), m.sent.Load())
	}
	return nil
}

// wait holds the CONNECT while the operator has paused the site. It returns false after it has
// answered a CONNECT that may not wait so long.
func (o *opening) wait(w http.ResponseWriter, r *http.Request, scheme string) bool {
	refusal := o.handler.dispatcher.WaitForTunnel(r.Context(), o.target(scheme), o.clientName(r), o.options)
	if refusal != nil {
		o.refuse(w, r, refusal)
	}
	return refusal == nil
}

// clientName is the client that the CONNECT counts for.
func (o *opening) clientName(r *http.Request) string {
	x := dispatch.Request{Snapshot: o.snapshot, Client: o.client, Options: o.options, Address: connOf(r).name()}
	return x.ClientName()
}

// relay copies bytes both ways until both sides are done.
func (o *opening) relay(conn *clientConn, origin net.Conn) {
	p := o.snapshot.Policy()
	t, rule := p.Timeouts, p.Match(o.target("https")).Rule
	o.handler.metrics.Tunnels.Add(1)
	defer o.handler.metrics.Tunnels.Add(-1)
	early := conn.pending
	conn.pending = nil
	o.handler.conns.relay(conn, func(ctx context.Context, active func(up bool)) {
		upstream.Relay(ctx, conn, origin, upstream.RelayOptions{
			Idle: rule.StallOr(t.TunnelIdle), Life: t.TunnelLife, FromClient: early, OnProgress: active,
		})
	})
}

// intercept does the TLS handshake with a certificate for the host, and gives the connection
// to the inner server.
func (o *opening) intercept(w http.ResponseWriter, r *http.Request) {
	config, err := o.handler.ca.TLSConfig(o.host)
	if err != nil {
		o.handler.log.WithError(err).WithField("site", o.snapshot.Policy().Match(o.target("https")).Site).Warn("cannot make a certificate")
		refuse(o.handler.metrics, w, r, &problem.Bug)
		return
	}
	conn, err := o.hijack(w)
	if err != nil {
		return
	}
	o.handler.metrics.Intercepted.Inc()
	secure := tls.Server(conn, config)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), o.snapshot.Policy().Timeouts.Handshake)
	defer cancel()
	if !o.handler.conns.add(conn) {
		conn.Close()
		return
	}
	defer o.handler.conns.remove(conn)
	err = secure.HandshakeContext(ctx)
	o.handler.metrics.Handshake("client", err == nil)
	if err != nil {
		o.handshakeFailed(conn, err)
		return
	}
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		o.give(conn, secure, "https") // net/http serves HTTP/2 only on a *tls.Conn
		return
	}
	o.give(conn, &interceptedConn{Conn: secure, client: conn}, "https")
}

// handshakeFailed answers a client that did not speak TLS, and notes a client that does not
// trust the CA.
func (o *opening) handshakeFailed(conn *clientConn, err error) {
	if notTLS, ok := errors.AsType[tls.RecordHeaderError](err); ok && notTLS.Conn != nil {
		o.handler.metrics.Refused(problem.Cleartext.Reason)
		conn.SetDeadline(time.Now().Add(time.Second))
		problem.Cleartext.WriteRaw(conn)
	}
	certain := ca.Rejected(err)
	if certain || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		o.handler.interception.refusals.rejected(o.handler.dispatcher.Policy(), conn.addr, o.key, o.target("https"), o.began, certain)
	}
	conn.Close()
}

// give gives a connection to the inner server. as is conn, or a TLS connection over conn.
func (o *opening) give(conn *clientConn, as net.Conn, scheme string) {
	conn.grant = &grant{target: o.target(scheme), client: o.client, via: o.via, options: o.options, policy: o.snapshot.Policy(), began: o.began, key: o.key}
	conn.errors.inHandler.Store(false)
	if !o.handler.inner.give(as) {
		conn.Close()
	}
}

// openCleartext opens a CONNECT to port 80. Some clients use CONNECT for plain http too:
// requests inside are then handled like those without CONNECT. Other protocols are
// tunnelled.
func (o *opening) openCleartext(w http.ResponseWriter, r *http.Request) {
	conn, err := o.hijack(w)
	if err != nil {
		return
	}
	if !o.handler.conns.add(conn) {
		conn.Close()
		return
	}
	first, err := peek(conn)
	o.handler.conns.remove(conn)
	switch {
	case err != nil:
		conn.Close()
	case looksLikeHTTP(first):
		o.give(conn, conn, "http")
	default:
		refused := o.metered(context.WithoutCancel(r.Context()), r, "http", func(origin net.Conn) bool {
			o.relay(conn, origin)
			return true
		})
		if refused != nil {
			o.handler.metrics.Refused(refused.Reason)
			conn.Close()
		}
	}
}

// tunnelMeter counts the bytes of one tunnel, for its client, and has the budget of its site
// count them too.
type tunnelMeter struct {
	*bandwidth.SiteBudget
	received, sent atomic.Int64
}

// Read counts bytes received from the site.
func (m *tunnelMeter) Read(n int) {
	m.received.Add(int64(n))
	m.SiteBudget.Read(n)
}

// Wrote counts bytes sent to the site.
func (m *tunnelMeter) Wrote(n int) {
	m.sent.Add(int64(n))
	m.SiteBudget.Wrote(n)
}

// peek returns the client's first bytes without consuming them, none if the client waits for
// the server.
func peek(conn *clientConn) ([]byte, error) {
	if len(conn.pending) > 0 {
		return conn.pending, nil
	}
	conn.SetReadDeadline(time.Now().Add(cleartextPeek))
	defer conn.SetReadDeadline(time.Time{})
	first := make([]byte, 1024)
	n, err := conn.Read(first)
	var timeout net.Error
	if n == 0 && errors.As(err, &timeout) && timeout.Timeout() {
		return nil, nil
	}
	if n == 0 {
		return nil, err
	}
	conn.pending = first[:n]
	return first[:n], nil
}

// looksLikeHTTP recognises a request line by its first word, of which only a part may have
// come.
func looksLikeHTTP(b []byte) bool {
	method, _, _ := strings.Cut(string(b[:min(len(b), 24)]), " ")
	return method != "" && strings.Trim(method, methodLetters) == ""
}
