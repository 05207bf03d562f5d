package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/abide-proxy/abide/bench/process"
)

// startTinyproxy runs tinyproxy as Debian ships it, with the log quiet and
// room for the generator's connections. It has no names of its own, so the
// origin is named by address.
func startTinyproxy(ctx context.Context, b *bed, _ bool) (*way, error) {
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`Listen %s
Port %s
Allow 127.0.0.1
MaxClients 512
Timeout 600
LogLevel Critical
LogFile "/dev/null"
`, host, port)
	if err := os.WriteFile(b.file("tinyproxy.conf"), []byte(config), 0o644); err != nil {
		return nil, err
	}
	p, err := startDaemon(ctx, b, "tinyproxy", at, "-d", "-c", b.file("tinyproxy.conf"))
	if err != nil {
		return nil, err
	}
	return &way{
		Process: p,
		plain:   route{plain, at, b.at.Plain, ""},
		tunnel:  route{connect, at, b.at.Plain, ""},
	}, nil
}
