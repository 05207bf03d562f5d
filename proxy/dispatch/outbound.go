package dispatch

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/shard"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// outbound has the ways to upstreams. It outlives a reload that does
// not concern it, so that pooled connections stay.
type outbound struct {
	name         string        // in Via
	ownAddresses *ownAddresses // of this process and its store
	dialer       *upstream.Dialer
	nextHop      *upstream.NextHop // nil: direct
	upstream     *upstream.Transport
	sends        http.RoundTripper // upstream, or what an option has made of it
}

// newOutbound makes the outbound of a policy.
func (c *configuration) newOutbound(p *policy.Policy) (*outbound, error) {
	roots, err := loadRoots(p.Egress.Roots)
	if err != nil {
		return nil, err
	}
	st := &outbound{name: c.name, ownAddresses: &c.addresses}
	t := p.Timeouts
	guard := &upstream.Guard{Local: p.Local(), Allow: p.Egress.Allow, Own: c.addresses.has}
	st.dialer = &upstream.Dialer{Guard: guard, Resolve: p.Egress.Resolve, Timeout: t.Connect}
	st.upstream = &upstream.Transport{
		Dial:             st.dialer.Dial,
		TLS:              &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(4096)},
		HandshakeTimeout: t.Handshake,
		AnswerTimeout:    t.Answer,
		StallTimeout:     t.Stall,
		IdleTimeout:      t.Idle,
		MaxIdlePerHost:   p.Bounds.IdlePerHost,
		MaxIdle:          p.Bounds.Idle,
	}
	if p.Egress.Proxy != nil {
		st.nextHop = &upstream.NextHop{URL: p.Egress.NextHop(), Dialer: st.dialer, Via: "1.1 " + c.name, TLS: st.upstream.TLS}
		if st.nextHop.URL.User != nil {
			st.nextHop.Login = &upstream.Login{OnRefused: func(until time.Time) {
				c.log.WithField("reason", "407").Warn(problem.LoginRefused(until, time.Now()))
			}}
		}
		st.upstream.Login = st.nextHop.Login
		st.upstream.Dial = st.nextHop.Tunnel
		st.upstream.Forward = st.nextHop.Forward
	}
	st.sends = st.upstream
	if c.changeUpstream != nil {
		st.sends = c.changeUpstream(st.upstream)
	}
	return st, nil
}

// mayForward checks the target of a request that goes to a next hop without a tunnel: abide
// dials the hop then, so the guard of its dials does not see the target.
func (s *outbound) mayForward(t policy.Target) error {
	if s.nextHop == nil || t.Scheme != "http" {
		return nil
	}
	return s.dialer.Check(t.Host, t.Port)
}

// close ends idle connections and waits for those in use.
func (s *outbound) close() { s.upstream.Close() }

// mostRoots bounds the bytes of egress.roots that are read.
const mostRoots = 16 << 20

// CheckRoots tells why the file of egress.roots cannot be used.
func CheckRoots(file string) error {
	_, err := loadRoots(file)
	return err
}

// loadRoots adds the certificates of a file to the system's.
func loadRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	pem, err := policy.ReadFile(file, mostRoots)
	if err != nil {
		return nil, fmt.Errorf("reading egress.roots %s: %w", file, err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("egress.roots: %s has no PEM certificate in it", file)
	}
	return pool, nil
}

// newPseudonym returns a random name of this process in Via. Sites never see it: only a next hop gets it,
// where a ring of proxies could close.
func newPseudonym() string { return "abide-" + rand.Text() }

// Passed reports whether a request with these Via headers was here before.
func (st *Snapshot) Passed(via []string) bool {
	return slices.ContainsFunc(via, func(v string) bool { return strings.Contains(v, st.name) })
}

// SignVia has a request with a URL of a scheme, which goes to a next hop, carry the chain of
// proxies that it has passed: via, those in its headers, and this process where the request
// goes in the open. A request that goes through a CONNECT there is signed on the CONNECT.
func (st *Snapshot) SignVia(scheme string, r *http.Request, via string) *http.Request {
	if st.nextHop == nil {
		return r
	}
	chain := upstream.JoinVia(via, r.Header["Via"]...)
	if scheme == "http" {
		r.Header["Via"] = []string{upstream.JoinVia(chain, st.nextHop.Via)}
	}
	return r.WithContext(upstream.WithVia(r.Context(), chain))
}

