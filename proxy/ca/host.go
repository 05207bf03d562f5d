package ca

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// maxHost is the longest name that DNS has.
const maxHost = 253

var errHost = errors.New("not a host that a certificate can be made for")

// parseHost normalises a host for a certificate. The address is valid if the host is an
// address.
func parseHost(s string) (string, netip.Addr, error) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		if addr.Zone() != "" {
			return "", netip.Addr{}, fmt.Errorf("%q: %w: it has a zone", shortened(s), errHost)
		}
		addr = addr.Unmap()
		return addr.String(), addr, nil
	}
	name := strings.TrimSuffix(strings.ToLower(s), ".")
	if !validName(name) {
		return "", netip.Addr{}, fmt.Errorf("%q: %w", shortened(s), errHost)
	}
	return name, netip.Addr{}, nil
}

// validName rejects names that verifiers could not parse; policy has checked the name
// before.
func validName(name string) bool {
	if name == "" || len(name) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := 0; i < len(label); i++ {
			c := label[i]
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

// shortened cuts untrusted input for an error.
func shortened(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
