package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// buildAbide builds the real binary from this module.
func buildAbide(ctx context.Context, b *bed, root string) error {
	b.abide = b.file("abide")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.abide, "./cmd/abide")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building abide: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func abideVersion(b *bed) (string, error) {
	if b.abide == "" {
		return "", fmt.Errorf("not built")
	}
	return "of this tree", nil
}

// startAbide runs `abide serve` with an empty policy: names lead to the origin,
// and https is either opened for every host or for none.
func startAbide(ctx context.Context, b *bed, intercept bool) (*way, error) {
	at, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(b.dir, "abide-data-")
	if err != nil {
		return nil, err
	}
	var config strings.Builder
	mode := "none"
	if intercept {
		mode = "all"
	}
	fmt.Fprintf(&config, "listen: %s\nadmin: {listen: %s}\ndata: %s\nintercept: %s\nlog: {level: error}\n", at, admin, data, mode)
	fmt.Fprintf(&config, "egress:\n  roots: %s\n  resolve:\n", b.originCA.CertFile)
	fmt.Fprintf(&config, "    \"%s:80\": %s\n    \"%s:443\": %s\n", siteHost, b.at.Plain, siteHost, b.at.Secure)
	fmt.Fprintf(&config, "    \"%s:443\": %s\n", bulkHost, b.at.Plain)
	for i := range b.fresh {
		fmt.Fprintf(&config, "    \""+freshHost+":443\": %s\n", i, b.at.Secure)
	}
	file := data + ".yaml"
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	p := newProcess(ctx, "abide", b.cores.proxy, b.abide, "serve", "--config", file)
	if err := p.start(); err != nil {
		return nil, err
	}
	roots := data + "-ca.pem"
	err = p.listens(ctx, at)
	if err == nil && intercept {
		if err = p.listens(ctx, admin); err == nil {
			err = fetchCA(ctx, "http://"+admin+"/ca.pem", roots)
		}
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return proxied(p, at, roots), nil
}

// fetchCA saves what the admin listener serves as abide's CA.
func fetchCA(ctx context.Context, url, file string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy of the environment
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("fetching abide's CA: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("fetching abide's CA: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("fetching abide's CA: status %d", answer.StatusCode)
	}
	return os.WriteFile(file, text, 0o644)
}
