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
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
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

// serve answers a CONNECT of an admitted client, or returns the problem for which it is refused.
func (h *connectHandler) serve(w http.ResponseWriter, r *http.Request, snapshot *dispatch.Snapshot, client *dispatch.Client) *problem.Problem {
	h.all.Add(1)
	host, port, err := policy.ParseHostPort(r.RequestURI, 0)
	if err != nil {
		return &problem.BadTarget
	}
	x := &dispatch.Request{
		Target: policy.Target{Scheme: "https", Host: host, Port: port}, Snapshot: snapshot, Client: client, Caller: dispatch.NoCaller{},
		Address: connOf(r).name(), Start: time.Now(),
	}
	var valid bool
	x.Options, valid = dispatch.ReadOptions(r.Header, x.Options)
	if p := h.refusal(r, x, valid); p != nil {
		h.forwarder.countRefused(x, http.MethodConnect, p)
		return p
	}
	o := opening{handler: h, request: x, via: upstream.JoinVia("", r.Header["Via"]...), key: keyOf(addressOf(r), client, host)}
	if port == 80 {
		x.Target.Scheme = "http"
		o.openCleartext(w, r)
		return nil
	}
	conn, p := connOf(r), snapshot.Policy()
	https := h.interception.decide(p, host, port, trustsCA(p, r, conn, client), func() bool {
		if conn == nil {
			return false
		}
		o.key = h.interception.refusals.identify(conn, o.key, r.UserAgent())
		return h.interception.refusals.passes(p, conn.addr, o.key, x.Target)
	})
	if https.Why == policy.UnreadConstrained {
		h.interception.warnConstrained(host, p.Match(x.Target).Site)
	}
	if https.Open {
		o.intercept(w, r) // the requests inside wait
	} else {
		o.tunnel(w, r, https.Why)
	}
	return nil
}

// refusal returns the problem for which a CONNECT is refused, nil if it is not. validOptions
// says that the request's options could be read.
func (h *connectHandler) refusal(r *http.Request, x *dispatch.Request, validOptions bool) *problem.Problem {
	p, to := x.Snapshot.Policy(), x.Target
	switch {
	case r.ContentLength != 0:
		return &problem.ConnectBody
	case !p.Egress.Ports.Allows(to.Port):
		return h.portRefused(p, to)
	case x.Snapshot.Passed(r.Header["Via"]):
		return &problem.Loop
	case !validOptions:
		return &problem.Wish
	}
	if refused := x.Snapshot.Forbidden(x.Client, to); refused != nil {
		return refused
	}
	// A literal address needs no look-up, so a forbidden one is refused before the tunnel
	// is open: every client shows that response.
	if _, err := netip.ParseAddr(to.Host); err == nil {
		if err := x.Snapshot.Dialer().Check(to.Host, to.Port); err != nil {
			return problem.OfUpstream(err)
		}
	}
	return dispatch.OwnedHost(p.Shard, to.Host)
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
	handler *connectHandler
	request *dispatch.Request
	via     string     // Via header of the CONNECT
	key     refusedKey // of https: what a refused certificate counts for
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
	refused := o.metered(r.Context(), func(origin net.Conn) bool {
		conn, err := o.hijack(w)
		if err != nil {
			origin.Close()
			return false
		}
		o.handler.interception.countTunnel(o.request.Snapshot.Policy(), o.request.Target, why)
		o.relay(conn, origin)
		return true
	})
	if refused != nil {
		o.refuse(w, r, refused)
	}
}

// metered connects to the site when it is not paused and the limits of the client let it, and calls relay, which reports
// whether it has moved bytes. It returns the problem of a tunnel that may not begin.
func (o *opening) metered(ctx context.Context, relay func(origin net.Conn) bool) *problem.Problem {
	x := o.request
	t, refused := o.handler.dispatcher.OpenTunnel(ctx, x)
	if refused != nil {
		return refused
	}
	relayed := false
	defer func() { t.Close(relayed) }()
	ctx = upstream.WithVia(context.WithValue(ctx, upstream.MeterKey{}, t), o.via)
	origin, err := x.Snapshot.Upstream().Dial(ctx, x.Target.Host, x.Target.Port)
	if err != nil {
		return problem.OfUpstream(err)
	}
	relayed = relay(origin)
	return nil
}

// relay copies bytes both ways until both sides are done.
func (o *opening) relay(conn *clientConn, origin net.Conn) {
	p := o.request.Snapshot.Policy()
	t, rule := p.Timeouts, p.Match(o.request.Target).Rule
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
	p := o.request.Snapshot.Policy()
	config, err := o.handler.ca.TLSConfig(o.request.Target.Host)
	if err != nil {
		o.handler.log.WithError(err).WithField("site", p.Match(o.request.Target).Site).Warn("cannot make a certificate")
		refuse(o.handler.metrics, w, r, &problem.Bug)
		return
	}
	conn, err := o.hijack(w)
	if err != nil {
		return
	}
	o.handler.metrics.Intercepted.Inc()
	secure := tls.Server(conn, config)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.Timeouts.Handshake)
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
		o.give(conn, secure) // net/http serves HTTP/2 only on a *tls.Conn
		return
	}
	o.give(conn, &interceptedConn{Conn: secure, client: conn})
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
		o.handler.interception.refusals.rejected(o.handler.dispatcher.Policy(), conn.addr, o.key, o.request.Target, o.request.Start, certain)
	}
	conn.Close()
}

// give gives a connection to the inner server. as is conn, or a TLS connection over conn.
func (o *opening) give(conn *clientConn, as net.Conn) {
	x := o.request
	conn.grant = &grant{target: x.Target, client: x.Client, via: o.via, options: x.Options, policy: x.Snapshot.Policy(), began: x.Start, key: o.key}
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
		o.give(conn, conn)
	default:
		refused := o.metered(context.WithoutCancel(r.Context()), func(origin net.Conn) bool {
			o.relay(conn, origin)
			return true
		})
		if refused != nil {
			o.handler.metrics.Refused(refused.Reason)
			conn.Close()
		}
	}
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
	switch {
	case n == 0 && errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil
	case n == 0:
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
