//go:build linux

// Command fleet shows how abides share budgets on a real Redis, and what becomes of
// that when something fails, and writes what it found to bench/FLEET.md:
//
//	go -C bench run ./fleet                        # everything, half an hour
//	go -C bench run ./fleet -only faults,slow
//	go -C bench run ./fleet -quick                 # three minutes: does it work?
//
// It starts its own redis-servers, abides and, where a network has to be slow or
// change its ways, toxiproxy, all on loopback, and an origin of its own that counts.
// It reads Linux's /proc.
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
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	quick   bool
	only    string
	abide   string
	out     string
	verbose bool
}

func run() error {
	var s settings
	flag.BoolVar(&s.quick, "quick", false, "small sizes, to see that everything works; writes a file only with -out")
	flag.StringVar(&s.only, "only", "", "comma-separated: processes, bodies, virtual, starts, faults, or words of a row, as \"16 rolling\" or SIGSTOP; writes a file only with -out")
	flag.StringVar(&s.abide, "abide", "", "a built binary; by default ./cmd/abide is built")
	flag.StringVar(&s.out, "out", "", "where the report goes (bench/FLEET.md for a whole run)")
	flag.BoolVar(&s.verbose, "v", false, "print what abides say")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is not understood; see -help", flag.Arg(0))
	}
	return process.Run(2*time.Hour, s.run)
}

// wants tells whether a part is chosen.
func (s settings) wants(part string) bool {
	if s.only == "" {
		return true
	}
	for word := range strings.SplitSeq(s.only, ",") {
		if strings.Contains(part, strings.TrimSpace(word)) {
			return true
		}
	}
	return false
}

func (s settings) run(ctx context.Context) (err error) {
	root, err := process.RepositoryRoot(ctx)
	if err != nil {
		return err
	}
	b, err := newBed(ctx, root, s.abide)
	if err != nil {
		return err
	}
	defer func() {
		if wrong := b.close(); err == nil {
			err = wrong
		}
	}()
	b.verbose = s.verbose
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "fleet: "+format+"\n", args...)
	}
	rep := report{When: time.Now(), Quick: s.quick}
	if rep.Shares, err = b.shares(ctx, s.quick, s.wants, say); err != nil {
		return err
	}
	if !s.quick {
		if rep.Bodies, err = b.allBodies(ctx, s.quick, s.wants, say); err != nil {
			return err
		}
	}
	if !s.quick {
		if rep.Announced, err = b.announces(ctx, s.wants, say); err != nil {
			return err
		}
	}
	if s.wants("virtual") {
		if rep.Virtual, err = b.virtual(ctx, s.quick, say); err != nil {
			return err
		}
	}
	if s.wants("starts") {
		if rep.Starts, err = b.starts(ctx, say); err != nil {
			return err
		}
	}
	for _, f := range faults {
		if !s.wants("faults, "+f.name) || s.quick && s.only == "" && !f.smoke {
			continue
		}
		list, err := b.suffer(ctx, f, s.quick, say)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		rep.Faults = append(rep.Faults, list...)
	}
	text := rep.markdown()
	fmt.Print(text)
	if s.out == "" && !s.quick && s.only == "" {
		s.out = filepath.Join(root, "bench", "FLEET.md")
	}
	if s.out != "" {
		if err := os.WriteFile(s.out, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}
