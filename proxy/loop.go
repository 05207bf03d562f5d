package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// newPseudonym is what this process calls itself in Via. Sites never see it:
// it goes out only to a next hop, where a ring of proxies could close.
func newPseudonym() string {
	var b [8]byte
	rand.Read(b[:])
	return "abide-" + hex.EncodeToString(b[:])
}

// passed tells whether a request with these Via headers was here before.
func (s *Server) passed(via []string) bool {
	for _, v := range via {
		if strings.Contains(v, s.name) {
			return true
		}
	}
	return false
}

// joinVia is the chain of proxies that a request has passed: those that its
// CONNECT named and those that it names itself.
func joinVia(before string, lines []string) string {
	if len(lines) == 0 {
		return before
	}
	own := strings.Join(lines, ", ")
	if before == "" {
		return own
	}
	return before + ", " + own
}

// sign adds this process to the Via of a request that goes to a next hop in
// the open. One that goes through a CONNECT there is signed on the CONNECT.
func (s *Server) sign(h http.Header, chain string) {
	h["Via"] = []string{joinVia(chain, []string{"1.1 " + s.name})}
}

// ownAddresses are the listeners of this process, and its store. The zero value has none.
type ownAddresses struct {
	mu    sync.RWMutex
	all   []netip.AddrPort
	store []netip.AddrPort
	names []string // of the store's servers, with ports
}

// named tells whether a target is a server of the store by its name. Addresses are for has.
func (o *ownAddresses) named(host string, port uint16) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.ContainsFunc(o.names, func(one string) bool {
		own, at, err := policy.ParseHostPort(one, 0)
		return err == nil && at == port && own == host
	})
}

func (o *ownAddresses) add(a netip.AddrPort) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
}

// has tells whether dialing a reaches one of them. Which addresses a listener
// on every address has is for the guard to know.
func (o *ownAddresses) has(a netip.AddrPort) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.ContainsFunc(o.all, func(one netip.AddrPort) bool { return reaches(a, one) }) ||
		slices.ContainsFunc(o.store, func(one netip.AddrPort) bool { return reaches(a, one) })
}

func reaches(a, one netip.AddrPort) bool {
	return one.Port() == a.Port() && (one.Addr() == a.Addr().Unmap() || one.Addr().IsUnspecified())
}

// setStore names the servers of the store in place of those before.
func (o *ownAddresses) setStore(servers []netip.AddrPort, names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store, o.names = servers, names
}

// storeLookup is how long is waited for the addresses of the store's servers.
const storeLookup = 5 * time.Second

// ownStore has nobody reach the store through this proxy: what speaks to it could change
// every limit. A server on this machine counts with all addresses of the machine.
func (s *Server) ownStore(st policy.Store) {
	var servers []netip.AddrPort
	var names []string
	for _, one := range st.Hosts {
		host, port, err := policy.ParseHostPort(one, 0)
		if err != nil {
			continue // a socket's path
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			servers = append(servers, storeAddress(ip, port))
		} else if host == "localhost" {
			servers = append(servers, netip.AddrPortFrom(netip.IPv4Unspecified(), port))
		} else {
			names = append(names, one)
		}
	}
	s.own.setStore(servers, names)
	if len(names) == 0 {
		return
	}
	s.retired.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), storeLookup)
		defer cancel()
		for _, one := range names {
			host, port, _ := policy.ParseHostPort(one, 0)
			found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			for _, ip := range found {
				servers = append(servers, storeAddress(ip, port))
			}
		}
		s.own.setStore(servers, names)
	})
}

func storeAddress(ip netip.Addr, port uint16) netip.AddrPort {
	if ip = ip.WithZone("").Unmap(); ip.IsLoopback() {
		ip = netip.IPv4Unspecified()
	}
	return netip.AddrPortFrom(ip, port)
}
