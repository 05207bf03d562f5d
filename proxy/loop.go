package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strings"
	"sync"
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

// ownAddresses are the listeners of this process. The zero value has none.
type ownAddresses struct {
	mu  sync.RWMutex
	all []netip.AddrPort
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
	for _, one := range o.all {
		if one.Port() == a.Port() && (one.Addr() == a.Addr().Unmap() || one.Addr().IsUnspecified()) {
			return true
		}
	}
	return false
}
