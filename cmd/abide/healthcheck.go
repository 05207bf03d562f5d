package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// healthTimeout is shorter than the time that Docker and Kubernetes give a health check.
const healthTimeout = 2 * time.Second

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running abide whether it is well (for containers)",
		Long: `Healthcheck asks /healthz of the admin listener that --admin, $ABIDE_ADMIN or
the configuration names, and ends with 0 when it is well, and with 1 while it
drains. A configuration that was broken after that abide started does not
matter.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, _, err := adminSettings(cmd)
			if err != nil {
				return err
			}
			address := adminAddress(p)
			if address == "" {
				return errors.New("admin.listen is off, so no abide can be asked")
			}
			code, _, err := askOpen(cmd.Context(), address, "/healthz")
			switch {
			case err != nil:
				return err
			case code != http.StatusOK:
				return fmt.Errorf("%s answers %d", address, code)
			case drains(cmd.Context(), address):
				return fmt.Errorf("the abide at %s is draining: it takes no new connections", address)
			}
			return nil
		},
	}
}

// drains reports whether the abide with the admin listener at an address is draining.
func drains(ctx context.Context, address string) bool {
	_, text, err := askOpen(ctx, address, "/readyz")
	return err == nil && strings.HasPrefix(text, status.Draining+":")
}

// bindStep is the time between two looks at an address that another process has, and bindGrace that
// in which another abide that was told to stop begins to drain.
const bindStep, bindGrace = 50 * time.Millisecond, time.Second

// bind opens a listener. Where the abide that has the address drains, it waits for the end of
// that, for as long as its own drain may take.
func (a *program) bind(ctx context.Context, p *policy.Policy, key, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if !errors.Is(err, syscall.EADDRINUSE) || p.Admin.Listen == "" {
		return l, err
	}
	_ = trustAdmin(p) // what cannot be asked does not drain
	at := adminAddress(p)
	end, known := time.Now().Add(bindGrace), false
	for errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end) {
		if !known && drains(ctx, at) {
			limit := p.Timeouts.Drain + 2*adminDrain
			end, known = time.Now().Add(limit), true
			a.log.WithFields(logrus.Fields{"address": address, "wait": limit}).Infof("%s: %s is that of an abide that is draining; waiting up to %v for it to end", key, address, limit)
		}
		if waited := clock.Sleep(ctx, bindStep); waited != nil {
			return nil, waited
		}
		l, err = net.Listen("tcp", address)
	}
	return l, err
}

// askOpen asks an admin listener for a path that needs no token, within healthTimeout.
func askOpen(ctx context.Context, address, path string) (code int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	answer, body, err := roundTrip(ctx, http.MethodGet, address, path, policy.Secret{}, nil)
	if err != nil {
		return 0, "", err
	}
	return answer.StatusCode, string(body), nil
}
