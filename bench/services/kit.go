package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// kit is a run of the kit: kinds of services in real time, crawled through the built binary and
// beside it.
type kit struct {
	abide   string
	clients []int
	kinds   []*kitKind
	longest time.Duration // of the crawls of one number of clients
	keep    string        // a folder for what abide says of crawls that are out of bounds; "": none
}

// kitKinds are all kinds.
func kitKinds() []*kitKind { return append(slices.Clone(kitHidden), kitAnnounced...) }

// trial is a crawl of a kind by some clients, through abide and beside it.
type trial struct {
	kind         *kitKind
	clients      int
	abide, retry *outcome
	ideal        time.Duration
	late         float64 // part of the time of all crawls with so many clients for which the machine was busy
}

// runKit reads the command line of the kit.
func runKit(args []string) error {
	flags := flag.NewFlagSet("services kit", flag.ExitOnError)
	only := flags.String("only", "", "comma-separated `names` of kinds; all by default")
	clients := flags.Int("clients", 0, "`number` of clients; 1, 8 and 32 by default")
	out := flags.String("out", "", "`file` for the table (bench/KIT.md for a whole run)")
	simulated := flags.Int("virtual", 0, "`times` that each crawl is simulated in virtual time, in place of real time; with -keep each crawl is printed")
	k := &kit{clients: []int{1, 8, 32}}
	flags.StringVar(&k.abide, "abide", "", "a built `binary`; by default ./cmd/abide is built")
	flags.DurationVar(&k.longest, "longest", 170*time.Second, "`time` after which the crawls of one number of clients are cut")
	flags.StringVar(&k.keep, "keep", "", "`folder` for what abide says of crawls that are out of bounds")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *clients > 0 {
		k.clients = []int{*clients}
	}
	for _, kind := range kitKinds() {
		if *only == "" || slices.Contains(strings.Split(*only, ","), kind.name) {
			k.kinds = append(k.kinds, kind)
		}
	}
	if len(k.kinds) == 0 || flags.NArg() > 0 {
		return errors.New("kit: there is no such kind; -only has names of the table in bench/KIT.md")
	}
	if *simulated > 0 {
		return k.simulate(*simulated)
	}
	return process.Run(10*time.Minute, func(ctx context.Context) error {
		root, err := process.RepositoryRoot(ctx)
		if err != nil {
			return err
		}
		if *out == "" && *only == "" && *clients == 0 {
			*out = filepath.Join(root, "bench", "KIT.md")
		}
		trials, err := k.run(ctx, root)
		if err != nil {
			return err
		}
		text := kitReport(trials)
		fmt.Print(text)
		if *out == "" {
			return nil
		}
		return os.WriteFile(*out, []byte(text), 0o644)
	})
}

// run crawls with each number of clients, one after the other.
func (k *kit) run(ctx context.Context, root string) (trials []*trial, err error) {
	dir, err := os.MkdirTemp("", "abide-kit-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if k.abide == "" {
		k.abide = filepath.Join(dir, "abide")
		if err := process.Build(ctx, root, k.abide, "./cmd/abide"); err != nil {
			return nil, err
		}
	}
	if k.abide, err = filepath.Abs(k.abide); err != nil {
		return nil, err
	}
	for _, n := range k.clients {
		fmt.Fprintf(os.Stderr, "kit: %d kinds, %d clients\n", len(k.kinds), n)
		some, err := k.wave(ctx, filepath.Join(dir, fmt.Sprint(n)), n)
		if err != nil {
			return nil, err
		}
		trials = append(trials, some...)
	}
	return trials, nil
}

// stagger is the time between the starts of two kinds: their handshakes are work for the machine.
const stagger = 150 * time.Millisecond

// wave crawls all kinds at once, through one abide with a data directory of its own.
func (k *kit) wave(ctx context.Context, dir string, clients int) ([]*trial, error) {
	ctx, cancel := context.WithTimeout(ctx, k.longest)
	defer cancel()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// What serves outlives the crawls.
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	origin, err := newKitOrigin(serving, filepath.Join(dir, "origin.pem"))
	if err != nil {
		return nil, err
	}
	a, err := k.start(serving, dir, origin)
	if err != nil {
		return nil, err
	}
	defer a.Stop()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	lateness := make(chan float64, 1)
	go func() { lateness <- watch(watching) }()
	var running sync.WaitGroup
	trials := make([]*trial, len(k.kinds))
	for i, kind := range k.kinds {
		kind := kind.sized(clients)
		c := &trial{kind: kind, clients: clients}
		trials[i] = c
		running.Go(func() {
			ask, idle := crawler(kind, a.open, a.roots)
			defer idle()
			c.abide = crawlReal(ctx, clients, origin.serve(kind.through(), kind), ask)
			c.ideal = kind.ideal(clients, c.abide.began)
			k.note(serving, c, a)
		})
		running.Go(func() {
			ask, idle := retrier(kind, origin)
			defer idle()
			c.retry = crawlReal(ctx, clients, origin.serve(kind.name+retryDomain, kind), ask)
		})
		if err := process.Pause(ctx, stagger); err != nil {
			break
		}
	}
	running.Wait()
	stop()
	late := <-lateness
	for _, c := range trials {
		c.late = late
	}
	if !a.Alive() {
		return nil, fmt.Errorf("abide ended%s", a.Said)
	}
	return trials, nil
}

