package upstream

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func at(s string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(s), port)
}

// guardRefuses and guardPermits read as policy.
func guardRefuses(t *testing.T, g *Guard, kind Kind, all ...string) {
	t.Helper()
	for _, a := range all {
		if err := g.Check(at(a, 80)); err == nil || KindOf(err) != kind {
			t.Errorf("%s: %v, want %v", a, err, kind)
		}
	}
}

func guardPermits(t *testing.T, g *Guard, all ...string) {
	t.Helper()
	for _, a := range all {
		if err := g.Check(at(a, 80)); err != nil {
			t.Errorf("%s: %v, want it allowed", a, err)
		}
	}
}

var local = []string{
	"127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3", "::1", "::", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:0.0.0.0",
	"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "::ffff:10.0.0.1", "::127.0.0.1", "::10.0.0.1",
}

var special = []string{
	"169.254.1.1", "100.64.0.1", "100.127.255.255", "198.18.0.1", "198.19.255.255", "192.0.0.1", "192.0.0.9", "192.0.2.1",
	"198.51.100.7", "203.0.113.7", "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
	"fc00::1", "fdff::1", "fe80::1", "fe80::1%lo", "fec0::1", "ff02::1", "ff0e::1", "100::1", "5f00::1", "4000::1",
	"2001:db8::1", "3fff:0fff::1", "2001:2::1", "2001:10::1",
	"64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2002:808:808::1",
	"2001:0:7f00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "::8.8.8.8",
}

func TestLoopbackAndPrivateAddressesAreRefusedByEverySpelling(t *testing.T) {
	guardRefuses(t, &Guard{}, Forbidden, local...)
	guardRefuses(t, nil, Forbidden, local...)
}

func TestSpecialRangesAreRefused(t *testing.T) {
	guardRefuses(t, &Guard{}, Forbidden, special...)
}

func TestPublicAddressesAreAllowed(t *testing.T) {
	guardPermits(t, &Guard{}, "8.8.8.8", "1.1.1.1", "::ffff:8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "169.253.0.1",
		"198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "2001:200::1",
		"64:ff9b::808:808") // how a network with IPv6 only reaches 8.8.8.8
	guardPermits(t, nil, "8.8.8.8")
}

func TestALocalListenerReachesEverythingButMetadata(t *testing.T) {
	g := &Guard{Local: true}
	guardPermits(t, g, local...)
	guardPermits(t, g, special...)
	guardRefuses(t, g, Forbidden, "169.254.169.254")
}

var metadataSpellings = []string{
	"169.254.169.254", "::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe",
	"2002:a9fe:a9fe::1", "2001:0:1:2:3:4:5601:5601", "fd00:ec2::254", "fd00:ec2::254%eth0", "100.100.100.200", "168.63.129.16",
	"169.254.170.2", "fd20:ce::254",
}

func TestMetadataAddressesAreRefusedWhateverIsAllowed(t *testing.T) {
	everything := prefixes("0.0.0.0/0", "::/0")
	for _, g := range []*Guard{{}, {Local: true}, {Allow: everything}, {Local: true, Allow: everything}} {
		guardRefuses(t, g, Forbidden, metadataSpellings...)
		for _, a := range metadataSpellings {
			if err := g.check(at(a, 80), true); KindOf(err) != Forbidden {
				t.Errorf("%s, although named: %v", a, err)
			}
		}
	}
}

