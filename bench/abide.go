package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// buildAbide builds the real binary from this module.
func buildAbide(ctx context.Context, b *bed, root string) error {
	b.abide = b.file("abide")
	return process.Build(ctx, root, b.abide, "./cmd/abide")
}

func abideVersion(b *bed) (string, error) {
	if b.abide == "" {
		return "", fmt.Errorf("not built")
	}
	return "of this tree", nil
}

// slackLimits is every kind of limit on the site that is asked, each so wide that
// it never keeps anything back.
const slackLimits = `sites:
  - host: ` + siteHost + `
    limits:
      - {requests: 1000000000, per: 1h}
      - {requests: 1000000000, per: 10m, as: fixed}
      - {requests: 1000000000, per: 30m, as: first-use}
      - {requests: 1000000, per: 1s, as: bucket, burst: 100000}
      - {requests: 1000000000, per: 1s, as: paced}
      - {requests: 1000000000, per: month}
      - {concurrency: 100000}
      - {as: adaptive, min: 1000000/s, max: 2000000/s}
`

// slackConcurrency is a limit of requests in flight that never keeps anything back. To a
// site without limits that has not answered yet, abide sends few requests at once.
const slackConcurrency = `sites:
  - {host: ` + siteHost + `, limits: [{concurrency: 100000}]}
`

// slackWindows are limits that a store keeps, on the site that is asked, so wide that
// they never keep anything back.
const slackWindows = `sites:
  - host: ` + siteHost + `
    limits:
      - {requests: 1000000000, per: 1h}
      - {requests: 1000000000, per: 10m, as: fixed}
      - {requests: 1000000000, per: month}
`

// slackBytes is a limit of bytes on the hosts that are asked, so wide that it never
// keeps anything back.
const slackBytes = `sites:
  - host: [` + siteHost + `, "` + bulkHost + `:443"]
    limits:
      - {bytes: 100GB, per: 1m}
`

// keepsNothing has limits kept in memory alone.
const keepsNothing = "data: none\n"

// startAbideWithRedis starts abide, and a Redis beside it that has its budgets.
func startAbideWithRedis(ctx context.Context, b *bed, intercept bool) (*way, error) {
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "redis-")
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(at, ":")
	beside, err := startDaemon(ctx, b, "redis-server", at, "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", dir)
	if err != nil {
		return nil, err
	}
	w, err := startAbide(ctx, b, intercept, "store: redis://"+at+"\n"+slackWindows)
	if err != nil {
		beside.Stop()
		return nil, err
	}
	w.beside = beside
	return w, nil
}

// startAbideWith starts abide with these sections in its configuration too.
func startAbideWith(sections string) func(context.Context, *bed, bool) (*way, error) {
	return func(ctx context.Context, b *bed, intercept bool) (*way, error) {
		return startAbide(ctx, b, intercept, sections)
	}
}

// startAbide runs `abide serve`: names lead to the origin, nothing is limited
// but by the sections, and https is either opened for every host or for none.
func startAbide(ctx context.Context, b *bed, intercept bool, sections string) (*way, error) {
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := process.FreeAddress()
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
	fmt.Fprintf(&config, "listen: %s\nadmin: {listen: %s}\nintercept: %s\nlog: {level: error}\ndefaults: {limits: []}\n", at, admin, mode)
	if !strings.HasPrefix(sections, keepsNothing) {
		fmt.Fprintf(&config, "data: %s\n", data)
	}
	fmt.Fprintf(&config, "egress:\n  roots: %s\n  resolve:\n", b.originCA.CertFile)
	fmt.Fprintf(&config, "    \"%s:80\": %s\n    \"%s:443\": %s\n", siteHost, b.at.Plain, siteHost, b.at.Secure)
	fmt.Fprintf(&config, "    \"%s:443\": %s\n", bulkHost, b.at.Plain)
	fmt.Fprintf(&config, "    \"%s:80\": %s\n", busyHost, b.at.Plain)
	for i := range b.fresh {
		fmt.Fprintf(&config, "    \""+freshHost+":443\": %s\n", i, b.at.Secure)
	}
	config.WriteString(sections)
	file := data + ".yaml"
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	p := process.New("abide", b.abide, "serve", "--config", file).On(b.cores.proxy)
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	roots := data + "-ca.pem"
	err = errors.Join(p.Listens(ctx, at), p.Listens(ctx, admin))
	if err == nil && intercept {
		err = fetchCA(ctx, admin, roots)
	}
	if err != nil {
		p.Stop()
		return nil, err
	}
	w := proxied(p, at, roots)
	w.admin = admin
	return w, nil
}

// fetchCA saves what the admin listener serves as abide's CA.
func fetchCA(ctx context.Context, admin, file string) error {
	text, err := fetch(ctx, "http://"+admin+"/ca.pem")
	if err != nil {
		return fmt.Errorf("fetching abide's CA: %w", err)
	}
	return os.WriteFile(file, text, 0o644)
}

// fetch asks the admin listener.
func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy of the environment
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return text, err
}
