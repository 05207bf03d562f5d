package main

import (
	"context"
	"path/filepath"
	"runtime/debug"

	"github.com/abide-proxy/abide/bench/process"
)

// route is how the generator reaches the origin for one kind of request.
type route struct {
	Way, Dial, Authority, Roots string
}

// job starts a job on this route.
func (r route) job() job {
	return job{Way: r.Way, Dial: r.Dial, Authority: r.Authority, Roots: r.Roots}
}

// way is a peer that is running, and its routes; it has those that its
// scenarios need.
type way struct {
	*process.Process                  // nil when nothing stands between generator and origin
	admin            string           // where abide tells about itself
	beside           *process.Process // what it needs

	plain  route // cleartext requests
	tunnel route // a tunnel, cleartext inside
	secure route // TLS, opened on the way
	fresh  route // the same for hosts never seen before
}

// stop ends the process, and what it needs after it.
func (w *way) stop() {
	w.Stop()
	if w.beside != nil {
		w.beside.Stop()
	}
}

// peer is something to compare.
type peer struct {
	name    string
	version func(*bed) (string, error) // an error says why it takes no part
	start   func(ctx context.Context, b *bed, intercept bool) (*way, error)
}

// Abide with limits of which none binds: of every kind; of requests in flight; such as a store keeps, with
// none, with its own file and with Redis; and of bytes.
const (
	withLimits  = "abide+limits"
	withFlight  = "abide+concurrency"
	withWindows = "abide+windows"
	withFile    = "abide+windows+file"
	withRedis   = "abide+windows+redis"
	withBytes   = "abide+bytes"
)

// peers in the order in which each round takes them.
var peers = []peer{
	{"direct", func(*bed) (string, error) { return "", nil }, startDirect},
	{"abide", abideVersion, startAbideWith("")},
	{withLimits, abideVersion, startAbideWith(slackLimits)},
	{withFlight, abideVersion, startAbideWith(slackConcurrency)},
	{withWindows, abideVersion, startAbideWith(keepsNothing + slackWindows)},
	{withFile, abideVersion, startAbideWith(slackWindows)},
	{withRedis, versionOf("redis-server", "--version"), startAbideWithRedis},
	{withBytes, abideVersion, startAbideWith(slackBytes)},
	{"goproxy", goproxyVersion, startGoproxy(0)},
	// As it comes its transport keeps two idle connections for a host and opens
	// new ones all the time under many clients: one line, which every serious
	// user changes, and the fairer thing to be compared with.
	{"goproxy+pool", func(*bed) (string, error) { return "", nil }, startGoproxy(256)},
	{"squid", versionOf("squid", "-v"), startSquid},
	{"tinyproxy", versionOf("tinyproxy", "-v"), startTinyproxy},
	{"nginx", versionOf("nginx", "-v"), startNginx},
	{"mitmproxy", versionOf("mitmdump", "--version"), startMitmproxy},
	{"splice", func(*bed) (string, error) { return "", nil }, startSplice},
}

func versionOf(name, flag string) func(*bed) (string, error) {
	return func(*bed) (string, error) {
		path, err := findProgram(name)
		if err != nil {
			return "", err
		}
		return programVersion(path, flag), nil
	}
}

func startDirect(_ context.Context, b *bed, _ bool) (*way, error) {
	return &way{
		plain:  route{direct, b.at.Plain, siteHost + ":80", ""},
		tunnel: route{direct, b.at.Plain, bulkHost + ":443", ""},
		secure: route{direct, b.at.Secure, siteHost + ":443", b.originCA.CertFile},
		fresh:  route{direct, b.at.Secure, freshHost + ":443", b.originCA.CertFile},
	}, nil
}

func startSplice(ctx context.Context, b *bed, _ bool) (*way, error) {
	var at listening
	c, err := startChild(ctx, "splice", b.cores.proxy, spliceOrders{b.at.Plain}, &at)
	if err != nil {
		return nil, err
	}
	return &way{Process: c.Process, tunnel: route{direct, at.Address, bulkHost + ":443", ""}}, nil
}

func goproxyVersion(*bed) (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/elazarl/goproxy" {
				return dep.Version, nil
			}
		}
	}
	return "of unknown version", nil
}

// startGoproxy keeps so many idle connections for a host; 0 is as it comes.
func startGoproxy(idle int) func(context.Context, *bed, bool) (*way, error) {
	return func(ctx context.Context, b *bed, intercept bool) (*way, error) {
		var at listening
		c, err := startChild(ctx, "goproxy", b.cores.proxy, goproxyOrders{
			Plain: b.at.Plain, Secure: b.at.Secure, Intercept: intercept, Idle: idle,
			Certificate: b.goproxyCA.CertFile, Key: b.goproxyCA.KeyFile, Roots: b.originCA.CertFile,
		}, &at)
		if err != nil {
			return nil, err
		}
		return proxied(c.Process, at.Address, b.goproxyCA.CertFile), nil
	}
}

// proxied are the routes through a proxy that maps the bench's names to the
// origin and signs with the CA in roots.
func proxied(p *process.Process, at, roots string) *way {
	return &way{
		Process: p,
		plain:   route{plain, at, siteHost + ":80", ""},
		tunnel:  route{connect, at, bulkHost + ":443", ""},
		secure:  route{connect, at, siteHost + ":443", roots},
		fresh:   route{connect, at, freshHost + ":443", roots},
	}
}

// startDaemon starts a program of the system that listens on address.
func startDaemon(ctx context.Context, b *bed, name, address string, args ...string) (*process.Process, error) {
	path, err := findProgram(name)
	if err != nil {
		return nil, err
	}
	p := process.New(name, append([]string{path}, args...)...).On(b.cores.proxy)
	if err := p.StartAt(ctx, address); err != nil {
		return nil, err
	}
	return p, nil
}

// file is a path in the bed's directory.
func (b *bed) file(name string) string { return filepath.Join(b.dir, name) }
