package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// defaultIdlePerHost stands for a MaxIdlePerHost of zero.
const defaultIdlePerHost = 32

// Transport sends requests to origins, over HTTP/1.1 and HTTP/2, and keeps idle
// connections. Dial must be set; a zero duration means no timeout. It is safe for
// concurrent use, and must not be changed or copied after the first request.
//
// It is an http.RoundTripper. It follows no redirects, adds no User-Agent or
// Accept-Encoding, and passes the body on as it arrives. It runs on the caller's goroutine;
// only a streamed request body has a goroutine of its own.
type Transport struct {
	// Dial connects to an origin.
	Dial func(ctx context.Context, host string, port uint16) (net.Conn, error)
	// Forward, if set, connects to the next hop, which gets plain http requests in absolute
	// form, with auth as their Proxy-Authorization.
	Forward func(ctx context.Context) (conn net.Conn, auth string, err error)
	// Login is the next hop's, for requests in absolute form.
	Login *Login

	TLS              *tls.Config
	HandshakeTimeout time.Duration // of TLS
	AnswerTimeout    time.Duration // from the end of the request to the end of the answer's head
	StallTimeout     time.Duration // of a body in either direction, without a byte
	IdleTimeout      time.Duration // of an idle connection

	MaxIdlePerHost int // 0: 32; negative: none
	MaxIdle        int // in all; 0: no bound, negative: none

	start   sync.Once
	pool    pool
	both    *tls.Config    // offers HTTP/2 and HTTP/1.1
	single  *tls.Config    // offers HTTP/1.1
	closing sync.WaitGroup // bodies that are being closed
}

// ErrTransportClosed is wrapped in the error of a request after Close. Nothing of the
// request was sent.
var ErrTransportClosed = errors.New("the transport has been closed")

func (t *Transport) init() {
	t.pool.init(t.MaxIdlePerHost, t.MaxIdle, t.IdleTimeout)
	base := cmp.Or(t.TLS, &tls.Config{})
	t.both, t.single = base.Clone(), base.Clone()
	t.both.NextProtos = []string{alpnHTTP2, "http/1.1"}
	t.single.NextProtos = []string{"http/1.1"}
	if strings.Contains(","+os.Getenv("GODEBUG")+",", ",http2client=0,") { // net/http has no HTTP/2 then
		t.both = t.single
	}
}

// CloseIdle closes idle connections.
func (t *Transport) CloseIdle() {
	t.start.Do(t.init)
	t.pool.sweep(0)
}

// Close refuses new requests, closes idle connections and waits until connections in use
// have ended. Running requests end by their contexts.
func (t *Transport) Close() {
	t.start.Do(t.init)
	t.pool.close()
	t.closing.Wait()
}

// RoundTrip implements http.RoundTripper. Its errors are *Error.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.start.Do(t.init)
	o, err := prepare(req)
	if err != nil {
		closeBody(req)
		return nil, &Error{Kind: invalid, Err: err}
	}
	if o.forward = t.Forward != nil && !o.to.secure; o.forward {
		o.to = hostKey{}
		if err := t.Login.Begin(req.Context()); err != nil {
			closeBody(req)
			return nil, err
		}
	}
	resp, e := t.send(req.Context(), &o)
	if o.forward {
		status := 0
		if e == nil {
			status = resp.StatusCode
		}
		if refused := t.Login.End(status); refused != nil {
			resp.Body.Close()
			return nil, refused
		}
	}
	if e != nil {
		return nil, e
	}
	return resp, nil
}

// send finds a connection and sends the request on it. It sends the request again only
// where the origin certainly has not processed it, so each call counts as one request. A
// request that may have been processed is left to the caller.
func (t *Transport) send(ctx context.Context, o *outgoing) (*http.Response, *Error) {
	if err := ctx.Err(); err != nil {
		closeBody(o.req)
		return nil, &Error{Kind: Canceled, Err: err}
	}
	fresh := false // exclude connections that have been idle
	for refused := 0; ; {
		c, e := t.connect(ctx, o, fresh)
		if e != nil {
			o.closeBody()
			return nil, e
		}
		if o.waitedForConn {
			o.waitedForConn = false
			if s, ok := ctx.Value(SenderKey{}).(sender); ok {
				s.Sending()
			}
		}
		var resp *http.Response
		var again bool
		if c.multiplexed != nil {
			if resp, e, again = t.roundTrip2(ctx, c, o); again {
				refused++
				again = refused <= maxRefused && pause(ctx, refused)
			}
		} else {
			resp, e = c.roundTrip(ctx, o)
			again = e != nil && e.Stale && !e.Sent && !fresh
			fresh = true
		}
		if e == nil {
			return resp, nil
		}
		if !again || ctx.Err() != nil || !o.rewind() {
			o.closeBody()
			return nil, e
		}
	}
}

