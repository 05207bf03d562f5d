package ca

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/policy"
)

// unusedName is a name that cannot exist (RFC 6761): a list of permitted names needs an
// entry to exclude all others.
const unusedName = "invalid"

// constraints are the names that a root may certify: all, or those at and below dns and in
// ip. The zero value permits none.
type constraints struct {
	any bool
	dns map[string]bool
	ip  map[netip.Prefix]bool
}

func parseNames(names []string) (constraints, error) {
	if names == nil {
		return constraints{any: true}, nil
	}
	c := constraints{dns: map[string]bool{}, ip: map[netip.Prefix]bool{}}
	for _, one := range names {
		host, addr, err := parseHost(strings.TrimPrefix(one, "*."))
		switch {
		case err != nil:
			return constraints{}, fmt.Errorf("a name that the CA is for: %w", err)
		case addr.IsValid():
			c.ip[netip.PrefixFrom(addr, addr.BitLen())] = true
		default:
			c.dns[host] = true
		}
	}
	return c, nil
}

// permitted reads the constraints of a certificate.
func permitted(cert *x509.Certificate) constraints {
	if len(cert.PermittedDNSDomains)+len(cert.PermittedIPRanges)+len(cert.ExcludedIPRanges)+len(cert.ExcludedDNSDomains) == 0 {
		return constraints{any: true}
	}
	c := constraints{dns: map[string]bool{}, ip: map[netip.Prefix]bool{}}
	for _, one := range cert.PermittedDNSDomains {
		if one != unusedName {
			c.dns[one] = true
		}
	}
	for _, one := range cert.PermittedIPRanges {
		addr, ok := netip.AddrFromSlice(one.IP)
		ones, _ := one.Mask.Size()
		if ok {
			c.ip[netip.PrefixFrom(addr, ones)] = true
		}
	}
	return c
}

// constrain writes the constraints into a certificate template. RFC 5280 permits kinds of
// names without a constraint, so kinds that are not listed are excluded explicitly.
func (c constraints) constrain(cert *x509.Certificate) {
	if c.any {
		return
	}
	cert.PermittedDNSDomainsCritical = true
	cert.PermittedDNSDomains = c.sorted()
	if len(cert.PermittedDNSDomains) == 0 {
		cert.PermittedDNSDomains = []string{unusedName}
	}
	for one := range c.ip {
		cert.PermittedIPRanges = append(cert.PermittedIPRanges, &net.IPNet{
			IP: one.Addr().AsSlice(), Mask: net.CIDRMask(one.Bits(), one.Addr().BitLen()),
		})
	}
	if len(c.ip) == 0 {
		cert.ExcludedIPRanges = []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)},
			{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
		}
	}
}

// covers tells whether c permits all of o.
func (c constraints) covers(o constraints) bool {
	if c.any || o.any {
		return c.any
	}
	for one := range o.dns {
		if !c.hasName(one) {
			return false
		}
	}
	for one := range o.ip {
		has := func(p netip.Prefix) bool { return p.Bits() <= one.Bits() && p.Contains(one.Addr()) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.ip)), has) {
			return false
		}
	}
	return true
}

// hasName tells whether c has a name, or one above it.
func (c constraints) hasName(name string) bool {
	_, above, more := strings.Cut(name, ".")
	return c.dns[name] || more && c.hasName(above)
}

// union permits what either permits.
func (c constraints) union(o constraints) constraints {
	if c.any || o.any {
		return constraints{any: true}
	}
	u := constraints{dns: map[string]bool{}, ip: map[netip.Prefix]bool{}}
	for _, from := range []constraints{c, o} {
		maps.Copy(u.dns, from.dns)
		maps.Copy(u.ip, from.ip)
	}
	return u
}

// sorted are the names except those covered by another.
func (c constraints) sorted() []string {
	names := slices.AppendSeq([]string{}, maps.Keys(c.dns))
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		_, above, more := strings.Cut(name, ".")
		return more && c.hasName(above)
	})
}

// list is for messages: names, then addresses.
func (c constraints) list() []string {
	names := c.sorted()
	var prefixes []string
	for one := range c.ip {
		if one.IsSingleIP() {
			prefixes = append(prefixes, one.Addr().String())
		} else {
			prefixes = append(prefixes, one.String())
		}
	}
	slices.Sort(prefixes)
	return append(names, prefixes...)
}

// parseHost normalises a host for a certificate. The address is valid if the host is an
// address.
func parseHost(s string) (string, netip.Addr, error) {
	host, err := policy.CanonicalHost(s)
	if err != nil {
		return "", netip.Addr{}, fmt.Errorf("%q %w, so no certificate can be made for it", shorten.To(81, s), err)
	}
	addr, _ := netip.ParseAddr(host) // of a name it is not valid
	return host, addr, nil
}
