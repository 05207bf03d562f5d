//go:build linux

// Command hosts measures what abide remembers of hosts that it has seen, with the
// built binary, its defaults and a data directory, and writes it to bench/HOSTS.md:
//
//	go -C bench run ./hosts                    # a million hosts, some minutes
//	go -C bench run ./hosts -hosts 50000 -idle 30s
//
// Each host is an address of the loopback network with an origin of its own, asked
// once. It reads Linux's /proc.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	hosts, conns int
	idle         time.Duration
	only         string
	abide, out   string
}

// usualHosts is how many hosts a whole run asks.
const usualHosts = 1_000_000

func run() error {
	var s settings
	flag.IntVar(&s.hosts, "hosts", usualHosts, "how many hosts are asked once; other numbers write a file only with -out")
	flag.IntVar(&s.conns, "conns", 64, "connections of clients at once")
	flag.DurationVar(&s.idle, "idle", 2*time.Minute, "how long abide is left alone then")
	flag.StringVar(&s.only, "only", "", "comma-separated names of kinds of hosts; all by default")
	flag.StringVar(&s.abide, "abide", "", "a built binary; by default ./cmd/abide is built")
	flag.StringVar(&s.out, "out", "", "where the report goes (bench/HOSTS.md for a whole run)")
	flag.Parse()
	if flag.NArg() > 0 || s.hosts < 1 || s.hosts > mostHosts || s.conns < 1 {
		return fmt.Errorf("not understood; see -help")
	}
	return process.Run(2*time.Hour, s.run)
}

func (s settings) run(ctx context.Context) error {
	root, err := process.RepositoryRoot(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "abide-hosts-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if s.abide == "" {
		s.abide = filepath.Join(dir, "abide")
		if err := process.Build(ctx, root, s.abide, "./cmd/abide"); err != nil {
			return err
		}
	}
	var results []result
	for _, one := range kinds {
		if s.only != "" && !strings.Contains(","+s.only+",", ","+one.name+",") {
			continue
		}
		r, err := s.measure(ctx, filepath.Join(dir, one.name), one)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		results = append(results, r)
	}
	text := markdown(time.Now(), results)
	fmt.Print(text)
	if s.out == "" && s.hosts == usualHosts && s.only == "" {
		s.out = filepath.Join(root, "bench", "HOSTS.md")
	}
	if s.out == "" {
		return nil
	}
	return os.WriteFile(s.out, []byte(text), 0o644)
}
