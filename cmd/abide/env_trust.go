package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
)

// maxCertificate bounds what is read of a CA certificate and its issuers, in bytes.
const maxCertificate = 1 << 20

// foreignCA is the CA of an abide whose data directory this user may not read: that of a
// service, or of another user. The directory is this user's own, where the bundle is
// written.
func foreignCA(cmd *cobra.Command, running *otherAbide, roots string, notice func(string)) (authority *ca.CA, dir string, err error) {
	text, err := certificateAt(cmd.Context(), running.address)
	if err != nil {
		return nil, "", err
	}
	if authority, err = ca.Foreign(text, ca.Options{Roots: roots, Notice: notice}); err != nil {
		return nil, "", fmt.Errorf("%s: %w", running.address, err)
	}
	if authority.Fingerprint() != running.fingerprint {
		return nil, "", fmt.Errorf("%s has a new CA certificate by now: ask once more", running.address)
	}
	name := strings.ToLower(strings.ReplaceAll(running.fingerprint, ":", ""))[:16]
	return authority, filepath.Join(policy.Defaults().Data, "trusted", name), nil
}

// certificateAt fetches the CA certificate from an admin listener.
func certificateAt(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/ca.pem", nil)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	answer, err := directTransport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its CA certificate: %w", address, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxCertificate))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", answer.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s for its CA certificate: %w", address, err)
	}
	return text, nil
}
