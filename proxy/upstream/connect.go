package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"
)

// connect returns a connection for the request, from the pool or new. On an HTTP/2
// connection it has reserved a stream.
func (t *Transport) connect(ctx context.Context, o *outgoing, fresh bool) (*conn, *Error) {
	key := hostKey{name: o.host, port: o.port, secure: o.secure}
	if o.forward {
		key = hostKey{}
	}
	for {
		offered, ok := t.pool.take(key, fresh, o.upgrade != "")
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
		case !offered.conn.peeker.alive():
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
	opened := false
	defer func() {
		if opened {
			return
		}
		// After a panic too, requests that wait for this dial must be released.
		if to.first {
			t.pool.dialEnded(to.home, nil, &Error{Kind: Unknown})
		}
		t.pool.connectionGone(to.home)
	}()
	c, err := t.open(ctx, o, to)
	opened = true
	if err != nil {
		e := dialError(ctx, err)
		if to.first {
			t.pool.dialEnded(to.home, nil, e)
		}
		t.pool.connectionGone(to.home)
		return nil, e
	}
	switch {
	case c.multiplexed != nil:
		c.allowPublish()
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
	nc, err := t.Dial(ctx, o.host, o.port)
	if err != nil {
		return nil, err
	}
	if !o.secure {
		return newConn(t, to.home, nc), nil
	}
	tc, err := t.handshake(ctx, o, nc)
	if err != nil {
		nc.Close()
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

func (t *Transport) handshake(ctx context.Context, o *outgoing, nc net.Conn) (*tls.Conn, error) {
	config := t.both
	if o.upgrade != "" { // HTTP/2 has no Upgrade
		config = t.single
	}
	config = config.Clone()
	asked := noteCertificateRequest(config)
	if config.ServerName == "" {
		config.ServerName = strings.TrimSuffix(o.host, ".")
	}
	tc := tls.Client(&blockableConn{Conn: nc}, config)
	limited := ctx
	if t.HandshakeTimeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = withPausableTimeout(ctx, meteredConnOf(nc), t.HandshakeTimeout)
		defer cancel()
	}
	// The handshake runs on a goroutine of its own: verifying a certificate grows the
	// stack, and the request's goroutine would keep that stack while it waits for the
	// answer.
	done := make(chan error, 1)
	go func() { done <- tc.HandshakeContext(limited) }()
	if err := <-done; err != nil {
		e := &Error{Kind: TLS, TLS: tlsFailureOf(err, *asked, time.Now()), Err: err}
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

// dialError returns the *Error of a dialer of this package as it is, and wraps any other
// error.
func dialError(ctx context.Context, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return &Error{Kind: Canceled, Err: ctx.Err()}
	default:
		return &Error{Kind: Unreachable, Err: err}
	}
}
