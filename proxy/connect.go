package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/upstream"
)

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// cleartextPeek is how long a CONNECT to port 80 waits for the client to show
// whether it speaks HTTP. A client that waits for the server gets a tunnel.
const cleartextPeek = 2 * time.Second

// connect opens a CONNECT: to our inner server when its requests are to be
// seen, as a tunnel when not.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, st *state, who *client) {
	refuse := func(a *answer) { s.refuse(w, r, a) }
	host, port, err := policy.ParseAuthority(r.RequestURI)
	wish, sensible := wishOf(r.Header, wish{})
	switch {
	case err != nil:
		refuse(&answerBadTarget)
		return
	case r.ContentLength != 0:
		refuse(&answerConnectBody)
		return
	case !st.policy.Egress.Ports.Allows(port):
		s.activity.portRefused(policy.Target{Scheme: "https", Host: host, Port: port})
		refuse(&answerPort)
		return
	case s.passed(r.Header["Via"]):
		refuse(&answerLoop)
		return
	case !sensible:
		refuse(&answerWish)
		return
	}
	// A literal address needs no look-up, so what is forbidden is said here,
	// where every client shows it, and not inside the tunnel.
	if ip, err := netip.ParseAddr(host); err == nil && !st.dialer.Named(host, port) {
		if err := st.guard.Check(netip.AddrPortFrom(ip, port)); err != nil {
			refuse(upstreamAnswer(err))
			return
		}
	}
	if no := ownedHost(st.policy.Shard, host, port); no != nil {
		refuse(no)
		return
	}
	via := joinVia("", r.Header["Via"])
	open := opening{server: s, state: st, host: host, port: port, who: who, via: via, wish: wish}
	if port == 80 {
		open.cleartext(w, r)
		return
	}
	conn := connOf(r)
	https := s.interception(st.policy, host, port, trustsCA(st.policy, r, conn, who), func() bool {
		return conn != nil && s.passesRefused(keyOf(conn.addr, who, host))
	})
	if https.Why == policy.UnreadConstrained {
		s.tellConstrained(host)
	}
	if https.Open {
		open.intercept(w, r)
	} else {
		open.tunnel(w, r, https.Why)
	}
}

// opening is one CONNECT that was granted.
type opening struct {
	server *Server
	state  *state
	host   string
	port   uint16
	who    *client
	via    string
	wish   wish
}

// take says 200 and takes the connection from the outer server. What the
// client sent with its CONNECT is kept.
func (o *opening) take(w http.ResponseWriter) (*clientConn, error) {
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	conn, ok := raw.(*clientConn)
	if !ok {
		raw.Close()
		return nil, errors.New("hijacked a connection that is not ours")
	}
	conn.SetDeadline(time.Time{})
	if n := buffered.Reader.Buffered(); n > 0 {
		early, _ := buffered.Reader.Peek(n)
		conn.prefix = append([]byte(nil), early...)
	}
	if _, err := io.WriteString(conn, established); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// tunnel dials first, so that a failure has a status, then relays bytes.
func (o *opening) tunnel(w http.ResponseWriter, r *http.Request, why policy.Unread) {
	s := o.server
	bytes := o.purse(r, "https")
	defer s.purses.leave(bytes)
	origin, err := o.dial(upstream.WithMeter(r.Context(), bytes))
	if err != nil {
		if r.Context().Err() == nil {
			s.refuse(w, r, upstreamAnswer(err))
		}
		return
	}
	conn, err := o.take(w)
	if err != nil {
		origin.Close()
		return
	}
	s.passesUnread(o.state.policy, policy.Target{Scheme: "https", Host: o.host, Port: o.port}, why)
	o.relay(conn, origin)
}

// purse is what the bytes of a tunnel are taken from.
func (o *opening) purse(r *http.Request, scheme string) *purse {
	x := exchange{state: o.state, client: o.who, wish: o.wish, conn: connOf(r)}
	to := policy.Target{Scheme: scheme, Host: o.host, Port: o.port}
	return o.server.stint(o.state.policy.Match(to).Site, to, x.clientName())
}

func (o *opening) dial(ctx context.Context) (net.Conn, error) {
	if o.state.nextHop != nil {
		return o.state.nextHop.Tunnel(upstream.WithVia(ctx, o.via), o.host, o.port)
	}
	return o.state.dialer.Dial(ctx, o.host, o.port)
}

// relay copies until both sides are done.
func (o *opening) relay(conn *clientConn, origin net.Conn) {
	s, t := o.server, o.state.policy.Timeouts
	s.metrics.TunnelOpened()
	defer s.metrics.TunnelClosed()
	early := conn.prefix
	conn.prefix = nil
	s.tunnels.run(conn, func(ctx context.Context, active func(up bool)) {
		upstream.Relay(ctx, conn, origin, upstream.RelayOptions{
			Idle: t.TunnelIdle, Life: t.TunnelLife, FromClient: early, OnProgress: active,
		})
	})
}

// intercept answers TLS in the host's name and hands the connection on.
func (o *opening) intercept(w http.ResponseWriter, r *http.Request) {
	s := o.server
	config, err := s.ca.TLSConfig(o.host)
	if err != nil {
		s.log.WithError(err).Warn("cannot make a certificate")
		s.refuse(w, r, &answerBug)
		return
	}
	conn, err := o.take(w)
	if err != nil {
		return
	}
	s.metrics.Intercepted()
	secure := tls.Server(conn, config)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), o.state.policy.Timeouts.Handshake)
	defer cancel()
	if !s.tunnels.add(conn) {
		conn.Close()
		return
	}
	defer s.tunnels.remove(conn)
	err = secure.HandshakeContext(ctx)
	s.metrics.Handshake("client", err == nil)
	if err != nil {
		o.handshakeFailed(conn, err)
		return
	}
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		o.give(conn, secure, "https") // by its type net/http knows that it may be HTTP/2
		return
	}
	o.give(conn, &opened{Conn: secure, under: conn}, "https")
}

