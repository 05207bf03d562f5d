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
	meter atomic.Pointer[metering]

	// For a Limiter:
	brakes
	arrival  arrival
	buffer   int         // see Dialer.ReceiveBuffer
	born     bool        // it may have carried something
	narrowed atomic.Bool // the receive buffer is as small as it gets
	late     atomic.Bool // since after it was born
	width    int64       // the receive buffer's size until then
	stretch  atomic.Pointer[stretch]
	paid     prepaid // guarded by mu
	isPaid   atomic.Bool

	// For a Windowed one:
	receives  atomic.Bool // its room is paid for
	receiving receiving   // guarded by mu
}

// metering is a Meter, and whether it is to be asked.
type metering struct {
	Meter
	limiter  Limiter  // nil: it only counts
	generous Generous // nil: its connections are narrow
	windowed Windowed // nil: what they receive is not paid for ahead
}

func newMeteredConn(nc net.Conn, m Meter) *meteredConn {
	return newBudgetedConn(nc, m, 0, nil)
}

// newBudgetedConn is newMeteredConn with the size of the receive buffer under a
// byte limit, and what was lent for one that is larger.
func newBudgetedConn(nc net.Conn, m Meter, buffer int, lent *stretch) *meteredConn {
	c := &meteredConn{Conn: nc, arrival: newArrival(nc), buffer: buffer, width: receiveSizes()[0]}
	if lent != nil {
		c.width = lent.n
		c.stretch.Store(lent)
	}
	c.setMeter(m)
	c.born = true
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
	case old == nil || old.Meter != m:
		limiter, _ := m.(Limiter)
		generous, _ := m.(Generous)
		windowed, _ := m.(Windowed)
		c.meter.Store(&metering{m, limiter, generous, windowed})
		c.repay()
		c.limiter() // for the receive buffer
	}
}

func (c *meteredConn) Read(p []byte) (int, error) {
	if l := c.limiter(); l != nil && len(p) > 0 {
		return c.readBudgeted(l, p)
	}
	c.repay()
	n, err := c.Conn.Read(p)
	c.read(n)
	return n, err
}

func (c *meteredConn) Write(p []byte) (int, error) {
	if c.limiter() != nil {
		return c.writeBudgeted(p)
	}
	n, err := c.Conn.Write(p)
	c.wrote(n)
	return n, err
}

func (c *meteredConn) read(n int) {
	if m := c.meter.Load(); m != nil && n > 0 {
		m.Read(n)
	}
}

func (c *meteredConn) wrote(n int) {
	if m := c.meter.Load(); m != nil && n > 0 {
		m.Wrote(n)
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
