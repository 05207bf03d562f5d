package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// book is a resolver; every name's answers are given in turn, the last for ever.
type book struct {
	mu    sync.Mutex
	names map[string][]answers
	asked int
}

type answers struct {
	addrs []string
	err   error
	wait  bool // until the caller gives up
}

func (b *book) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	b.mu.Lock()
	b.asked++
	turns := b.names[host]
	if len(turns) > 1 {
		b.names[host] = turns[1:]
	}
	b.mu.Unlock()
	if len(turns) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.0.0.53:53", IsNotFound: true}
	}
	if turns[0].wait {
		<-ctx.Done()
		return nil, &net.DNSError{Err: ctx.Err().Error(), Name: host, IsTimeout: true}
	}
	return addrs(turns[0].addrs...), turns[0].err
}

// network is what connect reaches: it notes every address it is asked for.
type network struct {
	mu     sync.Mutex
	dialed []string
	when   []time.Duration
	start  time.Time
	does   map[string]func(ctx context.Context) (net.Conn, error)
	open   []net.Conn
}

func newNetwork() *network {
	return &network{start: time.Now(), does: map[string]func(context.Context) (net.Conn, error){}}
}

func (n *network) connect(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, a.Addr().String())
	n.when = append(n.when, time.Since(n.start))
	do := n.does[a.Addr().String()]
	n.mu.Unlock()
	if do != nil {
		return do(ctx)
	}
	here, there := net.Pipe()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = append(n.open, here, there)
	return here, nil
}

func (n *network) close() {
	for _, c := range n.open {
		c.Close()
	}
}

func says(err error) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
}

func blackHole(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
}

func dialWith(t *testing.T, n *network, d *Dialer, host string) (net.Conn, error) {
	t.Helper()
	d.connect = n.connect
	c, err := d.Dial(t.Context(), host, 80)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Errorf("%s: %v is no *Error", host, err)
	}
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func TestEverySpellingOfALocalAddressIsRefusedBeforeConnect(t *testing.T) {
	names := map[string][]answers{}
	// What getaddrinfo makes of these; policy has made addresses of them before.
	for _, host := range []string{"127.1", "2130706433", "0x7f.1", "017700000001"} {
		names[host] = []answers{{addrs: []string{"127.0.0.1"}}}
	}
	names["0"] = []answers{{addrs: []string{"0.0.0.0"}}}
	n := newNetwork()
	d := &Dialer{Guard: &Guard{}, Resolver: &book{names: names}}
	for _, host := range []string{
		"127.0.0.1", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "0.0.0.0", "::", "0", "localhost", "localhost.", "LOCALHOST",
		"db.localhost", "127.1", "2130706433", "0x7f.1", "017700000001",
	} {
		if _, err := dialWith(t, n, d, host); KindOf(err) != Forbidden {
			t.Errorf("%s: %v", host, err)
		}
	}
	if len(n.dialed) > 0 {
		t.Errorf("dialed %v", n.dialed)
	}
}

func TestSpecialRangesAreRefusedBeforeConnect(t *testing.T) {
	n := newNetwork()
	for _, a := range special {
		d := &Dialer{Resolver: &book{names: map[string][]answers{"a.test": {{addrs: []string{a}}}}}}
		for _, host := range []string{a, "a.test"} {
			if _, err := dialWith(t, n, d, host); KindOf(err) != Forbidden {
				t.Errorf("%s as %s: %v", host, a, err)
			}
		}
	}
	if len(n.dialed) > 0 {
		t.Errorf("dialed %v", n.dialed)
	}
}

func TestANameThatRebindsIsDialedAtACheckedAddressOnly(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []answers
		dialed  []string // of two calls
		kinds   [2]Kind
	}{
		{"public once, then loopback", []answers{{addrs: []string{"8.8.8.8"}}, {addrs: []string{"127.0.0.1"}}}, []string{"8.8.8.8"}, [2]Kind{Unknown, Forbidden}},
		{"mixed addresses", []answers{{addrs: []string{"10.0.0.1", "8.8.4.4", "192.168.0.1"}}}, []string{"8.8.4.4", "8.8.4.4"}, [2]Kind{}},
		{"mixed families", []answers{{addrs: []string{"::1", "8.8.8.8", "fe80::1"}}}, []string{"8.8.8.8", "8.8.8.8"}, [2]Kind{}},
		{"mapped", []answers{{addrs: []string{"::ffff:10.0.0.1"}}}, nil, [2]Kind{Forbidden, Forbidden}},
		{"an alias of localhost", []answers{{addrs: []string{"127.0.0.1", "::1"}}}, nil, [2]Kind{Forbidden, Forbidden}},
		{"metadata", []answers{{addrs: []string{"169.254.169.254"}}}, nil, [2]Kind{Forbidden, Forbidden}},
	} {
		n := newNetwork()
		b := &book{names: map[string][]answers{"a.test": c.answers}}
		d := &Dialer{Resolver: b}
		for call, kind := range c.kinds {
			if _, err := dialWith(t, n, d, "a.test"); KindOf(err) != kind {
				t.Errorf("%s, call %d: %v, want %v", c.name, call, err, kind)
			}
		}
		if !slices.Equal(n.dialed, c.dialed) {
			t.Errorf("%s: dialed %v, want %v", c.name, n.dialed, c.dialed)
		}
		if b.asked != 2 {
			t.Errorf("%s: %d look-ups for 2 calls", c.name, b.asked)
		}
		n.close()
	}
}