// handshakeFailed tells a client that spoke cleartext what is wrong, and the
// operator when a client does not trust the CA.
func (o *opening) handshakeFailed(conn *clientConn, err error) {
	var notTLS tls.RecordHeaderError
	if errors.As(err, &notTLS) && notTLS.Conn != nil {
		o.server.metrics.Refused(answerCleartext.reason)
		conn.SetDeadline(time.Now().Add(time.Second))
		answerCleartext.writeRaw(conn)
	}
	certain := ca.Rejected(err)
	if certain || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		o.server.rejected(conn.addr, o.who, policy.Target{Scheme: "https", Host: o.host, Port: o.port}, certain)
	}
	conn.Close()
}

// give hands the connection to the inner server, which knows by it what the
// target of its requests is.
func (o *opening) give(conn *clientConn, as net.Conn, scheme string) {
	conn.target = &policy.Target{Scheme: scheme, Host: o.host, Port: o.port}
	conn.client, conn.via, conn.wish, conn.admitted = o.who, o.via, o.wish, o.state.policy
	conn.serving.Store(false)
	if !o.server.handoff.give(as) {
		conn.Close()
	}
}

// cleartext is CONNECT to port 80. Some clients tunnel even plain http; what
// they say is then treated as any plain request. Anything else is a tunnel.
func (o *opening) cleartext(w http.ResponseWriter, r *http.Request) {
	s := o.server
	conn, err := o.take(w)
	if err != nil {
		return
	}
	if !s.tunnels.add(conn) {
		conn.Close()
		return
	}
	first, err := peek(conn)
	s.tunnels.remove(conn)
	switch {
	case err != nil:
		conn.Close()
	case looksLikeHTTP(first):
		o.give(conn, conn, "http")
	default:
		bytes := o.purse(r, "http")
		defer s.purses.leave(bytes)
		origin, err := o.dial(upstream.WithMeter(context.WithoutCancel(r.Context()), bytes))
		if err != nil {
			s.metrics.Refused(upstreamAnswer(err).reason)
			conn.Close()
			return
		}
		o.relay(conn, origin)
	}
}

// peek reads what the client says first, nothing when it waits for the server.
func peek(conn *clientConn) ([]byte, error) {
	if len(conn.prefix) > 0 {
		return conn.prefix, nil
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
	conn.prefix = first[:n]
	return first[:n], nil
}

// methodLetters are those of a request's first word. Lower case counts, for a
// request that says get is HTTP and to be refused, not to be tunnelled.
const methodLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"

// looksLikeHTTP recognises a request line by its first word, which may have
// come in pieces.
func looksLikeHTTP(b []byte) bool {
	method, _, _ := strings.Cut(string(b[:min(len(b), 24)]), " ")
	return method != "" && strings.Trim(method, methodLetters) == ""
}
