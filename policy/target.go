package policy

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Target is where a request goes. Host is canonical (see canonicalHost), so two
// Targets are the same place exactly when they are equal. Scheme is http, https
// or, for a tunnel whose content is not known, empty.
type Target struct {
	Scheme string
	Host   string
	Port   uint16
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
		return Target{}, fmt.Errorf("scheme %s is neither http nor https", quote(scheme))
	}
	host, port, err := ParseHostPort(hostport, usual)
	if err != nil {
		return Target{}, err
	}
	return Target{Scheme: scheme, Host: host, Port: port}, nil
}

// ParseAuthority reads the target of a CONNECT: a host and a port, nothing else.
func ParseAuthority(s string) (host string, port uint16, err error) {
	return ParseHostPort(s, 0)
}

// ParseHostPort reads a Host header or the host of a URL. Without a port, or
// with an empty one ("a.test:"), it is defaultPort; 0 there makes it a must.
func ParseHostPort(s string, defaultPort uint16) (host string, port uint16, err error) {
	if host, port, err = splitHostPort(s, defaultPort); err == nil {
		host, err = canonicalHost(host)
	}
	if err != nil {
		return "", 0, fmt.Errorf("host %s %w", quote(s), err)
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

// parsePort reads 1 to 65535, digits only: strconv alone would take +80 too. Zeros in
// front mean nothing (RFC 3986, 3.2.3).
func parsePort(s string) (uint16, bool) {
	if !digits(s) {
		return 0, false
	}
	if s = strings.TrimLeft(s, "0"); len(s) > 5 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n != 0
}

// HostPort is host and port, always both, with brackets around IPv6.
func (t Target) HostPort() string {
	return net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
}

// Origin is the target as a URL begins, without the port when it is the usual
// one: https://a.example, http://[::1]:8080.
func (t Target) Origin() string {
	host := t.HostPort()
	if t.UsualPort() {
		host = t.Host
		if strings.IndexByte(host, ':') >= 0 {
			host = "[" + host + "]"
		}
	}
	return t.Scheme + "://" + host
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
