package chaos

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/store/reference"
)

// world is all that one seed has made.
type world struct {
	t         testing.TB
	seed      uint64
	random    *rand.Rand // of the goroutine of the test alone
	net       *network
	began     time.Time
	ctx       context.Context // ends when clients have sent enough
	enough    context.CancelFunc
	roots     *ca.CA // of the sites
	authority *ca.CA // of the abides
	storage   string // none, disk, file or fleet
	outage    string
	file      string           // path of the state file
	fleet     *reference.Store // of a fleet
	abides    []*abide
	sites     []*site
	clients   []*client
	style     style
	log       logBuffer

	mu        sync.Mutex
	problems  []string
	refusals  map[string]int // :: Proxy-Status → answers
	recovered time.Time      // when all faults are over and their effects, too
	disturbed time.Time      // the end of the latest fault
	did       []string       // the faults, in order
}

// logBuffer keeps what abides log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (w *world) check(err error) {
	if err != nil {
		panic(err)
	}
}

// fault notes that an invariant does not hold.
func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf("after %v: ", time.Since(w.began))+fmt.Sprintf(format, args...))
}

// count counts a refusal of an abide.
func (w *world) count(status string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals[status]++
}

// mayFail reports whether a request may fail that was sent at a time.
func (w *world) mayFail(sent time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.style == storm && (w.recovered.IsZero() || sent.Before(w.recovered))
}

// disturbedUntil returns the end of the latest fault.
func (w *world) disturbedUntil() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.disturbed
}

// disturb notes a fault that lasts for a time.
func (w *world) disturb(d time.Duration, format string, args ...any) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := time.Now().Add(d)
	if until.After(w.disturbed) {
		w.disturbed = until
	}
	w.did = append(w.did, fmt.Sprintf("%v: ", time.Since(w.began))+fmt.Sprintf(format, args...))
	return until
}

// style says what happens in a world.
type style int

const (
	calm     style = iota // nothing
	storm                 // faults of all kinds
	operator              // reloads and restarts, by which no answer is lost
)

// policy returns the configuration. It differs by version in a value that makes new connections;
// odd versions have smaller limits where there is one abide.
func (w *world) policy(version int) *policy.Policy {
	rules, pool := "", ""
	for _, s := range w.sites {
		amount := s.amount
		if version%2 == 1 && len(w.abides) == 1 && s.as != "paced" {
			amount -= amount / 3
		}
		rules += s.rule(amount)
		if s.pool {
			pool = "pools: {keys: {tokens: [{label: a, secret: secret-a}, {label: b, secret: secret-b}]}}\n"
		}
	}
	if rules != "" {
		rules = "sites:\n" + rules
	}
	text := fmt.Sprintf("data: none\ntimeouts: {idle: %ds, answer: 30s, stall: 15s, connect: 5s, handshake: 5s, drain: 10s}\n", 20+version) + pool + rules
	p, err := policy.Load(policy.Source{Path: "chaos.yaml", Data: []byte(text), Lookup: func(string) (string, bool) { return "", false }})
	w.check(err)
	return p
}

// newWorld makes the world of a seed.
func newWorld(t testing.TB, seed uint64) *world {
	// A bubble begins in 2000, when the number of seconds since 1970 had a digit less.
	time.Sleep(time.Until(time.Date(2026, time.March, 1, 12, 0, 0, int(seed%1000)*1_000_000, time.UTC)))
	w := &world{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), net: newNetwork(seed), began: time.Now(), refusals: map[string]int{},
		file: filepath.Join(t.TempDir(), "abide.db"), style: []style{calm, storm, operator, storm}[seed%4], outage: "strict",
	}
	w.ctx, w.enough = context.WithCancel(context.Background())
	var err error
	w.roots, err = ca.Open("", ca.Options{})
	w.check(err)
	w.authority, err = ca.Open("", ca.Options{})
	w.check(err)
	abides := 1
	switch w.random.IntN(5) {
	case 0:
		w.storage = "none"
	case 1:
		w.storage = "disk"
		w.fleet = reference.New(time.Now)
		abides += w.random.IntN(2)
	default:
		w.storage = "fleet"
		w.fleet = reference.New(time.Now)
		abides += w.random.IntN(3)
		if w.style != storm && w.random.IntN(2) == 0 {
			w.outage = "share"
		}
	}
	if seed%20 == 11 { // it writes to a real disk, which takes a hundred times as long
		w.storage = "file"
	}
	for i := range abides {
		w.abides = append(w.abides, &abide{world: w, index: i, name: fmt.Sprintf("abide-%d:3128", i)})
	}
	w.addSites()
	for _, s := range w.sites {
		s.serve()
	}
	for _, a := range w.abides {
		a.start()
		for _, s := range w.sites {
			w.addClients(a, s)
		}
	}
	return w
}

