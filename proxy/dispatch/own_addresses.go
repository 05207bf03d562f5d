package dispatch

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// ownAddresses are the listeners of this process, and its store. The zero value has none.
type ownAddresses struct {
	mu    sync.RWMutex
	all   []netip.AddrPort
	store []netip.AddrPort
	names []string // of the store's servers, with ports

	lookups sync.WaitGroup // of the addresses of the names
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
	return slices.ContainsFunc(o.all, func(addrPort netip.AddrPort) bool { return reaches(a, addrPort) }) ||
		slices.ContainsFunc(o.store, func(addrPort netip.AddrPort) bool { return reaches(a, addrPort) })
}

func reaches(a, addrPort netip.AddrPort) bool {
	return addrPort.Port() == a.Port() && (addrPort.Addr() == a.Addr().Unmap() || addrPort.Addr().IsUnspecified())
}

// setStore names the servers of the store in place of those before.
func (o *ownAddresses) setStore(servers []netip.AddrPort, names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.store, o.names = servers, names
}

// storeLookup is how long is waited for the addresses of the store's servers.
const storeLookup = 5 * time.Second

// ownStore keeps requests from reaching the store through this proxy: a request to the
// store could change every limit. A server on this machine counts with all addresses of the machine.
func (o *ownAddresses) ownStore(st policy.Store) {
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
