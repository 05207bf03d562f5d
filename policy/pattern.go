package policy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Pattern is which hosts a rule is about:
//
//	example.com         this host, on every port
//	example.com:8443    this host on this port (":*" says every port outright)
//	*.example.com       every host below it, at any depth, but not example.com
//	*                   every host
//
// A * stands for whole labels: *.example.com does not match evil-example.com.
// Names may be written in any script and case, addresses in any spelling.
type Pattern struct {
	Host string // canonical; what follows "*." when Below
	Port uint16 // 0 is every port
	// Below is *.Host, All is *. Both false is Host alone.
	Below, All bool
}

var errPatternStar = errors.New(`has a * that is not a whole pattern or the first label, as in "*.example.com"`)

// ParsePattern reads one pattern.
func ParsePattern(s string) (Pattern, error) {
	p, err := parsePattern(s)
	if err != nil {
		return Pattern{}, fmt.Errorf("host %s %w", quote(s), err)
	}
	return p, nil
}

func parsePattern(s string) (Pattern, error) {
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
	name, err := canonical(rest)
	if err != nil {
		return p, err
	}
	if below && (strings.Contains(name, ":") || endsInNumber(name)) {
		return p, errors.New("has a * in front of an address")
	}
	p.Host, p.Below = name, below
	return p, nil
}

// Matches tells whether the pattern covers a canonical host and a port.
func (p Pattern) Matches(host string, port uint16) bool {
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

// index finds the first rule that matches a host and port, in one map access per
// label.
type index struct {
	built bool             // the zero value, of a Policy that was not loaded, has no rules
	exact map[string]ports // canonical host → its rules
	below map[string]ports // what follows "*." → its rules
	all   ports
}

// ports is the first rule for every port, and the rules for one port each.
type ports struct {
	any int32
	one map[uint16]int32 // port → its first rule
}

const none int32 = 1<<31 - 1

func (p ports) find(port uint16) int32 {
	if rule, ok := p.one[port]; ok {
		return min(p.any, rule)
	}
	return p.any
}

func (p ports) add(port uint16, rule int32) ports {
	if port == 0 {
		p.any = min(p.any, rule)
	} else if p.find(port) > rule {
		if p.one == nil {
			p.one = map[uint16]int32{}
		}
		p.one[port] = rule
	}
	return p
}

func newIndex(sites []Site) index {
	x := index{built: true, all: ports{any: none}}
	for i := range sites {
		for _, p := range sites[i].Hosts {
			x.add(p, int32(i))
		}
	}
	return x
}

func (x *index) add(p Pattern, rule int32) {
	if p.All {
		x.all = x.all.add(p.Port, rule)
		return
	}
	m := &x.exact
	if p.Below {
		m = &x.below
	}
	if *m == nil {
		*m = map[string]ports{}
	}
	entry, ok := (*m)[p.Host]
	if !ok {
		entry.any = none
	}
	(*m)[p.Host] = entry.add(p.Port, rule)
}

func (x *index) find(host string, port uint16) int32 {
	if !x.built {
		return none
	}
	first := none
	if entry, ok := x.exact[host]; ok {
		first = entry.find(port)
	}
	if len(x.below) > 0 {
		for rest := host; ; {
			dot := strings.IndexByte(rest, '.')
			if dot < 0 {
				break
			}
			rest = rest[dot+1:]
			if entry, ok := x.below[rest]; ok {
				first = min(first, entry.find(port))
			}
		}
	}
	return min(first, x.all.find(port))
}