// addSites adds three to six sites.
func (w *world) addSites() {
	kinds := []string{"rolling", "fixed"}
	if w.storage == "none" { // the others are each abide's own
		kinds = append(kinds, "first-use", "bucket", "paced", "concurrency")
	}
	obey := func(host string) *site {
		return &site{host: host, kind: obedient, as: kinds[w.random.IntN(len(kinds))], port: "80"}
	}
	list := []func() *site{
		func() *site { return obey("plain.test") },
		func() *site {
			s := obey("secure.test")
			s.tls, s.port = true, "443"
			s.h1 = w.random.IntN(2) == 0
			return s
		},
		func() *site {
			s := obey("pool.test")
			s.pool = true
			return s
		},
		func() *site {
			s := obey("shared.test")
			s.shares = true
			return s
		},
		func() *site { return &site{host: "announced.test", kind: announced, as: "fixed", port: "80"} },
		func() *site { return &site{host: "silent.test", kind: silent, as: "rolling", port: "80"} },
		func() *site { return &site{host: "hostile.test", kind: hostile, port: "80"} },
		func() *site { return &site{host: "echo.test", kind: echo, port: "443"} },
	}
	w.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for i, add := range list[:3+w.random.IntN(4)] {
		s := add()
		s.world, s.done, s.address = w, map[string]string{}, netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)})
		s.amount, s.window = 8+w.random.IntN(10), time.Duration(4+w.random.IntN(5))*time.Second
		if s.as == "concurrency" {
			s.amount = 2 + w.random.IntN(2)
		}
		w.sites = append(w.sites, s)
	}
}

// addClients adds the clients of a site behind an abide.
func (w *world) addClients(a *abide, s *site) {
	number := 2
	if s.kind == obedient || s.kind == announced || s.kind == silent {
		number = 5
	}
	for range number {
		c := &client{
			world: w, abide: a, site: s, name: fmt.Sprintf("c%d", len(w.clients)),
			random: rand.New(rand.NewPCG(w.seed, 100+uint64(len(w.clients)))), h2: w.random.IntN(2) == 0,
		}
		if s.kind == hostile || s.kind == echo {
			c.think = time.Second
		}
		if w.style == storm && w.random.IntN(4) == 0 {
			c.leaves = 0.2
		}
		w.clients = append(w.clients, c)
	}
}

// run lets the world live, and returns what was wrong.
func (w *world) run() []string {
	var running sync.WaitGroup
	for _, c := range w.clients {
		running.Go(c.run)
	}
	w.live(8 * time.Second)
	switch w.style {
	case storm:
		w.storm(45 * time.Second)
		w.heal()
		w.live(settling)
	case operator:
		w.operate(30 * time.Second)
		w.live(settling / 3)
	}
	w.mu.Lock()
	w.recovered = time.Now()
	w.mu.Unlock()
	measured := 24 * time.Second
	from := time.Now()
	w.live(measured)
	w.enough()
	running.Wait()
	w.verify(from, measured)
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problems
}

// settling is the time after which faults have no effect any more: a site that has failed is
// left alone for up to 30 s.
const settling = 45 * time.Second

func (w *world) live(d time.Duration) { time.Sleep(d) }

// stillAtLeast is named for sites that name no time: a breaker pauses for so long.
const stillAtLeast = 30 * time.Second

