// Command failing measures backfills of an API of which half of the answers fail, in eight ways, beside a plain script that
// knows the API perfectly and asks again at once. The report goes to the standard output.
//
//	go -C bench run ./jobs/failing > bench/FAILING.md    # make failing
//	go -C bench run ./jobs/failing two-machines          # the runs of which the name begins so
//
// The first two runs are one abide with SQLite. The third is two abides of one job with PostgreSQL and Redis, as on two
// machines, and one of them is killed with kill -9 and started again.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/jobs/output/pgtest"
)

const (
	days    = 365
	items   = 10 // of a page
	workers = 4
	seed    = 7
	longest = 15 * time.Minute // of a run
)

// api answers GET /?day=…&page=…
type api struct {
	pages  int     // of a day
	share  float64 // that fail
	slow   float64 // that take half a second
	amount int     // in a window; 0: no limit
	window time.Duration

	mu     sync.Mutex
	random *rand.Rand
	used   map[int64]int
	asked  int
	over   int // requests that the limit has refused
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked++
	fails, slow, way := a.random.Float64() < a.share, a.random.Float64() < a.slow, a.random.IntN(8)
	refused := a.count(w.Header())
	a.mu.Unlock()
	latency := 20 * time.Millisecond
	if slow {
		latency = 500 * time.Millisecond
	}
	if clock.Sleep(r.Context(), latency) != nil {
		return
	}
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	var list []map[string]string
	for i := range items {
		list = append(list, map[string]string{"id": fmt.Sprintf("%s-%d-%d", r.URL.Query().Get("day"), page, i)})
	}
	body, _ := json.Marshal(map[string]any{"items": list, "has_more": page < a.pages})
	w.Header().Set("Content-Type", "application/json")
	switch {
	case refused:
		w.WriteHeader(http.StatusTooManyRequests)
	case !fails:
		_, _ = w.Write(body)
	case way < 5:
		w.WriteHeader([]int{500, 502, 503, 504, 429}[way])
		_, _ = w.Write([]byte(`{"error":"x"}`))
	case way == 5: // closed without an answer
		panic(http.ErrAbortHandler)
	case way == 6: // a body that is cut
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html><body>Service busy</body></html>"))
	}
}

// count counts a request, tells what is left, and reports whether the limit refuses it.
func (a *api) count(h http.Header) (refused bool) {
	if a.amount == 0 {
		return false
	}
	now := time.Now()
	n := now.UnixNano() / int64(a.window)
	a.used[n]++
	end := time.Unix(0, (n+1)*int64(a.window))
	h.Set("X-RateLimit-Limit", strconv.Itoa(a.amount))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(max(a.amount-a.used[n], 0)))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(end.Unix(), 10))
	if refused = a.used[n] > a.amount; refused {
		a.over++
		h.Set("Retry-After", strconv.Itoa(int(end.Sub(now)/time.Second)+1))
	}
	return refused
}

// aligned waits until a window begins, so that each run has the same windows.
func (a *api) aligned(ctx context.Context) error {
	if a.amount == 0 {
		return nil
	}
	return clock.Sleep(ctx, time.Until(time.Now().Truncate(a.window).Add(a.window)))
}

// bench is what the runs have in common.
type bench struct{ dir, abide string }

