package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
)

// Egress configures the destinations that may be reached, and the path to them.
type Egress struct {
	Allow         []netip.Prefix // reachable although they are not public
	Ports         Ports          // that CONNECT may name
	Hosts         []Pattern      // that may be reached by any client; nil: all
	Proxy         *url.URL       // the next hop, nil for none; never with its password
	ProxyPassword Secret
	Resolve       map[string]string // "host:port" → "ip:port"; both canonical
	Roots         string            // PEM file added to the system's roots
	Shared        bool              // all instances of a fleet go out by one address
}

// NextHop is Proxy with its password, nil for none. It is for the one place that
// dials: printing it would print the password.
func (e Egress) NextHop() *url.URL {
	if e.Proxy == nil {
		return nil
	}
	hop := *e.Proxy
	if e.Proxy.User != nil && !e.ProxyPassword.Empty() {
		hop.User = url.UserPassword(e.Proxy.User.Username(), e.ProxyPassword.Reveal())
	}
	return &hop
}

// readProxy reads egress.proxy. Its errors quote nothing of the value, which may hold a password.
func (e *Egress) readProxy(s string) error {
	e.Proxy, e.ProxyPassword = nil, Secret{}
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Opaque != "":
		return errors.New("is not a URL such as http://user:secret@proxy.example:3128")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("is neither http:// nor https://; other kinds of next hop are not spoken")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("has a path, a query or a fragment; a next hop is a host and a port")
	}
	host, port, err := ParseHostPort(u.Host, 0)
	if err != nil {
		return errors.New("needs a valid host and a port, such as http://proxy.example:3128")
	}
	e.Proxy = &url.URL{Scheme: u.Scheme, Host: Target{Host: host, Port: port}.HostPort()}
	if u.User != nil {
		password, _ := u.User.Password()
		e.Proxy.User, e.ProxyPassword = url.User(u.User.Username()), NewSecret(password)
	}
	return nil
}

// readResolve reads egress.resolve.
func (e *Egress) readResolve(d *Decoder, n *yaml.Node, path string) {
	e.Resolve = nil
	d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
		to, ok := d.Scalar(value, path, PlainText)
		if !ok {
			return
		}
		from, address, err := parseResolve(name, to)
		if _, twice := e.Resolve[from]; err == nil && twice {
			err = fmt.Errorf("%s is listed twice", from)
		}
		if err != nil {
			d.Fail(key, path, err)
			return
		}
		if e.Resolve == nil {
			e.Resolve = map[string]string{}
		}
		e.Resolve[from] = address
	})
}

// parseResolve reads a host and a port, and the address that is reached for them.
func parseResolve(name, to string) (from, address string, err error) {
	host, port, err := ParseHostPort(strings.TrimSpace(name), 0)
	if err != nil {
		return "", "", err
	}
	to = strings.TrimSpace(to)
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		addr, err := netip.ParseAddr(strings.Trim(to, "[]"))
		if err != nil {
			return "", "", fmt.Errorf("%s is not an address and a port, such as 127.0.0.1:9443", Quote(to))
		}
		at = netip.AddrPortFrom(addr, port)
	}
	if at.Port() == 0 {
		return "", "", fmt.Errorf("%s %w", Quote(to), errPortBad)
	}
	return Target{Host: host, Port: port}.HostPort(), netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String(), nil
}

// resolveText is the map as it would be written.
func (e *Egress) resolveText() string {
	var words []string
	for name, to := range e.Resolve {
		words = append(words, name+" = "+to)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// Ports is a set of ports. The zero value allows none.
type Ports struct {
	Any  bool
	List []uint16
}

// Allows tells whether port is one of the ports.
func (p Ports) Allows(port uint16) bool {
	if p.Any {
		return port != 0
	}
	return slices.Contains(p.List, port)
}

// readPorts reads egress.ports.
func readPorts(in *input) Ports {
	if i := slices.Index(in.items, "any"); i >= 0 {
		if len(in.items) > 1 {
			in.fail(i, errors.New("any stands alone"))
		}
		return Ports{Any: true}
	}
	return Ports{List: distinct(in, "port ", func(s string) (uint16, error) {
		n, ok := parsePort(s)
		if !ok {
			return 0, fmt.Errorf("%s is not a port from 1 to 65535, nor any", Quote(s))
		}
		return n, nil
	})}
}

// String is the set as it would be written.
func (p Ports) String() string {
	if p.Any {
		return "any"
	}
	return strings.Join(lists.Map(p.List, func(port uint16) string { return strconv.Itoa(int(port)) }), ", ")
}