// verify checks the invariants when clients have ended. from is the time since which there was
// no fault.
func (w *world) verify(from time.Time, measured time.Duration) {
	for _, s := range w.sites {
		s.mu.Lock()
		s.moves()
		still, named, answered := s.still, max(s.named, s.window, stillAtLeast), len(s.done)
		s.mu.Unlock()
		if still > 10*named {
			w.fault("%s stood still for %v, although it never named more than %v", s.host, still, named)
		}
		if s.kind != echo && answered == 0 {
			w.fault("nothing has reached %s", s.host)
		}
		if s.kind != obedient {
			continue
		}
		if s.as == "concurrency" {
			if w.style == calm && s.most > s.amount { // one that its client has left may still be answered
				w.fault("%s: %d requests at the same time, not %d", s.host, s.most, s.amount)
			}
			continue
		}
		for what, when := range map[string]func(arrival) time.Time{
			"arrived": func(a arrival) time.Time { return a.at }, "were sent": func(a arrival) time.Time { return a.sent },
		} {
			postponed := s.as == "bucket" && !*known // one whose connection has to be dialed
			// A request that arrives much later than it was sent, or never, is not under these kinds' promise.
			late := s.as == "paced" || s.as == "bucket" || s.as == "first-use"
			if s.delayed && (late || what == "arrived") || what == "arrived" && (postponed || late && s.as != "bucket") || len(w.abides) > 1 && !*known {
				continue
			}
			if over, at := s.over(when); over > 0 {
				w.fault("%s: %d requests more than %d per %v (%s) %s, in the window with %v", s.host, over, s.amount, s.window, s.as, what, at.Sub(w.began))
				for _, a := range s.arrivals {
					if d := at.Sub(a.at); d > -s.window && d < 2*s.window {
						w.did = append(w.did, fmt.Sprintf("    %s %q arrived %v after %v", s.host, a.token, a.at.Sub(w.began), a.at.Sub(a.sent)))
					}
				}
			}
		}
		window := s.window
		if s.as == "rolling" && w.fleet != nil { // what is granted in a slot counts for a slot longer
			window += 500 * time.Millisecond
		}
		whole := int(measured / window)
		ideal := s.amount * whole
		if window > s.window {
			ideal = ideal * 9 / 10
		}
		if s.pool {
			ideal *= 2
		}
		if n := s.count(from, from.Add(time.Duration(whole)*window)); n < ideal*9/10 {
			w.fault("%s: %d of %d requests were sent in %v (%d per %v, %s)", s.host, n, ideal, measured, s.amount, s.window, s.as)
		}
	}
	for _, c := range w.clients {
		if c.answers == 0 && c.site.kind != hostile {
			w.fault("%s has had no answer of %s", c.name, c.site.host)
		}
	}
}

// end ends everything and looks for what is left.
func (w *world) end() {
	for _, a := range w.abides {
		a.stopped.Store(true)
		a.stop()
		for _, done := range append(a.ended, a.done) {
			<-done
		}
	}
	for _, s := range w.sites {
		s.close(false)
	}
	w.live(time.Second) // a server of net/http closes late
	synctest.Wait()
	if left := w.net.left(); len(left) > 0 {
		w.fault("connections are left: %v", left)
	}
	if left := goroutines(); len(left) > 0 {
		w.fault("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
	}
}

// goroutines returns the stacks of the goroutines of this bubble but the caller's.
func goroutines() (stacks []string) {
	all := make([]byte, 8<<20)
	all = all[:runtime.Stack(all, true)]
	list := strings.Split(string(all), "\n\n")
	_, mine, _ := strings.Cut(strings.SplitN(list[0], "\n", 2)[0], "synctest bubble ")
	for _, stack := range list[1:] {
		head, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(head, "synctest bubble "+mine) && !strings.Contains(stack, "testing/synctest.") && !strings.Contains(stack, "internal/synctest.Run") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// report says what has happened, for somebody who looks into a failure.
func (w *world) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d abides, storage %s, outage %s, %s\n", len(w.abides), w.storage, w.outage, []string{"calm", "storm", "operator"}[w.style])
	for _, s := range w.sites {
		fmt.Fprintf(&b, "%s: %d per %v %s, %d arrived, %d refused, still for %v\n", s.host, s.amount, s.window, s.as, len(s.arrivals), s.refusals, s.still)
	}
	for _, status := range slices.Sorted(maps.Keys(w.refusals)) {
		fmt.Fprintf(&b, "%d times %s\n", w.refusals[status], status)
	}
	fmt.Fprintf(&b, "faults:\n  %s\n", strings.Join(w.did, "\n  "))
	lines := strings.Split(w.log.b.String(), "\n")
	fmt.Fprintf(&b, "log:\n%s", strings.Join(lines[max(len(lines)-60, 0):], "\n"))
	return b.String()
}
