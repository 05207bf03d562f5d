package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
)

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// opener has what an opening needs of the server.
type opener struct {
	dispatcher   *dispatch.Dispatcher
	ca           *ca.CA
	metrics      *metrics.Metrics
	log          *logrus.Logger
	interception *interception
	conns        *trackedConns
	inner        *innerListener
}

// opening is one CONNECT that was not refused.
type opening struct {
	*opener
	snapshot *dispatch.Snapshot
	host     string
	port     uint16
	client   *dispatch.Client // nil: access.clients is empty
	via      string           // Via header of the CONNECT
	options  dispatch.RequestOptions
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

// tunnel connects to the site first, so that a failure has a status, and then relays bytes.
func (o *opening) tunnel(w http.ResponseWriter, r *http.Request, why policy.Unread) {
	bytes := o.byteBudget(r, "https")
	defer o.dispatcher.ReleaseTunnelBytes(bytes)
	meter := &tunnelMeter{SiteBudget: bytes}
	origin, err := o.dial(upstream.WithMeter(r.Context(), meter))
	if err != nil {
		if r.Context().Err() == nil {
			refuse(o.metrics, w, r, problem.OfUpstream(err))
		}
		return
	}
	conn, err := o.hijack(w)
	if err != nil {
		origin.Close()
		return
	}
	o.interception.countTunnel(o.snapshot.Policy(), o.target("https"), why)
	o.relay(conn, origin)
	o.endTunnel(r, meter)
}

// endTunnel reports what a tunnel has moved.
func (o *opening) endTunnel(r *http.Request, m *tunnelMeter) {
	o.dispatcher.EndTunnel(m.Owner().Site, o.clientName(r), m.received.Load(), m.sent.Load())
}

// wait holds the CONNECT while the operator has paused the site. It answers a CONNECT that may not
// wait so long, and is false then.
func (o *opening) wait(w http.ResponseWriter, r *http.Request, scheme string) bool {
	problem := o.dispatcher.WaitForTunnel(r.Context(), o.target(scheme), o.clientName(r), o.options)
	if problem != nil && r.Context().Err() == nil {
		refuse(o.metrics, w, r, problem)
	}
	return problem == nil
}

// byteBudget is the budget that a tunnel takes its bytes from. The caller must release it.
func (o *opening) byteBudget(r *http.Request, scheme string) *bandwidth.SiteBudget {
	to := o.target(scheme)
	return o.dispatcher.TunnelBytes(o.snapshot.Policy().Match(to).Site, to, o.clientName(r))
}

// clientName is the client that the CONNECT counts for.
func (o *opening) clientName(r *http.Request) string {
	x := dispatch.Request{Snapshot: o.snapshot, Client: o.client, Options: o.options, Address: connOf(r).name()}
	return x.ClientName()
}

func (o *opening) dial(ctx context.Context) (net.Conn, error) {
	return o.snapshot.Dial(upstream.WithVia(ctx, o.via), o.host, o.port)
}

// relay copies bytes both ways until both sides are done.
func (o *opening) relay(conn *clientConn, origin net.Conn) {
	t := o.snapshot.Policy().Timeouts
	o.metrics.TunnelOpened()
	defer o.metrics.TunnelClosed()
	early := conn.pending
	conn.pending = nil
	o.conns.relay(conn, func(ctx context.Context, active func(up bool)) {
		upstream.Relay(ctx, conn, origin, upstream.RelayOptions{
			Idle: t.TunnelIdle, Life: t.TunnelLife, FromClient: early, OnProgress: active,
		})
	})
}

// intercept does the TLS handshake with a certificate for the host, and gives the connection
// to the inner server.
func (o *opening) intercept(w http.ResponseWriter, r *http.Request) {
	config, err := o.ca.TLSConfig(o.host)
	if err != nil {
		o.log.WithError(err).Warn("cannot make a certificate")
		refuse(o.metrics, w, r, &problem.Bug)
		return
	}
	conn, err := o.hijack(w)
	if err != nil {
		return
	}
	o.metrics.Intercepted()
	secure := tls.Server(conn, config)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), o.snapshot.Policy().Timeouts.Handshake)
	defer cancel()
	if !o.conns.add(conn) {
		conn.Close()
		return
	}
	defer o.conns.remove(conn)
	err = secure.HandshakeContext(ctx)
	o.metrics.Handshake("client", err == nil)
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

// handshakeFailed tells a client that did not speak TLS so, and notes a client that does not
// trust the CA.
func (o *opening) handshakeFailed(conn *clientConn, err error) {
	var notTLS tls.RecordHeaderError
	if errors.As(err, &notTLS) && notTLS.Conn != nil {
		o.metrics.Refused(problem.Cleartext.Reason)
		conn.SetDeadline(time.Now().Add(time.Second))
		problem.Cleartext.WriteRaw(conn)
	}
	certain := ca.Rejected(err)
	if certain || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		o.interception.refusals.rejected(o.dispatcher.Policy(), conn.addr, o.client, o.target("https"), certain)
	}
	conn.Close()
}

// give gives a connection to the inner server. as is conn, or a TLS connection over conn.
func (o *opening) give(conn *clientConn, as net.Conn, scheme string) {
	conn.grant = &grant{target: o.target(scheme), client: o.client, via: o.via, options: o.options, policy: o.snapshot.Policy()}
	conn.errors.inHandler.Store(false)
	if !o.inner.give(as) {
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
	if !o.conns.add(conn) {
		conn.Close()
		return
	}
	first, err := peek(conn)
	o.conns.remove(conn)
	switch {
	case err != nil:
		conn.Close()
	case looksLikeHTTP(first):
		o.give(conn, conn, "http")
	default:
		bytes := o.byteBudget(r, "http")
		defer o.dispatcher.ReleaseTunnelBytes(bytes)
		meter := &tunnelMeter{SiteBudget: bytes}
		origin, err := o.dial(upstream.WithMeter(context.WithoutCancel(r.Context()), meter))
		if err != nil {
			o.metrics.Refused(problem.OfUpstream(err).Reason)
			conn.Close()
			return
		}
		o.relay(conn, origin)
		o.endTunnel(r, meter)
	}
}
