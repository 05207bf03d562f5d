package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// readProxy reads egress.proxy.
func (e *Egress) readProxy(in *input) {
	e.Proxy, e.ProxyPassword = nil, Secret{}
	if in.value() == "" {
		return
	}
	// The value may contain a password, so it is not quoted.
	u, err := url.Parse(in.value())
	switch {
	case err != nil, u.Opaque != "":
		in.fail(-1, errors.New("is not a URL such as http://user:secret@proxy.example:3128"))
		return
	case u.Scheme != "http" && u.Scheme != "https":
		in.fail(-1, errors.New("is neither http:// nor https://; other kinds of next hop are not spoken"))
		return
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		in.fail(-1, errors.New("has a path, a query or a fragment; a next hop is a host and a port"))
		return
	}
	host, port, err := ParseHostPort(u.Host, 0)
	if err != nil {
		in.fail(-1, errors.New("needs a valid host and a port, such as http://proxy.example:3128"))
		return
	}
	hop := &url.URL{Scheme: u.Scheme, Host: Target{Host: host, Port: port}.HostPort()}
	if u.User != nil {
		password, _ := u.User.Password()
		hop.User, e.ProxyPassword = url.User(u.User.Username()), NewSecret(password)
	}
	e.Proxy = hop
}

// proxyText is the next hop without its password.
func (e *Egress) proxyText() string {
	if e.Proxy == nil {
		return ""
	}
	return e.Proxy.Redacted()
}

// readResolve reads egress.resolve.
func readResolve(to *map[string]string, in *input) {
	resolve := map[string]string{}
	for i, s := range in.items {
		name, to, _ := strings.Cut(s, "=")
		host, port, err := ParseHostPort(strings.TrimSpace(name), 0)
		if err != nil {
			in.fail(i, err)
			continue
		}
		address, err := netip.ParseAddrPort(strings.TrimSpace(to))
		if err != nil {
			addr, err := netip.ParseAddr(strings.Trim(strings.TrimSpace(to), "[]"))
			if err != nil {
				in.fail(i, fmt.Errorf("%s is not an address and a port, such as 127.0.0.1:9443", Quote(to)))
				continue
			}
			address = netip.AddrPortFrom(addr, port)
		}
		if address.Port() == 0 {
			in.fail(i, fmt.Errorf("%s %w", Quote(to), errPortBad))
			continue
		}
		key := Target{Host: host, Port: port}.HostPort()
		if _, twice := resolve[key]; twice {
			in.fail(i, fmt.Errorf("%s is listed twice", key))
			continue
		}
		resolve[key] = netip.AddrPortFrom(address.Addr().Unmap(), address.Port()).String()
	}
	if len(resolve) == 0 {
		resolve = nil
	}
	*to = resolve
}

// resolveText is the map as it would be written.
func resolveText(resolve *map[string]string) string {
	var words []string
	for name, to := range *resolve {
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

// read reads egress.ports.
func (p *Ports) read(in *input) {
	switch i := slices.Index(in.items, "any"); {
	case i >= 0 && len(in.items) > 1:
		in.fail(i, errors.New("any stands alone"))
	case i >= 0:
		*p = Ports{Any: true}
	default:
		*p = Ports{List: distinct(in, "port ", func(s string) (uint16, error) {
			n, ok := parsePort(s)
			if !ok {
				return 0, fmt.Errorf("%s is not a port from 1 to 65535, nor any", Quote(s))
			}
			return n, nil
		})}
	}
}

// text is the set as it would be written.
func (p Ports) text() string {
	if p.Any {
		return "any"
	}
	return strings.Join(lists.Map(p.List, func(port uint16) string { return strconv.Itoa(int(port)) }), ", ")
}
