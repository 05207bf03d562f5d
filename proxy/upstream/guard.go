package upstream

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/internal/lists"
)

// Guard decides which addresses may be dialed. The zero value, and a nil Guard, allow
// public addresses only. Its methods are safe for concurrent use.
//
// Dialer checks every address of a name. CheckHost is for names and addresses that another
// proxy will resolve.
type Guard struct {
	// Local is for a listener that only this machine can reach: its clients could dial
	// every address themselves. Only metadata services, which hand out the machine's
	// credentials, and own listeners stay refused.
	Local bool
	// Allow lists addresses that may be dialed although they are not public.
	Allow []netip.Prefix
	// Own tells whether a listener of this process is bound to an address. Check also asks
	// for 0.0.0.0 and [::], which stand for all addresses.
	Own func(netip.AddrPort) bool
}

var (
	errOwn      = errors.New("the address is a listener of this process")
	errMetadata = errors.New("the address serves cloud metadata")
	errPrivate  = errors.New("the address is not public")
	errNoPort   = errors.New("port 0 cannot be dialed")
)

// metadata are addresses of cloud services that hand out the credentials of the machine
// that asks. Allow does not open them: an Allow of 169.254.0.0/16 or fd00::/8 is meant for
// machines.
var metadata = addrs(
	"169.254.169.254",    // AWS, Google, Azure, Oracle, DigitalOcean, Hetzner, OpenStack; metadata.google.internal is this
	"169.254.170.2",      // AWS: credentials of a container task
	"169.254.170.23",     // AWS: credentials of a Kubernetes pod
	"169.254.0.23",       // Tencent
	"169.254.42.42",      // Scaleway
	"100.100.100.200",    // Alibaba
	"192.0.0.192",        // Oracle, classic
	"168.63.129.16",      // Azure's host agent: looks public, answers only its own machine, and with secrets
	"fd00:ec2::254",      // AWS
	"fd00:ec2::23",       // AWS: credentials of a Kubernetes pod
	"fd20:ce::254",       // Google
	"fd00:c1::a9fe:a9fe", // Oracle
	"fd00:42::42",        // Scaleway
)

// metadataNames resolve to these addresses inside the clouds.
var metadataNames = []string{
	"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal", "metadata.tencentyun.com",
}

// special4 are the IPv4 prefixes that are not public.
var special4 = prefixes(
	"0.0.0.0/8",       // this host; dialing 0.0.0.0 reaches it
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // behind a carrier's NAT
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays for 6to4
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, and broadcast
)

// Of IPv6 only global6 without special6 is public. So loopback, fc00::/7, fe80::/10,
// fec0::/10, multicast and unassigned prefixes need no entry. Teredo is in 2001::/23.
var (
	global6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes(
		"2001::/23",     // protocol assignments
		"2001:db8::/32", // documentation
		"2002::/16",     // 6to4: leads to an IPv4 address by relays that are gone
		"3fff::/20",     // documentation
	)
	// nat64 translates to public IPv4 addresses in networks with IPv6 only: there every
	// name without an IPv6 address resolves to it. The other NAT64 prefix, 64:ff9b:1::/48,
	// is for private use of networks.
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	compatible = netip.MustParsePrefix("::/96")
)

// Check tells whether an address may be dialed. Its error is an *Error of Kind Self or
// Forbidden.
func (g *Guard) Check(a netip.AddrPort) error { return g.check(a, false) }

// check is Check. named tells that the operator wrote down the address, for one target or
// as the next hop, which allows as much as Allow.
func (g *Guard) check(a netip.AddrPort, named bool) error {
	ip := a.Addr().WithZone("").Unmap()
	if !ip.IsValid() || a.Port() == 0 {
		return &Error{Kind: Forbidden, Err: errNoPort}
	}
	// A gateway may translate an IPv6 address into the IPv4 address inside it.
	inner := embeddedIPv4(ip)
	for _, is := range [...]netip.Addr{ip, inner} {
		if is.IsValid() && slices.Contains(metadata, is) {
			return &Error{Kind: Forbidden, Err: errMetadata}
		}
	}
	if !named && (g == nil || !g.Local && !within(g.Allow, ip)) && !public(ip, inner) {
		return &Error{Kind: Forbidden, Err: errPrivate} // also of a listener of this process, so that no client can look for one
	}
	for _, is := range [...]netip.Addr{ip, inner} {
		if is.IsValid() && g.own(netip.AddrPortFrom(is, a.Port())) {
			return &Error{Kind: Self, Err: errOwn}
		}
	}
	return nil
}

// CheckHost judges a host that a next hop will resolve, as far as possible without
// resolving it.
func (g *Guard) CheckHost(host string, port uint16) error {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return g.Check(netip.AddrPortFrom(ip, port))
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if slices.Contains(metadataNames, name) {
		return &Error{Kind: Forbidden, Err: errMetadata}
	}
	if isLocalhost(name) {
		return g.Check(netip.AddrPortFrom(loopback4, port))
	}
	return nil
}

// own tells whether dialing a reaches a listener of this process.
func (g *Guard) own(a netip.AddrPort) bool {
	if g == nil || g.Own == nil {
		return false
	}
	everywhere := g.Own(netip.AddrPortFrom(netip.IPv6Unspecified(), a.Port())) ||
		g.Own(netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()))
	switch {
	case a.Addr().IsUnspecified(): // the kernel connects to loopback
		return everywhere || g.Own(a) ||
			g.Own(netip.AddrPortFrom(loopback4, a.Port())) || g.Own(netip.AddrPortFrom(loopback6, a.Port()))
	case everywhere:
		return ofThisMachine(a.Addr())
	default:
		return g.Own(a)
	}
}

// ofThisMachine tells whether ip is an address of this machine. It is called only for ports
// with a listener on all addresses. Interfaces change, so it reads them each time.
func ofThisMachine(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // refuse: otherwise a request could loop
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok && addr.Unmap() == ip {
				return true
			}
		}
	}
	return false
}

// public tells whether ip is a public address, and so is the IPv4 address inner that it
// carries, if that is valid.
func public(ip, inner netip.Addr) bool {
	if ip.Is4() {
		return !within(special4, ip)
	}
	if nat64.Contains(ip) {
		return !within(special4, inner)
	}
	return global6.Contains(ip) && !within(special6, ip)
}

// embeddedIPv4 is the IPv4 address that a translation mechanism sends packets for ip to;
// the zero Addr if there is none.
func embeddedIPv4(ip netip.Addr) netip.Addr {
	if ip.Is4() {
		return netip.Addr{}
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), compatible.Contains(ip) && !ip.IsUnspecified() && !ip.IsLoopback(),
		nat64Local.Contains(ip): // a network may use another position; this is the usual one
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	case teredo.Contains(ip):
		var v4 [4]byte
		binary.BigEndian.PutUint32(v4[:], ^binary.BigEndian.Uint32(b[12:]))
		return netip.AddrFrom4(v4)
	}
	return netip.Addr{}
}

func within(all []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func addrs(all ...string) []netip.Addr { return lists.Map(all, netip.MustParseAddr) }

func prefixes(all ...string) []netip.Prefix { return lists.Map(all, netip.MustParsePrefix) }
