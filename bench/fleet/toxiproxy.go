//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// toxiproxy stands between abide and Redis, for networks that are slow and addresses
// that lead somewhere else from one moment to the next.
type toxiproxy struct {
	*process.Process
	admin string
	at    string
}

// toxicAt starts one that leads to a server.
func (b *bed) toxicAt(ctx context.Context, to *redisServer) (*toxiproxy, error) {
	if b.toxiproxy == "" {
		file := filepath.Join(b.dir, "toxiproxy")
		if err := process.Build(ctx, b.root, file, "-modfile=tools/go.mod", "github.com/Shopify/toxiproxy/v2/cmd/server"); err != nil {
			return nil, err
		}
		b.toxiproxy = file
	}
	admin, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(admin)
	t := &toxiproxy{Process: process.New("toxiproxy", b.toxiproxy, "-host", "127.0.0.1", "-port", port), admin: admin, at: at}
	if err := b.run(ctx, t.Process, admin); err != nil {
		return nil, err
	}
	return t, t.say(ctx, http.MethodPost, "/proxies", map[string]any{"name": "store", "listen": at, "upstream": to.at, "enabled": true})
}

// lead has it lead to another server; connections to the one before end.
func (t *toxiproxy) lead(ctx context.Context, to *redisServer) error {
	return t.say(ctx, http.MethodPost, "/proxies/store", map[string]any{"listen": t.at, "upstream": to.at, "enabled": true})
}

// slow delays answers.
func (t *toxiproxy) slow(ctx context.Context, by time.Duration) error {
	return t.say(ctx, http.MethodPost, "/proxies/store/toxics", map[string]any{
		"name": "slow", "type": "latency", "stream": "downstream", "attributes": map[string]any{"latency": by.Milliseconds()},
	})
}

func (t *toxiproxy) fast(ctx context.Context) error {
	return t.say(ctx, http.MethodDelete, "/proxies/store/toxics/slow", nil)
}

func (t *toxiproxy) say(ctx context.Context, method, path string, what any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var body bytes.Buffer
	if what != nil {
		if err := json.NewEncoder(&body).Encode(what); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+t.admin+path, &body)
	if err != nil {
		return err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return fmt.Errorf("toxiproxy: %w", err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	if answer.StatusCode >= 300 {
		return fmt.Errorf("toxiproxy: %s %s: %s: %s", method, path, answer.Status, text)
	}
	return nil
}