// backfill starts an abide in a directory of its own.
func (b *bench) backfill(ctx context.Context, name, job string, environment ...string) (*exec.Cmd, error) {
	data := filepath.Join(b.dir, name)
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, b.abide, "backfill", job)
	c.Env = append(append(os.Environ(), "ABIDE_DATA="+data, "NO_PROXY=none.invalid"), environment...)
	log, err := os.OpenFile(filepath.Join(data, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	c.Stdout, c.Stderr, c.Dir = log, log, b.dir
	err = c.Start()
	return c, errors.Join(err, log.Close())
}

// run is a row of the report.
type run struct {
	name   string
	api    api
	shared bool // two abides
}

// measure runs abide and then the script.
func (b *bench) measure(r *run) (err error) {
	r.api.random, r.api.used = rand.New(rand.NewPCG(seed, 0)), map[int64]int{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &r.api}
	go server.Serve(l)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	output, environment := filepath.Join(b.dir, r.name+".db"), []string(nil)
	if r.shared {
		database, err := pgtest.Start()
		if err != nil {
			return err
		}
		defer database.Close()
		if output, err = database.NewDatabase(); err != nil {
			return err
		}
		redis := filepath.Join(b.dir, "redis")
		server := exec.CommandContext(ctx, "redis-server", "--port", "0", "--unixsocket", redis, "--save", "")
		if err := server.Start(); err != nil {
			return err
		}
		defer func() { _ = server.Wait() }()
		defer server.Process.Kill()
		environment = []string{"ABIDE_STORE=redis+unix://" + redis}
	}
	job := filepath.Join(b.dir, r.name+".yaml")
	text := fmt.Sprintf("name: %s\nrequest: http://%s/?day={date}&page=1\nrange: {from: 2025-01-01, to: 2025-12-31}\nrecords: items\nid: id\npaginate: page\nworkers: %d\noutput: %s\n", r.name, l.Addr(), workers, output)
	if err := os.WriteFile(job, []byte(text), 0o600); err != nil {
		return err
	}
	if err := r.api.aligned(ctx); err != nil {
		return err
	}
	began := time.Now()
	first, err := b.backfill(ctx, r.name+"1", job, environment...)
	if err != nil {
		return err
	}
	threads := workers
	if r.shared {
		threads *= 2
		second, err := b.backfill(ctx, r.name+"2", job, environment...)
		if err != nil {
			return err
		}
		if err := clock.Sleep(ctx, 12*time.Second); err != nil {
			return err
		}
		_ = second.Process.Kill()
		_ = second.Wait() // killed
		if second, err = b.backfill(ctx, r.name+"2", job, environment...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, second.Wait()) }()
	}
	if err := first.Wait(); err != nil {
		return fmt.Errorf("%s: %w; see %s", r.name, err, b.dir)
	}
	took := time.Since(began).Seconds()
	r.api.mu.Lock()
	asked, over := r.api.asked, r.api.over
	r.api.mu.Unlock()
	if err := r.api.aligned(ctx); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "python3", "jobs/failing/plain.py", "http://"+l.Addr().String()+"/", strconv.Itoa(threads), strconv.Itoa(r.api.amount), strconv.FormatFloat(r.api.window.Seconds(), 'g', -1, 64)).Output()
	if err != nil {
		return err
	}
	seconds, records, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	plain, err := strconv.ParseFloat(seconds, 64)
	if want := strconv.Itoa(days * r.api.pages * items); err != nil || records != want {
		return fmt.Errorf("the script has %s of %s records: %w", records, want, err)
	}
	fmt.Printf("| %s | %.1f | %d | %d | %.1f | %.2f |\n", r.name, took, asked, over, plain, plain/took)
	return nil
}

func main() {
	if err := measureAll(); err != nil {
		fmt.Fprintln(os.Stderr, "failing:", err)
		os.Exit(1)
	}
}

func measureAll() error {
	dir, err := os.MkdirTemp("", "failing")
	if err != nil {
		return err
	}
	b := &bench{dir, filepath.Join(dir, "abide")}
	build := exec.Command("go", "build", "-C", "..", "-o", b.abide, "./cmd/abide")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	fmt.Printf("# Backfills of an API that fails\n\nMade by `make failing`. %d days, %d records a page; half of the answers are 500, 502, 503, 504, 429, a closed connection, a cut body or a web page. abide has %d workers; the script has as many threads, knows the limit, and asks again at once. abide says which runs are complete by its exit status.\n\n", days, items, workers)
	fmt.Print("| run | abide, s | requests | refused by the limit | script, s | speed of abide ÷ script |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, r := range []*run{
		{name: "no-limit", api: api{pages: 2, share: 0.5}},
		{name: "limit-of-200-in-10s", api: api{pages: 2, share: 0.5, amount: 200, window: 10 * time.Second}},
		{name: "two-machines-300-in-10s", api: api{pages: 3, share: 0.5, slow: 0.05, amount: 300, window: 10 * time.Second}, shared: true},
	} {
		if len(os.Args) > 1 && !strings.HasPrefix(r.name, os.Args[1]) {
			continue
		}
		if err := b.measure(r); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}
