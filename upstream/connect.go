package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// connect gives a connection for the request, kept or new. An HTTP/2 one has a
// stream reserved.
func (t *Transport) connect(ctx context.Context, o *outgoing, fresh bool) (*conn, *Error) {
	key := hostKey{name: o.host, port: o.port, secure: o.secure}
	if o.forward {
		key = hostKey{}
	}
	for {
		found, ok := t.pool.take(key, fresh, o.upgrade != "")
		switch {
		case !ok:
			return nil, &Error{Kind: Canceled, Err: ErrTransportClosed}
		case found.wait != nil:
			o.waited = true
			select {
			case <-found.wait.done:
			case <-ctx.Done():
				return nil, &Error{Kind: Canceled, Err: ctx.Err()}
			}
			if e := found.wait.err; e != nil {
				own := *e // the caller may write to it
				return nil, &own
			}
		case found.conn == nil:
			o.waited = true
			return t.dial(ctx, o, found)
		case found.conn.h2 != nil:
			// Others may be on it, so it goes on being counted.
			if m, g := meterFrom(ctx), found.conn.gauge; m != nil && g != nil {
				g.setMeter(m)
				g.asksNext()
				if g.late.Load() {
					t.pool.retire(found.conn)
					t.pool.leave(found.conn)
					continue
				}
			}
			return found.conn, nil
		case !found.conn.peek.alive():
			found.conn.close()
		default:
			if g := found.conn.gauge; g != nil {
				g.setMeter(meterFrom(ctx))
				g.asksNext()
				if g.late.Load() {
					found.conn.close()
					continue
				}
			}
			return found.conn, nil
		}
	}
}

// dial follows an offer that has neither a connection nor one to wait for.
func (t *Transport) dial(ctx context.Context, o *outgoing, to offer) (*conn, *Error) {
	opened := false
	defer func() {
		if opened {
			return
		}
		// A panic: those who wait for the connection must not wait for ever.
		if to.lead {
			t.pool.land(to.home, nil, &Error{Kind: Unknown})
		}
		t.pool.left(to.home)
	}()
	c, err := t.open(ctx, o, to)
	opened = true
	if err != nil {
		e := dialError(ctx, err)
		if to.lead {
			t.pool.land(to.home, nil, e)
		}
		t.pool.left(to.home)
		return nil, e
	}
	switch {
	case c.h2 != nil:
		c.watch()
	case to.lead:
		t.pool.land(to.home, c, nil)
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
	if tc.ConnectionState().NegotiatedProtocol == http2.NextProtoTLS {
		c, err := t.newConn2(ctx, to.home, tc, to.lead)
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
	if o.upgrade != "" { // which HTTP/2 cannot
		config = t.single
	}
	config = config.Clone()
	asked := noteCertificateRequest(config)
	if config.ServerName == "" {
		config.ServerName = strings.TrimSuffix(o.host, ".")
	}
	tc := tls.Client(&valve{Conn: nc}, config)
	limited := ctx
	if t.HandshakeTimeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = withPatience(ctx, gauge(nc), t.HandshakeTimeout)
		defer cancel()
	}
	// On a goroutine of its own, because verifying a certificate needs a deep
	// stack, which a request that then waits for its answer would keep.
	done := make(chan error, 1)
	go func() { done <- tc.HandshakeContext(limited) }()
	if err := <-done; err != nil {
		e := &Error{Kind: TLS, TLS: tlsFailureOf(err, *asked, time.Now()), Err: err}
		var timeout net.Error
		switch still := stillFor(err); {
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

// dialError keeps what a dialer of this package said, and wraps what another did.
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
