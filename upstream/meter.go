package upstream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// Meter is told of the bytes that pass on a connection to a site, TLS and
// headers included. Both methods are called from several goroutines at once
// and for every read and write, so they must be cheap. A Meter is compared
// with ==, so it must be comparable, as a pointer is.
type Meter interface {
	Read(n int)  // n bytes came from the site
	Wrote(n int) // n bytes went to it
}

// Sender hears when a request is about to be written that had to wait for a new
// connection.
type Sender interface{ Sending() }

// SenderKey is the key of a context's Sender.
type SenderKey struct{}

// MeterKey is the key of a context's Meter, for a context of one's own type
// that answers to it. Everybody else uses WithMeter.
type MeterKey struct{}

// WithMeter has the bytes of the connections that are dialed or used under ctx
// counted by m.
func WithMeter(ctx context.Context, m Meter) context.Context {
	return context.WithValue(ctx, MeterKey{}, m)
}

// meterFrom is the Meter of ctx, nil when there is none.
func meterFrom(ctx context.Context) Meter {
	m, _ := ctx.Value(MeterKey{}).(Meter)
	return m
}

// meteredConn counts what passes. Every dialed connection is one, without a
// meter too, because a pooled connection may get its meter later.
//
// It embeds the interface and not the *net.TCPConn, so that it has neither
// ReadFrom nor WriteTo: bytes that passed by Read and Write would not be
// counted. Relay takes the bare connection by NetConn and counts by itself.
type meteredConn struct {
	net.Conn
	meter atomic.Pointer[Meter]
}

func newMeteredConn(nc net.Conn, m Meter) *meteredConn {
	c := &meteredConn{Conn: nc}
	c.setMeter(m)
	return c
}

// setMeter has everything from now on counted by m; nil counts nothing.
func (c *meteredConn) setMeter(m Meter) {
	old := c.meter.Load()
	switch {
	case m == nil:
		if old != nil {
			c.meter.Store(nil)
		}
	case old == nil || *old != m:
		kept := m // so that m itself need not be on the heap when nothing changes
		c.meter.Store(&kept)
	}
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read(n)
	return n, err
}

func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wrote(n)
	return n, err
}

func (c *meteredConn) read(n int) {
	if m := c.meter.Load(); m != nil && n > 0 {
		(*m).Read(n)
	}
}

func (c *meteredConn) wrote(n int) {
	if m := c.meter.Load(); m != nil && n > 0 {
		(*m).Wrote(n)
	}
}

// CloseWrite shuts the sending side, when the connection underneath can.
func (c *meteredConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection as it was dialed.
func (c *meteredConn) NetConn() net.Conn { return c.Conn }

type closeWriter interface{ CloseWrite() error }
