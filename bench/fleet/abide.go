//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// member is one abide of a fleet.
type member struct {
	*process.Process
	at, admin string
	client    *http.Transport

	mu  sync.Mutex
	out chan struct{} // closed while it is known to be away, as a balancer would know
}

// rule is a site of the configuration.
type rule struct {
	*origin
	limit  string
	outage string // empty: the usual one
	tokens int    // so many go with the requests, and nothing is written of their limits
}

// memberAt starts an abide. An empty store is one in memory.
func (b *bed) memberAt(ctx context.Context, store string, rules []rule) (*member, error) {
	m, err := b.prepare(store, rules)
	if err != nil {
		return nil, err
	}
	return m, b.run(ctx, m.Process, m.at)
}

// prepare writes its configuration.
func (b *bed) prepare(store string, rules []rule) (*member, error) {
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	intercept := "none"
	for _, r := range rules {
		if r.tokens > 0 {
			intercept = "auto"
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "listen: %s\nadmin: {listen: %s}\ndata: none\nintercept: %s\ndefaults: {limits: []}\ntimeouts: {drain: 1s}\n", at, admin, intercept)
	if store != "" {
		fmt.Fprintf(&text, "store: %q\n", store)
	}
	text.WriteString("egress:\n  resolve:\n")
	for _, r := range rules {
		fmt.Fprintf(&text, "    \"%s:80\": %s\n", r.host, r.at)
	}
	for _, r := range rules {
		for n := range r.tokens {
			if n == 0 {
				fmt.Fprintf(&text, "pools:\n  bench:\n    tokens:\n")
			}
			fmt.Fprintf(&text, "      - {label: token-%d, secret: secret-of-token-%d}\n", n, n)
		}
	}
	text.WriteString("sites:\n")
	for _, r := range rules {
		fmt.Fprintf(&text, "  - host: %s\n", r.host)
		if r.tokens > 0 {
			text.WriteString("    pool: bench\n    insecure: true\n")
			continue
		}
		fmt.Fprintf(&text, "    limits: [%s]\n", r.limit)
		if r.outage != "" {
			fmt.Fprintf(&text, "    outage: %s\n", r.outage)
		}
	}
	file := filepath.Join(b.dir, "abide-"+strings.ReplaceAll(at, ":", "-")+".yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	m := &member{Process: process.New("abide", b.abide, "serve", "--config", file), at: at, admin: admin, out: make(chan struct{})}
	m.client = &http.Transport{
		Proxy:               http.ProxyURL(&url.URL{Scheme: "http", Host: at}),
		MaxIdleConnsPerHost: 64,
	}
	return m, nil
}

// leave has the crowds go elsewhere, until back.
func (m *member) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.out)
}

func (m *member) back() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out = make(chan struct{})
}

func (m *member) outed() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out
}

func (m *member) away() bool {
	select {
	case <-m.outed():
		return true
	default:
		return false
	}
}

// well tells whether it runs and answers.
func (m *member) well(ctx context.Context) bool {
	_, err := m.asks(ctx, "/healthz")
	return m.Alive() && err == nil
}

func (m *member) asks(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.admin+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return string(text), err
}

// pulses is how often it has told the store that it is there.
func (m *member) pulses(ctx context.Context) int64 {
	text, err := m.asks(ctx, "/metrics")
	if err != nil {
		return 0
	}
	total := 0.0
	for line := range strings.Lines(text) {
		if strings.Contains(line, "store_operations_total{") && strings.Contains(line, `"pulse"`) {
			var n float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n); err == nil {
				total += n
			}
		}
	}
	return int64(total)
}
