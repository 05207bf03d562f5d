package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"syscall"

	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy"
	"github.com/abide-proxy/abide/store"
)

// unusable answers why abide cannot start with what a configuration names outside itself,
// one fault a line: certificates, the data directory, and files of the store's URL. It
// changes nothing. Whoever adds a file that is read at the start adds it here: check and
// serve both ask it.
func unusable(p *policy.Policy) error {
	faults := []error{proxy.CheckRoots(p.Egress.Roots)}
	if p.Data != "none" {
		faults = append(faults, unusableData(p))
	}
	if p.Store.Shared() {
		shared, err := store.NewRedis(p.Store.URL.Reveal(), store.RedisOptions{Prefix: p.Store.Prefix})
		if err != nil {
			faults = append(faults, fmt.Errorf("store: %w", err))
		} else {
			_ = shared.Close() // it has not asked anything
		}
	}
	return errors.Join(faults...)
}

func unusableData(p *policy.Policy) error {
	if dir := ca.Dir(p.Data); !p.CA.Given() {
		if err := ca.Inspect(dir); err != nil && (p.StrictState || ca.Begun(dir) || !ca.Unwritable(err)) {
			return notOpened(p, err)
		}
	}
	return store.InspectFile(filepath.Join(p.Data, stateFile), p.StrictState)
}

// foreignAddresses warns of addresses to listen on that this machine does not have. The
// configuration may be for another one.
func foreignAddresses(p *policy.Policy) (warnings []string) {
	for _, one := range []struct{ key, address string }{{"listen", p.Listen}, {"listen_open", p.Open.Listen}, {"admin.listen", p.Admin.Listen}} {
		host, _, err := net.SplitHostPort(one.address)
		if err != nil {
			continue // there is none
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
