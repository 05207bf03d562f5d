package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Resolver finds the addresses of a name. A *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer opens connections to sites. The zero value resolves as the system
// does, waits as long as the caller does, and dials public addresses only. It
// is safe for concurrent use; its fields are not to be changed after the first
// Dial.
type Dialer struct {
	Guard *Guard
	// Resolve says where targets are, "host:port" → "ip:port". A target named
	// here may be anywhere but on a listener of ours or a metadata service:
	// the operator wrote down the very address.
	Resolve  map[string]string
	Resolver Resolver
	// Timeout bounds resolving and connecting together; 0 is no bound.
	Timeout time.Duration
	// ReceiveBuffer is what the system is asked to hold, in bytes, of a connection
	// that is dialed under a byte limit: what lies there has been sent without
	// credit. Linux takes twice that. 0 is 16 KiB, or more as far as a Generous one
	// allows it; negative leaves it to the system.
	ReceiveBuffer int

	// connect opens a TCP connection; tests have their own.
	connect func(ctx context.Context, a netip.AddrPort) (net.Conn, error)
}

var (
	errNoAddress  = errors.New("the name has no address")
	errNoHost     = errors.New("no host")
	errBadResolve = errors.New("resolve leads to something that is not ip:port")
)

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// Dial connects to a host, which is a canonical name or an address without
// brackets. The name is resolved once, every address is checked, and only
// checked addresses are dialed. The connection counts into the Meter of ctx.
func (d *Dialer) Dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	return d.dial(ctx, host, port, false)
}

// Named tells whether Resolve says where this target is.
func (d *Dialer) Named(host string, port uint16) bool {
	if len(d.Resolve) == 0 {
		return false
	}
	_, ok := d.Resolve[joinHostPort(host, port)]
	return ok
}

// dial is Dial; named lets the host be anywhere that Resolve could lead to.
func (d *Dialer) dial(ctx context.Context, host string, port uint16, named bool) (net.Conn, error) {
	within, cancel := ctx, context.CancelFunc(func() {})
	if d.Timeout > 0 {
		within, cancel = context.WithTimeout(ctx, d.Timeout)
	}
	defer cancel()
	to, err := d.addresses(within, host, port, named)
	if err != nil {
		if ctx.Err() != nil {
			return nil, connectError(ctx, err)
		}
		return nil, err
	}
	m := meterFrom(ctx)
	lent, receive := d.receives(m)
	nc, err := d.race(within, to, receive)
	if err != nil {
		lent.end()
		return nil, connectError(ctx, err)
	}
	return newBudgetedConn(nc, m, d.ReceiveBuffer, lent), nil
}

// addresses are those that host may be dialed at, best first.
func (d *Dialer) addresses(ctx context.Context, host string, port uint16, named bool) ([]netip.AddrPort, error) {
	if len(d.Resolve) > 0 {
		if to, ok := d.Resolve[joinHostPort(host, port)]; ok {
			a, err := netip.ParseAddrPort(to)
			if err != nil {
				return nil, &Error{Kind: Resolve, Err: errBadResolve}
			}
			return d.checked([]netip.Addr{a.Addr()}, a.Port(), true)
		}
	}
	found, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	return d.checked(found, port, named)
}

// checked leaves out what the guard refuses. Nothing left is an error. A name
// of which one address is our own is refused as a whole: localhost leads here,
// although nobody may listen on its other address.
func (d *Dialer) checked(found []netip.Addr, port uint16, named bool) ([]netip.AddrPort, error) {
	allowed := make([]netip.AddrPort, 0, len(found))
	var refused error
	for _, ip := range found {
		a := netip.AddrPortFrom(ip.Unmap(), port)
		if err := d.Guard.check(a, named); err != nil {
			if KindOf(err) == Self {
				return nil, err
			}
			refused = err
			continue
		}
		if !slices.Contains(allowed, a) {
			allowed = append(allowed, a)
		}
	}
	if len(allowed) == 0 {
		if refused == nil {
			refused = &Error{Kind: Resolve, Err: errNoAddress}
		}
		return nil, refused
	}
	return interleave(allowed), nil
}

// lookup asks the resolver, except about what needs none.
func (d *Dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if host == "" {
		return nil, &Error{Kind: Resolve, Err: errNoHost}
	}
	// No resolver may say that localhost is elsewhere (RFC 6761), so none is asked.
	if isLocalhost(host) {
		return []netip.Addr{loopback4, loopback6}, nil
	}
	var r Resolver = net.DefaultResolver
	if d.Resolver != nil {
		r = d.Resolver
	}
	found, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		kind := Resolve
		if ranOut(err) {
			kind = Files
		}
		return nil, &Error{Kind: kind, Err: err}
	}
	return found, nil
}

// isLocalhost recognises localhost and all names under it.
func isLocalhost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	const name = "localhost"
	if len(host) < len(name) || !strings.EqualFold(host[len(host)-len(name):], name) {
		return false
	}
	return len(host) == len(name) || host[len(host)-len(name)-1] == '.'
}

// interleave lets the address families take turns, the one of the first
// address first, so that one dead family costs one delay (RFC 8305).
func interleave(all []netip.AddrPort) []netip.AddrPort {
	first := all[0].Addr().Is4()
	var one, other []netip.AddrPort
	for _, a := range all {
		if a.Addr().Is4() == first {
			one = append(one, a)
		} else {
			other = append(other, a)
		}
	}
	if len(other) == 0 {
		return all
	}
	out := all[:0]
	for len(one) > 0 || len(other) > 0 {
		if len(one) > 0 {
			out, one = append(out, one[0]), one[1:]
		}
		if len(other) > 0 {
			out, other = append(out, other[0]), other[1:]
		}
	}
	return out
}

func joinHostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
