package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/abide-proxy/abide/policy"
)

// listen opens a listener for a setting. Its error says what to do.
func listen(key, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	name, flag := "ABIDE_LISTEN", "--listen"
	switch key {
	case "admin.listen":
		name, flag = "ABIDE_ADMIN", "--admin"
	case "listen_open":
		name, flag = "ABIDE_LISTEN_OPEN", "--listen-open"
	}
	other := fmt.Sprintf("%s, %s or %s", flag, name, key)
	_, port, _ := net.SplitHostPort(address)
	inUse := errors.Is(err, syscall.EADDRINUSE)
	switch {
	case inUse && port == "0":
		return nil, fmt.Errorf("%s: this machine has no port left for %s; wait until some of its connections have ended", key, address)
	case inUse || strings.Contains(err.Error(), "Only one usage of each socket address"):
		return nil, fmt.Errorf("%s: %s is in use by another process, maybe another abide; stop that one or choose another address with %s", key, address, other)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: this user may not listen on %s; choose a port above 1023 with %s", key, address, other)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s: this machine does not have the address of %s; choose another with %s", key, address, other)
	}
	return nil, fmt.Errorf("%s: %w; choose another address with %s", key, err, other)
}

// addresses are the configured addresses of listeners.
type addresses struct {
	listen, admin string
	open          policy.OpenListener
}

func addressesOf(p *policy.Policy) addresses { return addresses{p.Listen, p.Admin.Listen, p.Open} }

// sameOpen tells whether another configuration needs the same open listener. A default
// address follows listen, and intercept: none needs no restart.
func (a addresses) sameOpen(next policy.OpenListener) bool {
	return a.open == next || a.open.Default && next.Default
}

// listenOpen opens the listener on which all https is opened. Where listen_open is not
// written and its port is taken, abide serves without it.
func (a *program) listenOpen(p *policy.Policy) (err error) {
	if p.Open.Listen == "" {
		return nil
	}
	address := p.Open.Listen
	if a.open, err = listen("listen_open", address); err != nil {
		a.open = nil
		if !p.Open.Default {
			return err
		}
		a.log.Warnf("there is no listener that opens all https: %v, or listen_open: off", err)
	}
	return nil
}

// opens are the listeners on which all https is opened.
func (a *program) opens() []net.Listener {
	if a.open == nil {
		return nil
	}
	return []net.Listener{a.open}
}
