package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/abide-proxy/abide/bench/process"
)

// startMitmproxy runs mitmdump without output. It has no names of its own, so
// the origin is named by address.
func startMitmproxy(ctx context.Context, b *bed, _ bool) (*way, error) {
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(b.dir, "mitmproxy-")
	if err != nil {
		return nil, err
	}
	p, err := startDaemon(ctx, b, "mitmdump", at, "--quiet",
		"--listen-host", "127.0.0.1", "--listen-port", port,
		"--set", "confdir="+data,
		"--set", "ssl_verify_upstream_trusted_ca="+b.originCA.CertFile)
	if err != nil {
		return nil, fmt.Errorf("mitmproxy: %w", err)
	}
	return &way{
		Process: p,
		plain:   route{plain, at, b.at.Plain, ""},
		secure:  route{connect, at, b.at.Secure, data + "/mitmproxy-ca-cert.pem"},
	}, nil
}
