package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// attemptDelay is the time for which a connect to one address runs alone before the next
// address is tried in parallel (RFC 8305).
const attemptDelay = 250 * time.Millisecond

// keepAlive detects a vanished peer within two minutes, so that connections without an idle
// timeout end, too.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second, Interval: 15 * time.Second, Count: 4}

var tcp = net.Dialer{KeepAliveConfig: keepAlive}

// open connects to one address. receive is the requested size of the receive buffer in
// bytes; 0 leaves it to the system.
func (d *Dialer) open(ctx context.Context, a netip.AddrPort, receive int) (net.Conn, error) {
	if d.connect != nil {
		return d.connect(ctx, a)
	}
	// Not DialTCP: it binds a local port before connecting, which blocks that port for all
	// destinations.
	dialer := &tcp
	if receive > 0 {
		dialer = &net.Dialer{KeepAliveConfig: keepAlive, Control: func(_, _ string, raw syscall.RawConn) error {
			limitReceive(raw, receive)
			return nil
		}}
	}
	nc, err := dialer.DialContext(ctx, "tcp", a.String())
	switch {
	case err == nil:
		return nc, nil
	case a.Addr().Is6() && errors.Is(err, syscall.EADDRNOTAVAIL):
		// On IPv4 this means no free ports; on IPv6, that the machine has no IPv6.
		return nil, &Error{Kind: Unreachable, Err: err}
	default:
		return nil, err
	}
}

// attempt is the result of one connect.
type attempt struct {
	conn net.Conn
	err  error
}

// race connects to the first address that answers. It returns when every attempt it has
// started has ended.
func (d *Dialer) race(ctx context.Context, to []netip.AddrPort, receive int) (net.Conn, error) {
	if len(to) == 1 {
		return d.open(ctx, to[0], receive)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan attempt)
	delay := time.NewTimer(0)
	defer delay.Stop()
	var (
		won     net.Conn
		failure error
		running int
	)
	for {
		var next <-chan time.Time
		if won == nil && len(to) > 0 && ctx.Err() == nil {
			next = delay.C
		} else if running == 0 {
			break
		}
		select {
		case <-next:
			a := to[0]
			to = to[1:]
			running++
			go func() {
				conn, err := d.open(ctx, a, receive)
				ended <- attempt{conn, err}
			}()
			delay.Reset(attemptDelay)
		case got := <-ended:
			running--
			switch {
			case got.err != nil:
				failure = moreSpecificError(failure, got.err)
				delay.Reset(0) // no need to wait for the delay
			case won != nil:
				got.conn.Close()
			default:
				won = got.conn
				cancel()
			}
		}
	}
	if won != nil {
		return won, nil
	}
	if failure == nil {
		failure = ctx.Err()
	}
	return nil, failure
}

// moreSpecificError returns the error that says more about why a name cannot be reached. A
// failure of IPv6 on a machine without IPv6 says nothing.
func moreSpecificError(a, b error) error {
	weight := func(err error) int {
		switch dialKind(err) {
		case Files:
			return 4
		case Refused:
			return 3
		case ConnectTimeout:
			return 2
		case Unreachable, Canceled:
			return 0
		}
		return 1
	}
	if a == nil || weight(b) > weight(a) {
		return b
	}
	return a
}

// connectError makes an *Error of a dial error. It distinguishes a canceled caller from a
// timeout.
func connectError(ctx context.Context, err error) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &Error{Kind: Canceled, Err: ctx.Err()}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: dialKind(err), Err: err}
}

func dialKind(err error) Kind {
	var timeout net.Error
	var dns *net.DNSError
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case outOfResources(err):
		return Files
	case errors.Is(err, errRefused):
		return Refused
	case isAny(err, errsReset):
		return Closed
	case isAny(err, errsUnreachable):
		return Unreachable
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.As(err, &dns):
		return Resolve
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return ConnectTimeout
	}
	return Unknown
}

// outOfResources tells whether this machine has run out of files, ports or buffers. Errors
// of the resolver contain the cause as text only.
func outOfResources(err error) bool {
	if isAny(err, errsOutOfResources) {
		return true
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		for _, e := range errsOutOfResources {
			if strings.Contains(dns.Err, e.Error()) {
				return true
			}
		}
	}
	return false
}

func isAny(err error, all []error) bool {
	return slices.ContainsFunc(all, func(e error) bool { return errors.Is(err, e) })
}
