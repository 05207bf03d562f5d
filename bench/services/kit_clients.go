package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

const (
	kitDomain   = ".kit.test"   // hosts that are crawled through abide
	retryDomain = ".retry.test" // hosts that are crawled directly

	blockedToken = "Bearer blocked"
	usualToken   = "Bearer mine"

	quick    = 20 * time.Millisecond // time of an answer, if the kind has no other
	patience = time.Minute           // how long clients wait for one
)

// outcome is what became of a crawl.
type outcome struct {
	began   time.Time
	took    time.Duration
	served  int // by the service, as below
	refused int
	errors  int
	failed  string // the first error
	cut     bool   // it was not over in time
}

// ratio is its time in ideal times.
func (o *outcome) ratio(ideal time.Duration) float64 { return o.took.Seconds() / ideal.Seconds() }

// crawlReal has clients ask for one page after the other.
func crawlReal(ctx context.Context, clients int, i *instance, ask func(ctx context.Context, n int) error) *outcome {
	o := &outcome{began: time.Now()}
	var next, done atomic.Int64
	var mu sync.Mutex
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= i.kind.requests {
					return
				}
				err := ask(ctx, n)
				if ctx.Err() != nil {
					return
				}
				done.Add(1)
				if err != nil {
					mu.Lock()
					if o.errors++; o.failed == "" {
						o.failed = fmt.Sprintf("page %d after %.1f s: %v", n, time.Since(o.began).Seconds(), err)
					}
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	o.took = time.Since(o.began)
	o.served, o.refused = i.counts()
	if rest := i.kind.requests - int(done.Load()); rest > 0 {
		o.cut, o.errors = true, o.errors+rest
		if o.failed == "" {
			o.failed = fmt.Sprintf("%d pages were left when the time was over", rest)
		}
	}
	return o
}

// fetch asks for a page, and reads the answer to its end.
func fetch(ctx context.Context, client *http.Client, host string, k *kitKind, n int, token string) (status int, h http.Header, err error) {
	scheme := "http://"
	if k.tls {
		scheme = "https://"
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+host+k.path(n), nil)
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set(numberHeader, fmt.Sprint(n))
	if token != "" {
		q.Header.Set("Authorization", token)
	}
	resp, err := client.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, resp.Header, nil
}

// crawler asks through abide, once for each page.
func crawler(k *kitKind, proxy string, roots *x509.CertPool) (ask func(ctx context.Context, n int) error, end func()) {
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	client := &http.Client{Transport: transport, Timeout: patience}
	token := ""
	if k.blocked {
		token = usualToken
	}
	return func(ctx context.Context, n int) error {
		if k.blocked && n == 0 {
			go func() { _, _, _ = fetch(ctx, client, k.through(), k, n, blockedToken) }() // ends with its time-out
		}
		status, h, err := fetch(ctx, client, k.through(), k, n, token)
		if err == nil && (status != http.StatusOK || h.Get(refusedHeader) != "") {
			err = fmt.Errorf("status %d, Abide-Error %q", status, h.Get("Abide-Error"))
		}
		return err
	}, transport.CloseIdleConnections
}

// retrier asks as clients with urllib3's Retry(total=8, backoff_factor=0.5,
// status_forcelist=[429, 500, 502, 503, 504]) do.
func retrier(k *kitKind, o *kitOrigin) (ask func(ctx context.Context, n int) error, end func()) {
	const total, longestBackoff = 8, 120 * time.Second
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, o.address(k))
		},
		// Go itself repeats a request for which a kept connection is closed.
		DisableKeepAlives: k.closes, MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: o.pool, MinVersion: tls.VersionTLS12},
	}
	client := &http.Client{Transport: transport, Timeout: patience}
	return func(ctx context.Context, n int) error {
		for failed := 0; ; failed++ {
			token := usualToken
			if k.tokens > 0 {
				token = fmt.Sprintf("Bearer t%d", (n+failed)%k.tokens)
			}
			status, h, err := fetch(ctx, client, k.name+retryDomain, k, n, token)
			switch {
			case err == nil && status == http.StatusOK && h.Get(refusedHeader) == "":
				return nil
			case err == nil && status != 429 && (status < 500 || status == 501 || status > 504):
				return fmt.Errorf("status %d", status)
			case failed >= total:
				return errors.Join(fmt.Errorf("status %d after %d attempts", status, failed+1), err)
			}
			wait := time.Duration(0)
			if failed > 0 {
				wait = min(time.Second/2<<failed, longestBackoff)
			}
			if after, ok := retryAfter(h, time.Now()); err == nil && ok && (status == 429 || status == 503) {
				wait = after
			}
			if err := process.Pause(ctx, wait); err != nil {
				return err
			}
		}
	}, transport.CloseIdleConnections
}
