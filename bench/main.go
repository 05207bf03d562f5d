// Command bench measures abide beside its peers, in one run and in turns, and
// writes what it found to bench/RESULTS.md:
//
//	go -C bench run .                          # everything, some minutes
//	go -C bench run . -only plain,held -rounds 7
//	go -C bench run . -quick                   # a few seconds: does the bench work?
//
// It starts the real abide, a bare goproxy, squid, tinyproxy and nginx on
// loopback, each alone on one core, and a generator and an origin of its own
// on the rest. It reads Linux's /proc.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

func main() {
	var err error
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		err = play(roles[os.Args[1]])
	} else {
		err = runBench()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	quick  bool
	only   string
	with   string
	rounds int
	abide  string
	out    string
}

func runBench() error {
	var s settings
	flag.BoolVar(&s.quick, "quick", false, "a few seconds, to see that everything works; writes a file only with -out")
	flag.StringVar(&s.only, "only", "", "comma-separated beginnings of scenario names; writes a file only with -out")
	flag.StringVar(&s.with, "with", "", "comma-separated peers; all that are installed by default")
	flag.IntVar(&s.rounds, "rounds", 0, "interleaved rounds (5, with -quick 1)")
	flag.StringVar(&s.abide, "abide", "", "a built binary; by default ./cmd/abide is built")
	flag.StringVar(&s.out, "out", "", "where the report goes (bench/RESULTS.md for a whole run)")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is not understood; see -help", flag.Arg(0))
	}
	if s.rounds < 0 {
		return fmt.Errorf("-rounds %d: must be at least 1", s.rounds)
	}
	if s.rounds == 0 {
		s.rounds = 5
		if s.quick {
			s.rounds = 1
		}
	}
	patience := time.Hour
	if s.quick {
		patience = 3 * time.Minute
	}
	return process.Run(patience, s.run)
}

// run is the program.
func (s settings) run(ctx context.Context) error {
	picked, err := chosen(s.only)
	if err != nil {
		return err
	}
	root, err := process.RepositoryRoot(ctx)
	if err != nil {
		return err
	}
	b, err := newBed(ctx, findCores())
	if err != nil {
		return err
	}
	defer b.close()
	loose, err := newBed(ctx, b.cores.loose())
	if err != nil {
		return err
	}
	defer loose.close()
	rep := &report{When: time.Now(), Machine: machineFacts(b.cores), Pinned: b.cores.proxy != "", Pace: paceFor(s.quick, s.rounds), Quick: s.quick}
	b.fresh = rep.Pace.freshHosts()
	taking, err := s.gather(ctx, b, root, rep)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
	for _, one := range picked {
		some := slices.DeleteFunc(slices.Clone(taking), func(p peer) bool { return !slices.Contains(one.peers, p.name) })
		on := b
		if one.loose {
			on, loose.abide, loose.fresh = loose, b.abide, b.fresh
		}
		r, err := on.measure(ctx, one, some, rep.Pace, say)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		rep.Results = append(rep.Results, r)
	}
	text := rep.markdown()
	fmt.Print(text)
	if s.out == "" && !s.quick && s.only == "" && s.with == "" {
		s.out = filepath.Join(root, "bench", "RESULTS.md")
	}
	if s.out != "" {
		if err := os.WriteFile(s.out, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	for _, r := range rep.Results {
		for _, one := range r.Series {
			if strings.HasPrefix(one.Peer, "abide") && one.Fault != "" {
				return fmt.Errorf("%s failed in %s: %s", one.Peer, r.name, one.Fault)
			}
		}
	}
	return nil
}

// gather finds the peers that take part and notes those that cannot.
func (s settings) gather(ctx context.Context, b *bed, root string, rep *report) ([]peer, error) {
	var names []string
	if s.with != "" {
		names = strings.Split(s.with, ",")
	}
	for _, name := range names {
		if !slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) {
			return nil, fmt.Errorf("-with: no peer is called %q", name)
		}
	}
	var taking []peer
	for _, p := range peers {
		// Latency is what is added to direct, so that always takes part.
		if names != nil && !slices.Contains(names, p.name) && p.name != "direct" {
			continue
		}
		if strings.HasPrefix(p.name, "abide") && b.abide == "" {
			b.abide = s.abide
			if b.abide == "" {
				if err := buildAbide(ctx, b, root); err != nil {
					return nil, err
				}
			}
		}
		version, err := p.version(b)
		if err != nil {
			rep.Absent = append(rep.Absent, err.Error())
			continue
		}
		if version != "" {
			rep.Versions = append(rep.Versions, p.name+" "+version)
		}
		taking = append(taking, p)
	}
	return taking, nil
}