// sized is the kind with the requests of so many clients.
func (k *kitKind) sized(clients int) *kitKind {
	sized := *k
	sized.latency = cmp.Or(k.latency, quick)
	if k.pages > 0 {
		sized.requests = min(k.requests, k.pages*clients)
	}
	return &sized
}

// ideal is the time that clients need which know the limits.
func (k *kitKind) ideal(clients int, began time.Time) time.Duration {
	r := newRunAt(&k.service, setting{clients: clients, tokens: max(k.tokens, 1)}, began)
	if k.pausing {
		return r.pausing().took
	}
	return r.ideal()
}

// kitAbide is the program that is tried.
type kitAbide struct {
	*process.Process
	open  string // where it opens all https
	admin string
	roots *x509.CertPool
}

// start starts abide with its defaults, and with addresses and pools of services.
func (k *kit) start(ctx context.Context, dir string, o *kitOrigin) (*kitAbide, error) {
	at, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	a := &kitAbide{roots: x509.NewCertPool()}
	if a.admin, err = process.FreeAddress(); err != nil {
		return nil, err
	}
	var port int
	if _, err := fmt.Sscanf(at, "127.0.0.1:%d", &port); err != nil {
		return nil, err
	}
	a.open = fmt.Sprintf("127.0.0.1:%d", port+1)
	data := filepath.Join(dir, "data")
	var resolve, pools, sites strings.Builder
	for _, kind := range k.kinds {
		fmt.Fprintf(&resolve, "    \"%[1]s:80\": %[2]s\n    \"%[1]s:443\": %[3]s\n", kind.through(), o.plain, o.secure)
		if kind.tokens == 0 {
			continue
		}
		fmt.Fprintf(&pools, "  %s:\n    tokens:\n", kind.name)
		for i := range kind.tokens {
			fmt.Fprintf(&pools, "      - {label: number %d, secret: t%d}\n", i, i)
		}
		fmt.Fprintf(&sites, "  - {host: %s, pool: %s}\n", kind.through(), kind.name)
	}
	config := fmt.Sprintf("listen: %s\nadmin: {listen: %s}\ndata: %s\negress:\n  roots: %s\n  resolve:\n%s", at, a.admin, data, o.roots, &resolve)
	if pools.Len() > 0 {
		config += fmt.Sprintf("pools:\n%ssites:\n%s", &pools, &sites)
	}
	file := filepath.Join(dir, "abide.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	a.Process = process.New("abide", k.abide, "serve", "--config", file)
	a.Prepare = func(cmd *exec.Cmd) error {
		cmd.Dir = dir
		return nil
	}
	if err := a.StartAt(ctx, a.open); err != nil {
		return nil, err
	}
	if err := a.trust(ctx, filepath.Join(data, "ca", "ca.pem")); err != nil {
		a.Stop()
		return nil, err
	}
	return a, nil
}

// trust waits until abide is ready, and reads its CA.
func (a *kitAbide) trust(ctx context.Context, file string) error {
	if err := a.Listens(ctx, a.admin); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		text, err := os.ReadFile(file)
		if err == nil && a.roots.AppendCertsFromPEM(text) {
			return nil
		}
		if tries == 100 {
			return fmt.Errorf("reading the CA of abide: %w%s", err, a.Said)
		}
		if err := process.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// note keeps what abide says of a crawl that is out of bounds.
func (k *kit) note(ctx context.Context, c *trial, a *kitAbide) {
	if k.keep == "" || len(c.limits(c.abide)) == 0 {
		return
	}
	scheme := map[bool]string{false: "http://", true: "https://"}[c.kind.tls]
	text := fmt.Sprintf("%s, %d clients: %v\n%s\n\n", c.kind.name, c.clients, c.limits(c.abide), c.abide.failed)
	url := scheme + c.kind.through() + c.kind.path(1)
	for _, args := range [][]string{{"explain", url}, {"explain", "--json", url}, {"status"}} {
		cmd := exec.CommandContext(ctx, k.abide, append(args, "--admin", a.admin)...)
		said, _ := cmd.CombinedOutput() // what it says if it fails is kept, too
		text += "$ abide " + strings.Join(args, " ") + "\n" + string(said) + "\n"
	}
	text += "$ log\n"
	for line := range strings.Lines(a.Said.End()) {
		if strings.Contains(line, c.kind.through()) {
			text += line
		}
	}
	_ = os.MkdirAll(k.keep, 0o755) // a fault shows in the next line
	if err := os.WriteFile(filepath.Join(k.keep, fmt.Sprintf("%s-%d.txt", c.kind.name, c.clients)), []byte(text), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "kit:", err)
	}
}

// watch returns for which part of the time until the context ends a sleeper is woken too late.
func watch(ctx context.Context) float64 {
	const nap, tooLate = 5 * time.Millisecond, 25 * time.Millisecond
	began, late := time.Now(), time.Duration(0)
	for at := began; ctx.Err() == nil; at = time.Now() {
		if process.Pause(ctx, nap) != nil {
			break
		}
		if took := time.Since(at); took > tooLate {
			late += took
		}
	}
	return late.Seconds() / max(time.Since(began).Seconds(), 1e-9)
}
