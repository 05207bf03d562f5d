package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/accesslog"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/store"
)

// startFaults is why abide cannot start with what a configuration names outside itself, one
// fault a line: certificates, the data directory, the access log, and files of the store's URL. It changes
// nothing. If you add a file that is read at the start, add it here: check and serve both
// use it.
func startFaults(p *policy.Policy) error {
	faults := []error{dispatch.CheckRoots(p.Egress.Roots), accesslog.Inspect(p.Log.Access)}
	if p.Data != "none" {
		faults = append(faults, dataFault(p))
	}
	if p.Store.Shared() {
		shared, err := newRedis(&p.Store)
		if err != nil {
			faults = append(faults, fmt.Errorf("store: %w", err))
		} else {
			_ = shared.Close() // the client has not connected
		}
	}
	return errors.Join(faults...)
}

func dataFault(p *policy.Policy) error {
	if dir := ca.Dir(p.Data); !p.CA.Given() {
		if err := ca.Inspect(dir); err != nil && (p.StrictState || ca.Begun(dir) || !ca.Unwritable(err)) {
			return dataError(p, err)
		}
	}
	return store.InspectFile(filepath.Join(p.Data, stateFile), p.StrictState)
}

// foreignAddresses warns of listen addresses that this machine does not have. The
// configuration may be for another machine.
func foreignAddresses(p *policy.Policy) (warnings []string) {
	for _, one := range []struct{ key, address string }{{"listen", p.Listen}, {"listen_open", p.Open.Listen}, {"admin.listen", p.Admin.Listen}} {
		host, _, err := net.SplitHostPort(one.address)
		if err != nil {
			continue // no address is configured
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		switch {
		case err == nil:
			l.Close()
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			warnings = append(warnings, fmt.Sprintf("%s: this machine does not have the address of %s, and abide would not start on it", one.key, one.address))
		}
	}
	return warnings
}
