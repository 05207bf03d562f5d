package policy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Pattern selects the hosts of a rule:
//
//	example.com         this host, on every port
//	example.com:8443    this host on this port (":*" says every port outright)
//	*.example.com       every host below it, at any depth, but not example.com
//	*                   every host
//
// A * matches whole labels: *.example.com does not match evil-example.com.
// Names may be written in any script and case, addresses in any spelling.
type Pattern struct {
	Host string // canonical; what follows "*." when Below
	Port uint16 // 0 is every port
	// Below is *.Host, All is *. Both false is Host alone.
	Below, All bool
}

var errPatternStar = errors.New(`has a * that is not a whole pattern or the first label, as in "*.example.com"`)

// parsePattern reads one pattern.
func parsePattern(s string) (Pattern, error) {
	p, err := splitPattern(s)
	if err != nil {
		return Pattern{}, fmt.Errorf("host %s %w", Quote(s), err)
	}
	return p, nil
}

func splitPattern(s string) (Pattern, error) {
	var p Pattern
	host := s
	switch {
	case strings.Contains(s, "://"):
		return p, errors.New("has a scheme; write the host alone")
	case strings.Contains(s, "/"):
		return p, errors.New("has a slash; a pattern names hosts, write paths in limits")
	}
	if addr, err := netip.ParseAddr(s); err != nil || addr.Is4() { // a bare IPv6 address has colons but no port
		if colon := strings.LastIndexByte(s, ':'); colon > strings.LastIndexByte(s, ']') {
			port := s[colon+1:]
			host = s[:colon]
			if strings.IndexByte(host, ':') >= 0 && host[0] != '[' {
				return p, errHostIPv6
			}
			if port != "*" {
				n, ok := parsePort(port)
				if !ok {
					return p, errPortBad
				}
				p.Port = n
			}
		}
	}
	if host == "*" {
		p.All = true
		return p, nil
	}
	rest, below := strings.CutPrefix(host, "*.")
	if strings.Contains(rest, "*") {
		return p, errPatternStar
	}
	name, err := canonicalHost(rest)
	if err != nil {
		return p, err
	}
	if below && (strings.Contains(name, ":") || endsInNumber(name)) {
		return p, errors.New("has a * in front of an address")
	}
	p.Host, p.Below = name, below
	return p, nil
}

// matches tells whether the pattern covers a canonical host and a port.
func (p Pattern) matches(host string, port uint16) bool {
	if p.Port != 0 && p.Port != port {
		return false
	}
	switch {
	case p.All:
		return true
	case p.Below:
		n := len(host) - len(p.Host)
		return n > 1 && host[n-1] == '.' && host[n:] == p.Host
	}
	return host == p.Host
}

// String is the pattern as it would be written.
func (p Pattern) String() string {
	host := p.Host
	switch {
	case p.All:
		host = "*"
	case p.Below:
		host = "*." + host
	case p.Port == 0 && strings.Contains(host, ":"):
		return "[" + host + "]"
	}
	if p.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(p.Port)))
}

// hostNode describes the values that parsePattern reads, as far as a pattern of the schema tells. 127.1 and
// true are hosts, too.
func hostNode() Node {
	n := TextNode()
	n["pattern"] = `^[^/]+$`
	return n
}
