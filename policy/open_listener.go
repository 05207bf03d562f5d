package policy

import (
	"slices"
	"strconv"
)

// OpenListener is the second port of the proxy. A client that uses it says by that
// that it trusts the CA, so all its https is opened.
type OpenListener struct {
	Listen string // "ip:port", or ":port" for every address; "" for no listener
	// Default says that listen_open is not written: abide serves without this
	// listener when its port is taken.
	Default bool
	// Off says that no client can ask for its https to be opened, neither by a port
	// nor by a user name.
	Off bool
	// Run says that the proxy is of abide run, whose command is set up already.
	Run bool
}

func openListenerSetting() setting {
	return setting{
		Key: Key{
			Name: "listen_open", Kind: "address",
			Doc: "where the proxy listens for clients that trust its CA and have all https opened, off for none",
		},
		read: func(p *Policy, in *input) {
			p.Open = OpenListener{Off: in.value() == "off"}
			if p.Open.Off {
				return
			}
			address, err := parseListen(in.value())
			if err != nil {
				in.fail(-1, err)
				return
			}
			p.Open.Listen = address
		},
		show: func(p *Policy) string {
			if p.Open.Off {
				return "off"
			}
			return p.Open.Listen
		},
	}
}

// placeOpenListener gives the open listener the port after that of listen where
// listen_open is not written. With intercept: none no https is to be opened, so there
// is no such listener unless listen_open asks for it.
func (l *loading) placeOpenListener(p *Policy) {
	if _, written := l.places["listen_open"]; written {
		return
	}
	p.Open = OpenListener{Default: true, Off: p.Intercept.Mode == "none"}
	if !p.Open.Off {
		p.Open.Listen = portAfter(p.Listen)
	}
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

// Local tells whether only this machine reaches the proxy.
func (p *Policy) Local() bool {
	return Loopback(p.Listen) && (p.Open.Listen == "" || Loopback(p.Open.Listen))
}

// opensAny tells whether https to any host may be opened. A CA that the operator gives
// need not vouch for every host because of a listener that nobody asked for.
func (p *Policy) opensAny() bool {
	return p.Intercept.Mode == "all" || !p.Open.Off && !(p.Open.Default && p.CA.Given()) || slices.ContainsFunc(p.Access.Clients, func(c Client) bool { return c.OpensAll })
}