// ownerHeader is the header that names the crawler that owns a URL.
const ownerHeader = "Abide-Owner"

// owned refuses a request whose URL belongs to another crawler.
func owned(of policy.Shard, t policy.Target, u *url.URL) *problem.Problem {
	if of.Of < 2 {
		return nil
	}
	return misplaced(of, shard.KeyOf(t, u.EscapedPath(), u.RawQuery, shard.By(of.By)))
}

// OwnedHost refuses a tunnel to a host of another crawler. If URLs are divided by more than the
// host, the owner of a tunnel is not known.
func OwnedHost(of policy.Shard, host string) *problem.Problem {
	if of.Of < 2 || shard.By(of.By) != shard.Host {
		return nil
	}
	return misplaced(of, host)
}

// misplaced returns the refusal of a key that another crawler owns, nil if this one does.
func misplaced(of policy.Shard, key string) *problem.Problem {
	owner := shard.Owner(key, of.Of)
	if owner == of.Index {
		return nil
	}
	a := problem.Others
	a.Limit = fmt.Sprintf("crawler %d of %d", owner, of.Of)
	a.Header = [2]string{ownerHeader, strconv.Itoa(owner)}
	return &a
}

// ownAddresses are the listeners of this process, and its store. The zero value has none.
type ownAddresses struct {
	mu    sync.RWMutex
	all   []netip.AddrPort
	store []netip.AddrPort
	names []string // of the store's servers, with ports

	lookups sync.WaitGroup // of the addresses of the names
}

// named reports whether a target is a server of the store by its name. Addresses are for has.
func (o *ownAddresses) named(host string, port uint16) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.ContainsFunc(o.names, func(pattern string) bool {
		named, at, err := policy.ParseHostPort(pattern, 0)
		return err == nil && at == port && named == host
	})
}

func (o *ownAddresses) add(a netip.AddrPort) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
}

// has reports whether dialing a reaches one of the addresses. A listener on every address has
// each address with its port; the guard knows those of this machine.
func (o *ownAddresses) has(a netip.AddrPort) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.ContainsFunc(slices.Concat(o.all, o.store), func(addrPort netip.AddrPort) bool {
		return addrPort.Port() == a.Port() && (addrPort.Addr() == a.Addr().Unmap() || addrPort.Addr().IsUnspecified())
	})
}

// setStore names the servers of the store in place of those before.
func (o *ownAddresses) setStore(servers []netip.AddrPort, names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store, o.names = servers, names
}

// storeLookup bounds the wait for the addresses of the store's servers.
const storeLookup = 5 * time.Second

// ownStore prevents requests from reaching the store through this proxy: a request to the
// store could change every limit. A server on this machine counts with all addresses of the machine.
func (o *ownAddresses) ownStore(st policy.Store) {
	var servers []netip.AddrPort
	var names []string
	for _, one := range st.Hosts {
		host, port, err := policy.ParseHostPort(one, 0)
		ip, noAddress := netip.ParseAddr(host)
		switch {
		case err != nil: // a socket's path
		case noAddress == nil:
			servers = append(servers, storeAddress(ip, port))
		case host == "localhost":
			servers = append(servers, netip.AddrPortFrom(netip.IPv4Unspecified(), port))
		default:
			names = append(names, one)
		}
	}
	o.setStore(servers, names)
	if len(names) == 0 {
		return
	}
	o.lookups.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeLookup)
		defer cancel()
		for _, one := range names {
			host, port, _ := policy.ParseHostPort(one, 0)
			found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			for _, ip := range found {
				servers = append(servers, storeAddress(ip, port))
			}
		}
		o.setStore(servers, names)
	})
}

func storeAddress(ip netip.Addr, port uint16) netip.AddrPort {
	if ip = ip.WithZone("").Unmap(); ip.IsLoopback() {
		ip = netip.IPv4Unspecified()
	}
	return netip.AddrPortFrom(ip, port)
}
