package policy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/internal/lists"
)

// Target is the destination of a request. Host is canonical (see CanonicalHost), so two
// Targets mean the same destination exactly if they are equal. Scheme is http, https or,
// for a tunnel with unknown content, empty.
type Target struct {
	Scheme string
	Host   string
	Port   uint16
}

// HostPort is host and port, always both, with brackets around IPv6.
func (t Target) HostPort() string {
	return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
}

// Origin is the target as a URL begins, without the port when it is the usual
// one: https://a.example, http://[::1]:8080.
func (t Target) Origin() string { return t.Scheme + "://" + t.Authority() }

// Authority is the host in a URL, with brackets around IPv6, and the port unless it is the usual one.
func (t Target) Authority() string {
	switch {
	case !t.UsualPort():
		return t.HostPort()
	case strings.IndexByte(t.Host, ':') >= 0:
		return "[" + t.Host + "]"
	}
	return t.Host
}

// OriginOf returns scheme, host and port of a URL, as they are compared. One that cannot be parsed is
// no site's.
func OriginOf(u *url.URL) string {
	t, _ := ParseTarget(u.Scheme, u.Host)
	return t.Scheme + "://" + t.HostPort()
}

// UsualPort tells whether the port is the scheme's own, so that a URL leaves it
// out. Without a scheme both 80 and 443 are usual.
func (t Target) UsualPort() bool {
	switch t.Scheme {
	case "http":
		return t.Port == 80
	case "https":
		return t.Port == 443
	}
	return t.Port == 80 || t.Port == 443
}

var (
	errPortMissing  = errors.New("needs a port, such as example.com:443")
	errPortBad      = errors.New("has a port that is not a number from 1 to 65535")
	errIPv6Brackets = errors.New("has an IPv6 address without brackets; write [::1]:443")
)

// ParseTarget reads what a URL or a Host header names; without a port it is the
// one that the scheme, http or https, usually has.
func ParseTarget(scheme, hostport string) (Target, error) {
	var usual uint16
	switch scheme {
	case "http":
		usual = 80
	case "https":
		usual = 443
	default:
		return Target{}, fmt.Errorf("scheme %s is neither http nor https", Quote(scheme))
	}
	host, port, err := ParseHostPort(hostport, usual)
	if err != nil {
		return Target{}, err
	}
	return Target{Scheme: scheme, Host: host, Port: port}, nil
}

// ParseHostPort reads a Host header, the host of a URL or the target of a CONNECT. Without a port, or
// with an empty one ("a.test:"), it is defaultPort; 0 there makes it a must.
func ParseHostPort(s string, defaultPort uint16) (host string, port uint16, err error) {
	if host, port, err = splitHostPort(s, defaultPort); err == nil {
		host, err = CanonicalHost(host)
	}
	if err != nil {
		return "", 0, fmt.Errorf("host %s %w", Quote(s), err)
	}
	return host, port, nil
}

func splitHostPort(s string, defaultPort uint16) (string, uint16, error) {
	host, text := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", 0, errHostBrackets
		}
		host, text = s[:end+1], s[end+1:]
		if text != "" && text[0] != ':' {
			return "", 0, errHostBrackets
		}
		text = strings.TrimPrefix(text, ":")
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 {
		host, text = s[:colon], s[colon+1:]
		if strings.IndexByte(text, ':') >= 0 {
			return "", 0, errIPv6Brackets
		}
	}
	if text == "" {
		if defaultPort == 0 {
			return "", 0, errPortMissing
		}
		return host, defaultPort, nil
	}
	port, ok := parsePort(text)
	if !ok {
		return "", 0, errPortBad
	}
	return host, port, nil
}

// parsePort reads 1 to 65535. Zeros in front mean nothing (RFC 3986, 3.2.3).
func parsePort(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n != 0
}

// parseListen reads an address to listen on: an IP address and a port, or a port
// on every address.
func parseListen(s string) (string, error) {
	if s == "" {
		return "", errors.New("has no value; write an address such as 127.0.0.1:3128")
	}
	if digits(s) {
		return "", fmt.Errorf("%s needs an address too, such as 127.0.0.1:%s, or :%s for every address", Quote(s), s, s)
	}
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 || strings.HasSuffix(s, "]") {
		return "", fmt.Errorf("%s needs a port, such as %s:3128", Quote(s), s)
	}
	host, text := s[:colon], s[colon+1:]
	port, ok := parsePort(text)
	if !ok && text != "0" {
		return "", fmt.Errorf("%s %w", Quote(s), errPortBad)
	}
	switch host {
	case "":
		return ":" + text, nil
	case "*":
		return "", fmt.Errorf("%s has a *; write :%s for every address", Quote(s), text)
	case "localhost":
		host = "127.0.0.1"
	}
	bracketed := strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]")
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s is not an IP address and a port, such as 127.0.0.1:3128", Quote(s))
	case bracketed != addr.Is6():
		return "", fmt.Errorf("%s is written %s", Quote(s), netip.AddrPortFrom(addr, port))
	}
	return netip.AddrPortFrom(addr.Unmap(), port).String(), nil
}

// parsePrefix reads a network or a single address.
func parsePrefix(s string, words ...string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(s)
	if a, single := netip.ParseAddr(s); single == nil && a.Zone() == "" {
		prefix, err = a.Prefix(a.BitLen())
	}
	switch {
	case err != nil && len(words) > 0:
		return netip.Prefix{}, fmt.Errorf("%s is neither a network such as 10.0.0.0/8 nor one of %s%s",
			Quote(s), strings.Join(words, ", "), DidYouMean(s, words))
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%s is not a network such as 10.0.0.0/8", Quote(s))
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%s is an IPv4 network written as IPv6; write it as IPv4", Quote(s))
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("%s has bits outside of its mask; did you mean %s?", Quote(s), prefix.Masked())
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

var ownNetworks = lists.Map([]string{
	"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
	"100.64.0.0/10", // carriers, and private overlays
	"::1/128", "fc00::/7", "fe80::/10",
}, netip.MustParsePrefix)

// listenNode describes the values that parseListen reads, as far as a pattern tells.
func listenNode() Node {
	return PatternNode(`^(?:[^:/\s]*|\[[^\]]+\]):[0-9]{1,5}$`).suchAs("127.0.0.1:3128", ":3128")
}

// networkNode describes the values that parsePrefix reads, as far as a pattern tells.
func networkNode() Node {
	return PatternNode(`^(?:[0-9.]+(?:/(?:[12]?[0-9]|3[0-2]))?|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:/(?:[1-9]?[0-9]|1[01][0-9]|12[0-8]))?)$`).suchAs("10.0.0.0/8")
}

// parseOrigin reads the scheme, the host and perhaps the port of a server. It
// quotes nothing but the host: a user and a password may stand beside it.
func parseOrigin(s string) (Target, error) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return Target{}, errors.New("is empty")
	case err != nil, u.Opaque != "", u.Scheme == "":
		return Target{}, errors.New("is not an origin such as https://a.example")
	case u.User != nil, strings.TrimPrefix(u.Path, "/") != "", strings.ContainsAny(s, "?#"):
		return Target{}, errors.New("is not an origin: it has more than a scheme, a host and perhaps a port, such as https://a.example")
	}
	return ParseTarget(u.Scheme, u.Host)
}