func TestANameThatLeadsHereIsRefusedAsALoop(t *testing.T) {
	d := &Dialer{
		Guard:    &Guard{Local: true, Own: listening("127.0.0.1:80")},
		Resolver: &book{names: map[string][]answers{"ring.test": {{addrs: []string{"10.0.0.1", "8.8.8.8", "127.0.0.1"}}}}},
	}
	for _, host := range []string{"ring.test", "localhost", "127.0.0.1", "0.0.0.0"} {
		if _, err := dialWith(t, newNetwork(), d, host); KindOf(err) != Self {
			t.Errorf("%s: %v, want self", host, err)
		}
	}
}

func TestAResolvedTargetMayBeAnywhereButHereAndMetadata(t *testing.T) {
	n := newNetwork()
	defer n.close()
	b := &book{names: map[string][]answers{"api.test": {{addrs: []string{"8.8.8.8"}}}}}
	d := &Dialer{
		Guard:    &Guard{Own: listening("127.0.0.1:3128")},
		Resolver: b,
		Resolve: map[string]string{
			"api.test:80": "127.0.0.1:9080", "[2001:db8::1]:80": "[::1]:9080", "self.test:80": "127.0.0.1:3128",
			"meta.test:80": "169.254.169.254:80", "bad.test:80": "nonsense",
		},
	}
	for _, host := range []string{"api.test", "2001:db8::1"} {
		if _, err := dialWith(t, n, d, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if want := []string{"127.0.0.1", "::1"}; !slices.Equal(n.dialed, want) || b.asked != 0 {
		t.Errorf("dialed %v, want %v, after %d look-ups", n.dialed, want, b.asked)
	}
	for host, kind := range map[string]Kind{"self.test": Self, "meta.test": Forbidden, "bad.test": Resolve} {
		if _, err := dialWith(t, n, d, host); KindOf(err) != kind {
			t.Errorf("%s: %v, want %v", host, err, kind)
		}
	}
	named := &Dialer{Resolve: map[string]string{"localhost:80": "127.0.0.1:8080"}}
	if named.Check("localhost", 80) != nil || KindOf(named.Check("localhost", 443)) != Forbidden || KindOf((&Dialer{}).Check("localhost", 80)) != Forbidden {
		t.Error("a target is checked by its host alone")
	}
}

func TestLocalhostIsNeverResolved(t *testing.T) {
	n := newNetwork()
	defer n.close()
	b := &book{names: map[string][]answers{"localhost": {{addrs: []string{"8.8.8.8"}}}}}
	d := &Dialer{Guard: &Guard{Local: true}, Resolver: b}
	for _, host := range []string{"localhost", "localhost.", "x.localhost"} {
		if _, err := dialWith(t, n, d, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if b.asked != 0 || !slices.Equal(n.dialed, []string{"127.0.0.1", "127.0.0.1", "127.0.0.1"}) {
		t.Errorf("%d look-ups, dialed %v", b.asked, n.dialed)
	}
}

func TestEveryWayThatConnectingFailsHasItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			does map[string]func(context.Context) (net.Conn, error)
			want Kind
		}{
			{"refused", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.ECONNREFUSED)}, Refused},
			{"black hole", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": blackHole}, ConnectTimeout},
			{"timeout of the system", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.ETIMEDOUT)}, ConnectTimeout},
			{"no network", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.ENETUNREACH)}, Unreachable},
			{"no route", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.EHOSTUNREACH)}, Unreachable},
			{"no files", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.EMFILE)}, Files},
			{"no files anywhere", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.ENFILE)}, Files},
			{"no ports", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.EADDRNOTAVAIL)}, Files},
			{"no ports to bind to", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.EADDRINUSE)}, Files},
			{"something else", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.EISDIR)}, Unknown},
			{"reset", map[string]func(context.Context) (net.Conn, error){"8.8.8.8": says(syscall.ECONNRESET)}, Closed},
		} {
			n := newNetwork()
			n.does = c.does
			if _, err := dialWith(t, n, &Dialer{Timeout: 5 * time.Second}, "8.8.8.8"); KindOf(err) != c.want {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
	})
}

func TestTheClearestOfSeveralFailuresIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{names: map[string][]answers{"a.test": {{addrs: []string{"2a00::1", "8.8.8.8"}}}}}
		for _, c := range []struct {
			six, four func(context.Context) (net.Conn, error)
			want      Kind
		}{
			{says(syscall.ENETUNREACH), says(syscall.ECONNREFUSED), Refused},
			{says(syscall.ECONNREFUSED), says(syscall.ENETUNREACH), Refused},
			{says(syscall.ENETUNREACH), blackHole, ConnectTimeout},
			{blackHole, blackHole, ConnectTimeout},
			{says(syscall.EMFILE), says(syscall.ECONNREFUSED), Files},
			{says(syscall.ENETUNREACH), says(syscall.EHOSTUNREACH), Unreachable},
		} {
			n := newNetwork()
			n.does["2a00::1"], n.does["8.8.8.8"] = c.six, c.four
			if _, err := dialWith(t, n, &Dialer{Resolver: b, Timeout: 5 * time.Second}, "a.test"); KindOf(err) != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		}
	})
}

func TestRealSocketsThatNobodyListensOnRefuse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	l.Close()
	d := &Dialer{Guard: &Guard{Local: true}, Timeout: 5 * time.Second}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if _, err := d.Dial(t.Context(), host, port); KindOf(err) != Refused {
			t.Errorf("%s: %v (%v)", host, err, errors.Unwrap(err))
		}
	}
}

func TestResolvingFailsWithItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{names: map[string][]answers{
			"empty.test":  {{}},
			"slow.test":   {{wait: true}},
			"broken.test": {{err: &net.DNSError{Err: "server misbehaving", Server: "10.0.0.53:53"}}},
			"files.test":  {{err: &net.DNSError{Err: "dial udp 10.0.0.53:53: socket: " + syscall.EMFILE.Error()}}},
		}}
		d := &Dialer{Resolver: b, Timeout: 5 * time.Second}
		for host, want := range map[string]Kind{
			"none.test": Resolve, "empty.test": Resolve, "slow.test": Resolve, "broken.test": Resolve, "files.test": Files, "": Resolve,
		} {
			_, err := dialWith(t, newNetwork(), d, host)
			if KindOf(err) != want {
				t.Errorf("%q: %v, want %v", host, err, want)
			}
			if err != nil && err.Error() != "upstream: "+want.String() {
				t.Errorf("%q: the error says %q", host, err)
			}
		}
	})
}

func TestACallerThatLeavesEndsTheDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.does["8.8.8.8"], n.does["2a00::1"] = blackHole, blackHole
		b := &book{names: map[string][]answers{"slow.test": {{wait: true}}, "hole.test": {{addrs: []string{"2a00::1", "8.8.8.8"}}}}}
		d := &Dialer{Resolver: b, Timeout: time.Minute, connect: n.connect}
		for _, host := range []string{"slow.test", "hole.test", "8.8.8.8"} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			began := time.Now()
			if _, err := d.Dial(ctx, host, 80); KindOf(err) != Canceled || time.Since(began) != time.Second {
				t.Errorf("%s: %v after %v", host, err, time.Since(began))
			}
		}
	})
}

func TestASilentAddressDelaysTheNextByAQuarterSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		defer n.close()
		n.does["2a00::1"], n.does["2a00::2"] = blackHole, blackHole
		b := &book{names: map[string][]answers{"a.test": {{addrs: []string{"2a00::1", "2a00::2", "8.8.8.8", "8.8.4.4"}}}}}
		if _, err := dialWith(t, n, &Dialer{Resolver: b, Timeout: time.Minute}, "a.test"); err != nil {
			t.Fatal(err)
		}
		if want := []string{"2a00::1", "8.8.8.8"}; !slices.Equal(n.dialed, want) {
			t.Errorf("dialed %v, want %v", n.dialed, want)
		}
		if n.when[1] != attemptDelay {
			t.Errorf("the second attempt came after %v", n.when[1])
		}
	})
}

func TestAFailedAddressDelaysTheNextByNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		defer n.close()
		n.does["2a00::1"], n.does["8.8.8.8"] = says(syscall.ENETUNREACH), says(syscall.ECONNREFUSED)
		b := &book{names: map[string][]answers{"a.test": {{addrs: []string{"2a00::1", "8.8.8.8", "8.8.4.4"}}}}}
		if _, err := dialWith(t, n, &Dialer{Resolver: b}, "a.test"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(n.start); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

// closes tells when a connection is closed.
type closes struct {
	net.Conn
	closed *bool
}

func (c closes) Close() error { *c.closed = true; return c.Conn.Close() }

func TestTheConnectionThatComesSecondIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		defer n.close()
		closed := false
		n.does["2a00::1"] = func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done() // too late to stop it
			here, there := net.Pipe()
			n.open = append(n.open, there)
			return closes{here, &closed}, nil
		}
		b := &book{names: map[string][]answers{"a.test": {{addrs: []string{"2a00::1", "8.8.8.8"}}}}}
		if _, err := dialWith(t, n, &Dialer{Resolver: b}, "a.test"); err != nil {
			t.Fatal(err)
		}
		if !closed {
			t.Error("it was left open")
		}
	})
}