func TestAllowOpensWhatItNamesAndNothingElse(t *testing.T) {
	g := &Guard{Allow: prefixes("10.1.0.0/16", "fd12::/16")}
	guardPermits(t, g, "10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "8.8.8.8")
	guardRefuses(t, g, Forbidden, "10.2.0.1", "127.0.0.1", "fd13::1", "64:ff9b::a01:203", "2002:a01:203::1")
}

func TestPort0AndNoAddressAreRefused(t *testing.T) {
	g := &Guard{Local: true}
	if err := g.Check(at("8.8.8.8", 0)); KindOf(err) != Forbidden {
		t.Errorf("port 0: %v", err)
	}
	if err := g.Check(netip.AddrPort{}); KindOf(err) != Forbidden {
		t.Errorf("no address: %v", err)
	}
}

func listening(on ...string) func(netip.AddrPort) bool {
	return func(a netip.AddrPort) bool {
		for _, l := range on {
			if netip.MustParseAddrPort(l) == a {
				return true
			}
		}
		return false
	}
}

func isSelf(t *testing.T, g *Guard, want bool, all ...string) {
	t.Helper()
	for _, a := range all {
		err := g.Check(netip.MustParseAddrPort(a))
		if ok := KindOf(err) == Self; (err != nil && ok) != want {
			t.Errorf("%s: %v, want self %v", a, err, want)
		}
	}
}

func TestOwnListenersAreNeverDialed(t *testing.T) {
	for _, g := range []*Guard{{Allow: prefixes("0.0.0.0/0", "::/0")}, {Local: true}, {Local: true, Allow: prefixes("0.0.0.0/0")}} {
		g.Own = listening("127.0.0.1:3128", "[::1]:9128")
		isSelf(t, g, true, "127.0.0.1:3128", "0.0.0.0:3128", "[::]:3128", "[::ffff:127.0.0.1]:3128", "[::127.0.0.1]:3128",
			"[64:ff9b::7f00:1]:3128", "[::1]:9128", "[::]:9128", "0.0.0.0:9128")
		isSelf(t, g, false, "127.0.0.1:80", "127.0.0.2:3128", "8.8.8.8:3128", "[::1]:3128")
		if err := g.check(netip.MustParseAddrPort("127.0.0.1:3128"), true); KindOf(err) != Self {
			t.Errorf("although named: %v", err)
		}
	}
}

func TestAListenerOnEveryAddressIsOursOnEveryInterface(t *testing.T) {
	for _, on := range []string{"0.0.0.0:3128", "[::]:3128"} {
		g := &Guard{Local: true, Own: listening(on)}
		isSelf(t, g, true, "127.0.0.1:3128", "127.9.9.9:3128", "[::1]:3128", "0.0.0.0:3128", "[::]:3128")
		isSelf(t, g, false, "8.8.8.8:3128", "127.0.0.1:3129")
		all, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			ip, ok := netip.AddrFromSlice(a.(*net.IPNet).IP)
			if ok {
				isSelf(t, g, true, netip.AddrPortFrom(ip, 3128).String())
			}
		}
	}
	// An Own that answers for all addresses itself must not make the world ours.
	g := &Guard{Own: func(a netip.AddrPort) bool { return a.Port() == 3128 }}
	isSelf(t, g, false, "8.8.8.8:3128")
	// Who may not reach internal addresses cannot tell an own listener from the others.
	for _, a := range []string{"127.0.0.1:3128", "127.0.0.1:3129", "[::1]:3128", "10.0.0.1:3128", "0.0.0.0:3128"} {
		if err := g.Check(netip.MustParseAddrPort(a)); KindOf(err) != Forbidden || !errors.Is(err, errPrivate) {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestHostsThatANextHopResolvesAreJudgedByWhatTheySay(t *testing.T) {
	g := &Guard{Own: listening("127.0.0.1:3128")}
	for host, want := range map[string]Kind{
		"169.254.169.254": Forbidden, "127.0.0.1": Forbidden, "::1": Forbidden, "[::1]": Forbidden, "localhost": Forbidden,
		"LocalHost.": Forbidden, "a.localhost": Forbidden, "metadata.google.internal": Forbidden, "Metadata.Google.Internal.": Forbidden,
	} {
		if err := g.CheckHost(host, 80); KindOf(err) != want {
			t.Errorf("%s: %v, want %v", host, err, want)
		}
	}
	if err := (&Guard{Local: true, Own: g.Own}).CheckHost("localhost", 3128); KindOf(err) != Self {
		t.Errorf("our own listener: %v", err)
	}
	for _, host := range []string{"api.test", "8.8.8.8", "notlocalhost", "localhost.test"} {
		if err := g.CheckHost(host, 80); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func FuzzGuard(f *testing.F) {
	for _, a := range append(append([]string{"8.8.8.8"}, local...), special...) {
		b := netip.MustParseAddr(a).As16()
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ip, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		err := (&Guard{}).Check(netip.AddrPortFrom(ip, 80))
		plain := ip.Unmap()
		if err == nil && (plain.IsLoopback() || plain.IsPrivate() || plain.IsLinkLocalUnicast() || plain.IsMulticast() ||
			plain.IsUnspecified() || !plain.IsGlobalUnicast()) {
			t.Errorf("%v is allowed", ip)
		}
		// Allowed or not, the mapped form of an address is the address.
		if plain.Is4() {
			mapped := netip.AddrFrom16(plain.As16())
			if again := (&Guard{}).Check(netip.AddrPortFrom(mapped, 80)); KindOf(again) != KindOf(err) || (again == nil) != (err == nil) {
				t.Errorf("%v: %v, mapped: %v", plain, err, again)
			}
		}
	})
}

func BenchmarkGuard(b *testing.B) {
	g := &Guard{Own: listening("127.0.0.1:3128")}
	a := at("2a00:1450::1", 443)
	for b.Loop() {
		if g.Check(a) != nil {
			b.Fatal("refused")
		}
	}
}
