package upstream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// byteMeter counts the bytes that pass on a connection to a site, TLS and headers included.
// Both methods are called concurrently and for every read and write, so they must be cheap.
// A byteMeter is compared with ==, so its type must be comparable, such as a pointer.
type byteMeter interface {
	Read(n int)  // n bytes were received from the site
	Wrote(n int) // n bytes were sent to the site
}

// sendObserver is called when a request that had to wait for a new connection is about to
// be written.
type sendObserver interface{ Sending() }

// SenderKey is the context key of a sendObserver.
type SenderKey struct{}

// MeterKey is the context key of a byteMeter, for context types that answer to it
// themselves. Other callers use WithMeter.
type MeterKey struct{}

// WithMeter has m count the bytes of the connections that are dialed or used under ctx.
func WithMeter(ctx context.Context, m byteMeter) context.Context {
	return context.WithValue(ctx, MeterKey{}, m)
}

// meterFrom is the byteMeter of ctx; nil if there is none.
func meterFrom(ctx context.Context) byteMeter {
	m, _ := ctx.Value(MeterKey{}).(byteMeter)
	return m
}

// meteredConn counts the bytes that pass. Every dialed connection is wrapped, even without
// a meter, because a pooled connection may get a meter later. Safe for concurrent use, as
// net.Conn is.
//
// It embeds the interface and not the *net.TCPConn, so that it has neither ReadFrom nor
// WriteTo: these would pass bytes uncounted. Relay gets the TCP connection by NetConn and
// counts by itself.
type meteredConn struct {
	net.Conn
	meter atomic.Pointer[metering]

	// Used with a byteLimiter:
	pausableDeadlines
	arrival         arrival
	buffer          int         // see Dialer.ReceiveBuffer
	usedBefore      bool        // bytes may have passed before the limit was set
	bufferSized     atomic.Bool // the receive buffer has the size that the byte limit requires
	bufferSizedLate atomic.Bool // it got that size after bytes had passed

	// The fields below are used with a Windowed limiter.
	paysAhead atomic.Bool   // credit for the receive buffer is taken in advance
	prepaid   receiveCredit // guarded by mu
}

// metering is a connection's byteMeter with the limiter interfaces that it implements.
type metering struct {
	byteMeter
	limiter  byteLimiter // nil: bytes are only counted
	windowed Windowed    // nil: received bytes are not paid in advance
}

// newBudgetedConn wraps a connection whose bytes m counts. buffer is the size of the receive
// buffer in bytes. Bytes may have passed before.
func newBudgetedConn(nc net.Conn, m byteMeter, buffer int) *meteredConn {
	c := &meteredConn{Conn: nc, arrival: newArrival(nc), buffer: buffer}
	c.conn = nc
	c.setMeter(m)
	c.usedBefore = true
	return c
}

// setMeter makes m count all following bytes; nil counts none.
func (c *meteredConn) setMeter(m byteMeter) {
	old := c.meter.Load()
	switch {
	case m == nil:
		if old != nil {
			c.meter.Store(nil)
		}
	case old == nil || old.byteMeter != m:
		limiter, _ := m.(byteLimiter)
		windowed, _ := m.(Windowed)
		c.meter.Store(&metering{m, limiter, windowed})
		c.limiter() // sizes the receive buffer
	}
}

func (c *meteredConn) Read(p []byte) (int, error) {
	if c.limiter() != nil && len(p) > 0 {
		return c.readBudgeted(p)
	}
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

// CloseWrite closes the sending direction, if the connection underneath can.
func (c *meteredConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn is the connection as it was dialed.
func (c *meteredConn) NetConn() net.Conn { return c.Conn }

type closeWriter interface{ CloseWrite() error }
