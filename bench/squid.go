package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/abide-proxy/abide/bench/process"
)

// startSquid runs squid as Debian ships it, its access rules included, in one
// process, with the cache and the access log off.
func startSquid(ctx context.Context, b *bed, _ bool) (*way, error) {
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(b.at.Plain)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`http_port %s
acl SSL_ports port %s
cache deny all
access_log none
cache_log /dev/null
cache_store_log none
pid_filename none
hosts_file %s
visible_hostname bench.test
shutdown_lifetime 0 seconds
pinger_enable off
icp_port 0
netdb_filename none
coredump_dir none
`, at, port, b.file("hosts")) + shippedSquid()
	if err := os.WriteFile(b.file("hosts"), []byte(host+" "+siteHost+"\n"), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(b.file("squid.conf"), []byte(config), 0o644); err != nil {
		return nil, err
	}
	p, err := startDaemon(ctx, b, "squid", at, "-N", "-f", b.file("squid.conf"))
	if err != nil {
		return nil, err
	}
	// It maps names but not ports.
	name := net.JoinHostPort(siteHost, port)
	return &way{
		Process: p,
		plain:   route{plain, at, name, ""},
		tunnel:  route{connect, at, name, ""},
	}, nil
}

// shippedSquid is the packaged configuration without what the bench sets, or a
// rule that lets the generator in where there is none.
func shippedSquid() string {
	text, err := os.ReadFile("/etc/squid/squid.conf")
	if err != nil {
		return "http_access allow all\n"
	}
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		word, _, _ := strings.Cut(line, " ")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") && word != "http_port" && word != "coredump_dir" {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