// connect returns a connection for the request, from the pool or new. On an HTTP/2
// connection it has reserved a stream.
func (t *Transport) connect(ctx context.Context, o *outgoing, fresh bool) (*conn, *Error) {
	for {
		offered, ok := t.pool.take(o.to, fresh, o.upgrade != "") // HTTP/2 has no Upgrade
		switch {
		case !ok:
			return nil, &Error{Kind: Canceled, Err: ErrTransportClosed}
		case offered.dialing != nil:
			o.waitedForConn = true
			select {
			case <-offered.dialing.done:
			case <-ctx.Done():
				return nil, &Error{Kind: Canceled, Err: ctx.Err()}
			}
			if e := offered.dialing.err; e != nil {
				ours := *e // a copy: the caller may change it
				return nil, &ours
			}
		case offered.conn == nil:
			o.waitedForConn = true
			return t.dial(ctx, o, offered)
		case offered.conn.multiplexed != nil:
			// Other requests may use the connection, so it keeps its meter.
			if m, g := meterFrom(ctx), offered.conn.metered; m != nil && g != nil && !g.reuse(m) {
				t.pool.retire(offered.conn)
				offered.conn.multiplexed.client.Release()
				t.pool.releaseStream(offered.conn)
				continue
			}
			return offered.conn, nil
		case !offered.conn.socket.alive():
			offered.conn.close()
		default:
			if g := offered.conn.metered; g != nil && !g.reuse(meterFrom(ctx)) {
				offered.conn.close()
				continue
			}
			return offered.conn, nil
		}
	}
}

// dial opens a connection for an offer that has neither a connection nor a pending dial.
func (t *Transport) dial(ctx context.Context, o *outgoing, to offer) (*conn, *Error) {
	var c *conn
	e := &Error{Kind: Unknown} // after a panic too, requests that wait for this dial must be released
	defer func() {
		if c == nil {
			if to.first {
				t.pool.dialEnded(to.home, nil, e)
			}
			t.pool.connectionGone(to.home)
		}
	}()
	opened, err := t.open(ctx, o, to)
	if err != nil {
		e = connectError(ctx, err)
		return nil, e
	}
	switch c = opened; {
	case c.multiplexed != nil:
		c.multiplexed.ready()
	case to.first:
		t.pool.dialEnded(to.home, c, nil)
	}
	return c, nil
}

func (t *Transport) open(ctx context.Context, o *outgoing, to offer) (*conn, error) {
	if o.forward {
		nc, auth, err := t.Forward(ctx)
		if err != nil {
			return nil, err
		}
		c := newConn(t, to.home, nc)
		c.auth = auth
		return c, nil
	}
	nc, err := t.Dial(ctx, o.to.name, o.to.port)
	if err != nil {
		return nil, err
	}
	if !o.to.secure {
		return newConn(t, to.home, nc), nil
	}
	config := t.both
	if to.single {
		config = t.single
	}
	tc, err := handshakeTLS(ctx, nc, config, cmp.Or(config.ServerName, strings.TrimSuffix(o.to.name, ".")), t.HandshakeTimeout)
	if err != nil {
		return nil, err
	}
	if tc.ConnectionState().NegotiatedProtocol == alpnHTTP2 {
		c, err := t.newConn2(ctx, to.home, tc, to.first)
		if err != nil {
			nc.Close()
			return nil, err
		}
		return c, nil
	}
	return newConn(t, to.home, tc), nil
}

// handshakeTLS does the client's side of a handshake on nc, which it closes if that fails. timeout bounds it, not counting
// pauses by a byte limit; 0: no bound. Its errors are *Error.
func handshakeTLS(ctx context.Context, nc net.Conn, config *tls.Config, name string, timeout time.Duration) (*tls.Conn, error) {
	config = config.Clone()
	config.ServerName = name
	asked := false // for a certificate, of which none is sent
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return &tls.Certificate{}, nil
	}
	tc := tls.Client(&blockableConn{Conn: nc}, config)
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = withPausableTimeout(ctx, meteredConnOf(nc), timeout)
		defer cancel()
	}
	// The handshake runs on a goroutine of its own: verifying a certificate grows the
	// stack, and the request's goroutine would keep that stack while it waits for the
	// answer.
	done := make(chan error, 1)
	go func() { done <- tc.HandshakeContext(limited) }()
	if err := <-done; err != nil {
		nc.Close()
		e := &Error{Kind: TLS, TLS: tlsFailureOf(err, asked, time.Now()), Err: err}
		var timeout net.Error
		switch still := budgetErrorOf(err); {
		case ctx.Err() != nil:
			e = &Error{Kind: Canceled, Err: ctx.Err()}
		case still != nil:
			e = still
		case limited.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
			e = &Error{Kind: ConnectTimeout, Err: err}
		}
		return nil, e
	}
	return tc, nil
}
