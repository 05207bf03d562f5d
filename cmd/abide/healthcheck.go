package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout is shorter than the time that Docker and Kubernetes give a health check.
const healthTimeout = 2 * time.Second

func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running abide whether it is well (for containers)",
		Long: `Healthcheck asks /healthz of the admin listener that --admin, $ABIDE_ADMIN or
the configuration names, and ends with 0 when it is well. A configuration that
was broken after that abide started does not matter.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, _, err := adminSettings(cmd)
			if err != nil {
				return err
			}
			if p.Admin.Listen == "" {
				return errors.New("admin.listen is off, so no abide can be asked")
			}
			address, err := adminAddress(p)
			if err != nil {
				return err
			}
			return healthy(cmd.Context(), address)
		},
	}
}

func healthy(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, withScheme(address)+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	answer, err := directTransport.RoundTrip(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return notRunningAt(address)
	}
	if failed := tlsFailure(address, err); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, answer.Status)
	}
	return nil
}
