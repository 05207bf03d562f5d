package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// parseListen reads an address to listen on: an IP address and a port, or a port
// on every address.
func parseListen(s string) (string, error) {
	if s == "" {
		return "", errors.New("has no value; write an address such as 127.0.0.1:3128")
	}
	if digits(s) {
		return "", fmt.Errorf("%s needs an address too, such as 127.0.0.1:%s, or :%s for every address", quote(s), s, s)
	}
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 || strings.HasSuffix(s, "]") {
		return "", fmt.Errorf("%s needs a port, such as %s:3128", quote(s), s)
	}
	host, text := s[:colon], s[colon+1:]
	port, ok := parsePort(text)
	if !ok && text != "0" {
		return "", fmt.Errorf("%s %w", quote(s), errPortBad)
	}
	switch host {
	case "":
		return ":" + text, nil
	case "*":
		return "", fmt.Errorf("%s has a *; write :%s for every address", quote(s), text)
	case "localhost":
		host = "127.0.0.1"
	}
	bracketed := strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]")
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s is not an IP address and a port, such as 127.0.0.1:3128", quote(s))
	case bracketed != addr.Is6():
		return "", fmt.Errorf("%s is written %s", quote(s), netip.AddrPortFrom(addr, port))
	}
	return netip.AddrPortFrom(addr.Unmap(), port).String(), nil
}

// parsePrefix reads a network or a single address.
func parsePrefix(s string, words ...string) (netip.Prefix, error) {
	addr, bits := s, -1
	if a, b, cut := strings.Cut(s, "/"); cut {
		n, err := parseCount(b, 0, 128)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("%s is not a network such as 10.0.0.0/8", quote(s))
		}
		addr, bits = a, int(n)
	}
	a, err := netip.ParseAddr(addr)
	switch {
	case err != nil && len(words) > 0:
		return netip.Prefix{}, fmt.Errorf("%s is neither a network such as 10.0.0.0/8 nor one of %s%s",
			quote(s), strings.Join(words, ", "), didYouMean(s, words))
	case err != nil || a.Zone() != "":
		return netip.Prefix{}, fmt.Errorf("%s is not a network such as 10.0.0.0/8", quote(s))
	case a.Is4In6():
		return netip.Prefix{}, fmt.Errorf("%s is an IPv4 network written as IPv6; write it as IPv4", quote(s))
	case bits < 0:
		bits = a.BitLen()
	}
	prefix, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%s has more bits than the address", quote(s))
	}
	if prefix.Addr() != a {
		return netip.Prefix{}, fmt.Errorf("%s has bits outside of its mask; did you mean %s?", quote(s), prefix)
	}
	return prefix, nil
}

// isLoopback tells whether an address to listen on is reachable from this machine
// alone.
func isLoopback(listen string) bool {
	addr, err := netip.ParseAddrPort(listen)
	return err == nil && addr.Addr().IsLoopback()
}

// collide tells whether two listeners want the same port.
func collide(a, b string) bool {
	addrA, portA, _ := cutLast(a, ":")
	addrB, portB, _ := cutLast(b, ":")
	every := func(s string) bool { return s == "" || s == "0.0.0.0" || s == "[::]" }
	return portA == portB && portA != "0" &&
		(strings.EqualFold(addrA, addrB) || every(addrA) || every(addrB))
}

// portAfter is an address with the next port, another free port after port 0, and ""
// after the last port.
func portAfter(address string) string {
	host, text, _ := cutLast(address, ":")
	port, err := strconv.Atoi(text)
	switch {
	case err != nil || port >= 65535:
		return ""
	case port == 0:
		return address
	}
	return host + ":" + strconv.Itoa(port+1)
}

var ownNetworks = []string{
	"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
	"100.64.0.0/10", // carriers, and private overlays
	"::1/128", "fc00::/7", "fe80::/10",
}

// listenNode is what parseListen reads, as far as a pattern tells.
func listenNode() node {
	return patternNode(`^(?:[^:/\s]*|\[[^\]]+\]):[0-9]{1,5}$`).suchAs("127.0.0.1:3128", ":3128")
}

// networkNode is what parsePrefix reads, as far as a pattern tells.
func networkNode() node {
	return patternNode(`^[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?$`).suchAs("10.0.0.0/8")
}
