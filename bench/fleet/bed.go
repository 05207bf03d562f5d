//go:build linux

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/abide-proxy/abide/bench/process"
)

// bed is where a measurement takes place: a directory, and processes that end with it.
type bed struct {
	root      string // of the module
	dir       string
	abide     string // the binary
	toxiproxy string // the binary; empty: not built yet
	verbose   bool
	brief     bool // leaves out what has no right and wrong

	processes []*process.Process
	origins   []*origin
	closers   []func()
}

// newBed builds abide, unless there is one already.
func newBed(ctx context.Context, root, abide string) (*bed, error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return nil, err
	}
	b := &bed{root: root, dir: dir, abide: abide}
	if b.abide == "" {
		b.abide = filepath.Join(dir, "abide")
		if err := process.Build(ctx, root, b.abide, "./cmd/abide"); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

// run starts a process that ends with the bed at the latest.
func (b *bed) run(ctx context.Context, p *process.Process, listens string) error {
	b.processes = append(b.processes, p)
	return p.StartAt(ctx, listens)
}

// clear ends all that runs.
func (b *bed) clear() {
	for _, p := range b.processes {
		p.Kill()
	}
	for _, o := range b.origins {
		o.close()
	}
	for _, end := range b.closers {
		end()
	}
	b.processes, b.origins, b.closers = nil, nil, nil
}

func (b *bed) close() error {
	b.clear()
	return os.RemoveAll(b.dir)
}

// redisAt starts a redis-server that keeps nothing on disk.
func (b *bed) redisAt(ctx context.Context) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no redis-server in $PATH: tools/setup installs it")
	}
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(at)
	p := process.New("redis-server", path, "--port", port, "--bind", "127.0.0.1", "--dir", b.dir, "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0", "--repl-diskless-load", "on-empty-db")
	r := &redisServer{Process: p, at: at}
	if err := b.run(ctx, p, at); err != nil {
		return nil, err
	}
	return r, nil
}
