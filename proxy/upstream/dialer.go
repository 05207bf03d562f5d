package upstream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// resolver finds the addresses of a name. *net.Resolver implements it.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer opens connections to sites. The zero value uses the system's resolver, has no time
// limit, and dials public addresses only. It is safe for concurrent use; its fields must
// not be changed after the first Dial.
type Dialer struct {
	Guard *Guard
	// Resolve maps targets, "host:port" → "ip:port". The operator wrote down these
	// addresses, so they may be private; listeners of this process and metadata services
	// stay refused.
	Resolve  map[string]string
	Resolver resolver
	// Timeout bounds resolving and connecting together; 0: no bound.
	Timeout time.Duration

	// connect opens a TCP connection; tests replace it.
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

// Dial connects to a host, which is a canonical name or an address without brackets. The
// name is resolved once, every address is checked, and only checked addresses are dialed.
// The meter of ctx counts the connection's bytes.
func (d *Dialer) Dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	return d.dial(ctx, host, port, false)
}

// Check tells why a host may not be dialed, as far as that is known without resolving it. A target
// in Resolve may be.
func (d *Dialer) Check(host string, port uint16) error {
	if len(d.Resolve) > 0 && d.Resolve[joinHostPort(host, port)] != "" {
		return nil
	}
	return d.Guard.CheckHost(host, port)
}

// dial is Dial. If named is true, the host may have any address that Resolve could name.
func (d *Dialer) dial(ctx context.Context, host string, port uint16, named bool) (net.Conn, error) {
	within, cancel := ctx, context.CancelFunc(func() {})
	if d.Timeout > 0 {
		within, cancel = context.WithTimeout(ctx, d.Timeout)
	}
	defer cancel()
	to, err := d.addresses(within, host, port, named)
	if err != nil {
		return nil, connectError(ctx, err)
	}
	m, receive := meterFrom(ctx), 0
	if l, ok := m.(ByteLimiter); ok && l.Budgeted() {
		receive = bufferFor(l)
	}
	nc, err := d.race(within, to, receive)
	if err != nil {
		return nil, connectError(ctx, err)
	}
	return newMeteredConn(nc, m), nil
}

// addresses returns the addresses to dial for a host, in order of preference.
func (d *Dialer) addresses(ctx context.Context, host string, port uint16, named bool) ([]netip.AddrPort, error) {
	if len(d.Resolve) > 0 {
		if to, ok := d.Resolve[joinHostPort(host, port)]; ok {
			a, err := netip.ParseAddrPort(to)
			if err != nil {
				return nil, &Error{Kind: Resolve, Err: errBadResolve}
			}
			return d.allowedAddresses([]netip.Addr{a.Addr()}, a.Port(), true)
		}
	}
	found, err := d.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	return d.allowedAddresses(found, port, named)
}

// allowedAddresses returns the addresses that the guard allows; none is an error. A name
// with an address of this process is refused as a whole: localhost leads here even if its
// other address has no listener.
func (d *Dialer) allowedAddresses(found []netip.Addr, port uint16, named bool) ([]netip.AddrPort, error) {
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

// lookup resolves a host. Addresses and localhost are not sent to the resolver.
func (d *Dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if host == "" {
		return nil, &Error{Kind: Resolve, Err: errNoHost}
	}
	// RFC 6761: localhost is loopback, whatever a resolver would answer.
	if isLocalhost(host) {
		return []netip.Addr{loopback4, loopback6}, nil
	}
	found, err := cmp.Or[resolver](d.Resolver, net.DefaultResolver).LookupNetIP(ctx, "ip", host)
	if err != nil {
		kind := Resolve
		if outOfResources(err) {
			kind = Files
		}
		return nil, &Error{Kind: kind, Err: err}
	}
	return found, nil
}

// isLocalhost recognises localhost and all names under it.
func isLocalhost(host string) bool {
	return strings.HasSuffix("."+strings.ToLower(strings.TrimSuffix(host, ".")), ".localhost")
}

// interleave alternates the address families, beginning with the family of the first
// address, so that an unreachable family costs one delay (RFC 8305).
func interleave(all []netip.AddrPort) []netip.AddrPort {
	first := all[0].Addr().Is4()
	places, next := map[netip.AddrPort]int{}, map[bool]int{true: 0, false: 1}
	for _, a := range all {
		family := a.Addr().Is4() == first
		places[a] = next[family]
		next[family] += 2
	}
	return slices.SortedFunc(maps.Keys(places), func(a, b netip.AddrPort) int { return places[a] - places[b] })
}

func joinHostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

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

// race connects to the first address that answers. It returns when every attempt it has
// started has ended.
func (d *Dialer) race(ctx context.Context, to []netip.AddrPort, receive int) (net.Conn, error) {
	if len(to) == 1 {
		return d.open(ctx, to[0], receive)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type attempt struct {
		conn net.Conn
		err  error
	}
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
		return slices.ContainsFunc(errsOutOfResources, func(e error) bool { return strings.Contains(dns.Err, e.Error()) })
	}
	return false
}

func isAny(err error, all []error) bool {
	return slices.ContainsFunc(all, func(e error) bool { return errors.Is(err, e) })
}
