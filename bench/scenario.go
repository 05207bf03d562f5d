package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// figure is a column of a scenario's table.
type figure struct {
	title  string
	digits int
	of     func(sample) float64 // NaN where the sample does not have it
}

func perRequest(d time.Duration, s sample, unit time.Duration) float64 {
	if s.Requests == 0 || d == 0 {
		return math.NaN()
	}
	return float64(d) / float64(unit) / float64(s.Requests)
}

var (
	cpuMicros  = figure{"CPU µs/request", 1, func(s sample) float64 { return perRequest(s.CPU, s, time.Microsecond) }}
	cpuMillis  = figure{"CPU ms/host", 2, func(s sample) float64 { return perRequest(s.CPU, s, time.Millisecond) }}
	cpuTunnel  = figure{"CPU µs/tunnel", 0, cpuMicros.of}
	cpuPerGB   = figure{"CPU s/GB", 3, perGB}
	rate       = figure{"requests/s", 0, func(s sample) float64 { return float64(s.Requests) / s.Took.Seconds() }}
	gbRate     = figure{"GB/s", 2, func(s sample) float64 { return float64(s.Bytes) / 1e9 / s.Took.Seconds() }}
	p50        = figure{"p50 µs", 0, func(s sample) float64 { return float64(s.P50) / 1e3 }}
	p99        = figure{"p99 µs", 0, func(s sample) float64 { return float64(s.P99) / 1e3 }}
	fromProxy  = figure{"connections at origin", 0, func(s sample) float64 { return float64(s.FromProxy) }}
	heldNumber = figure{"held", 0, func(s sample) float64 { return float64(s.Held) }}
	heldKiB    = figure{"KiB/held request", 1, func(s sample) float64 {
		if s.Held == 0 {
			return math.NaN()
		}
		return float64(s.Growth) / 1024 / float64(s.Held)
	}}
)

func perGB(s sample) float64 {
	if s.Bytes == 0 || s.CPU == 0 {
		return math.NaN()
	}
	return s.CPU.Seconds() / (float64(s.Bytes) / 1e9)
}

// scenario is one kind of traffic, and who is compared in it.
type scenario struct {
	name      string // for -only, matched from its start
	title     string
	peers     []string
	intercept bool // proxies that can are started so
	held      bool // memory is measured, each time in a new process
	loose     bool // nothing is pinned, or waking the other core is all that is measured
	apart     bool // one abide, beside itself with a full queue
	times     int  // so many times the rounds, for differences that are small; 0 is 1
	figures   []figure
	job       func(*way, pace) job
}

// rounds are those of the scenario.
func (s scenario) rounds(p pace) int { return p.rounds * max(1, s.times) }

// pace is how long everything takes.
type pace struct {
	rounds  int
	busy    time.Duration // of one keep-alive measurement
	warm    time.Duration // of a warm-up
	tunnels int           // new ones per measurement
	hosts   int           // new ones per measurement
	hold    int           // requests held at once
	repeats int           // of a noisy measurement
}

func paceFor(quick bool, rounds int) pace {
	// A request held takes two of the proxy's files; some are for itself.
	hold := min(10_000, openFiles()/2-500)
	p := pace{rounds: rounds, busy: 1500 * time.Millisecond, warm: 500 * time.Millisecond, tunnels: 2000, hosts: 200, hold: hold, repeats: 1}
	if quick {
		p = pace{rounds: rounds, busy: 200 * time.Millisecond, warm: 50 * time.Millisecond, tunnels: 100, hosts: 20, hold: min(200, hold)}
	}
	return p
}

// freshHosts is an upper bound of the new hosts that one process meets.
func (p pace) freshHosts() int { return p.hosts * (p.rounds*(1+p.repeats) + 1) }

// warmup is the same job, but short.
func (j job) warmup(p pace) job {
	j.For = min(j.For, p.warm)
	j.Count = min(j.Count, p.hosts)
	return j
}

func keepAlive(r route, p pace, conns int, size int64) job {
	j := r.job()
	j.Conns, j.Size, j.For = conns, size, p.busy
	return j
}

func oneEach(r route, count, conns int) job {
	j := r.job()
	j.Conns, j.Size, j.Count = conns, 1024, count
	return j
}

func holding(r route, p pace) job {
	j := oneEach(r, p.hold, 32)
	j.Hold, j.Size = true, 1
	return j
}

var scenarios = []scenario{
	{
		name: "plain-1k", title: "Plain GET of 1 KiB, 64 keep-alive connections",
		peers: []string{"direct", "abide", "goproxy", "goproxy+pool", "squid", "tinyproxy", "nginx"}, intercept: true,
		figures: []figure{cpuMicros, rate, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return keepAlive(w.plain, p, 64, 1024) },
	},
	{
		name: "plain-64k", title: "Plain GET of 64 KiB, 64 keep-alive connections",
		peers: []string{"direct", "abide", "goproxy", "goproxy+pool", "squid", "tinyproxy", "nginx"}, intercept: true,
		figures: []figure{cpuMicros, rate, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return keepAlive(w.plain, p, 64, 64<<10) },
	},
	{
		name: "latency", title: "Latency: plain GET of 1 KiB, one connection",
		peers: []string{"direct", "abide", "goproxy", "goproxy+pool", "squid", "tinyproxy", "nginx"}, intercept: true, loose: true, times: 2,
		figures: []figure{p50, p99, cpuMicros, fromProxy},
		job:     func(w *way, p pace) job { return keepAlive(w.plain, p, 1, 1024) },
	},
	{
		name: "intercept-1k", title: "Intercepted GET of 1 KiB, TLS both ways, HTTP/1.1, 64 keep-alive connections",
		peers: []string{"direct", "abide", "goproxy", "goproxy+pool", "mitmproxy"}, intercept: true, times: 3,
		figures: []figure{cpuMicros, rate, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return keepAlive(w.secure, p, 64, 1024) },
	},
	{
		name: "intercept-new", title: "First CONNECT to a new intercepted host: leaf, both handshakes, one GET of 1 KiB",
		peers: []string{"direct", "abide", "goproxy"}, intercept: true,
		figures: []figure{cpuMillis, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return oneEach(w.fresh, p.hosts, 4) },
	},
	{
		name: "tunnel-bulk", title: "Bulk through one tunnel, 64 MiB answers",
		peers:   []string{"direct", "splice", "abide", withBytes, "goproxy", "squid", "tinyproxy"},
		figures: []figure{cpuPerGB, gbRate},
		job:     func(w *way, p pace) job { return keepAlive(w.tunnel, p, 1, 64<<20) },
	},
	{
		name: "tunnel-new", title: "New CONNECT tunnel with one GET of 1 KiB, 16 at once",
		peers:   []string{"direct", "splice", "abide", "goproxy", "squid", "tinyproxy"},
		figures: []figure{cpuTunnel, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return oneEach(w.tunnel, p.tunnels, 16) },
	},
	{
		name: "limits-plain", title: "Limits of every kind of which none binds: plain GET of 1 KiB, 64 keep-alive connections",
		peers: []string{"abide", withLimits}, intercept: true, times: 3,
		figures: []figure{cpuMicros, rate, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return keepAlive(w.plain, p, 64, 1024) },
	},
	{
		name: "limits-intercept", title: "Limits of every kind of which none binds: intercepted GET of 1 KiB, 64 keep-alive connections",
		peers: []string{"abide", withLimits}, intercept: true, times: 3,
		figures: []figure{cpuMicros, rate, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return keepAlive(w.secure, p, 64, 1024) },
	},
	{
		name: "bytes-plain", title: "A limit of bytes that does not bind: plain GET of 1 KiB, 64 keep-alive connections",
		peers: []string{"abide", withBytes}, intercept: true, times: 3,
		figures: []figure{cpuMicros, rate, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return keepAlive(w.plain, p, 64, 1024) },
	},
	{
		name: "store-plain", title: "Limits that a store keeps, of which none binds: plain GET of 1 KiB, 64 keep-alive connections",
		peers: []string{withWindows, withFile, withRedis}, times: 3,
		figures: []figure{cpuMicros, rate, p50, p99, fromProxy},
		job:     func(w *way, p pace) job { return keepAlive(w.plain, p, 64, 1024) },
	},
	{
		name: "isolation", title: "One site while the queue of another is full: plain GET of 1 KiB, one connection",
		peers: []string{"abide"}, loose: true, apart: true, times: 2,
		figures: []figure{p99, p50, cpuMicros, heldNumber},
		job:     func(w *way, p pace) job { return keepAlive(w.plain, p, 1, 1024) },
	},
	{
		name: "held-plain", title: "Resident memory per plain request held by a slow origin",
		peers: []string{withFlight, "goproxy"}, intercept: true, held: true,
		figures: []figure{heldKiB, heldNumber, fromProxy},
		job:     func(w *way, p pace) job { return holding(w.plain, p) },
	},
	{
		name: "held-intercepted", title: "Resident memory per intercepted request held by a slow origin",
		peers: []string{withFlight, "goproxy"}, intercept: true, held: true,
		figures: []figure{heldKiB, heldNumber, fromProxy},
		job:     func(w *way, p pace) job { return holding(w.secure, p) },
	},
}

// chosen are the scenarios whose names start with one of the comma-separated
// words; all for none.
func chosen(only string) ([]scenario, error) {
	if only == "" {
		return scenarios, nil
	}
	var some []scenario
	words := strings.Split(only, ",")
	for _, word := range words {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return strings.HasPrefix(s.name, word) }) {
			var names []string
			for _, s := range scenarios {
				names = append(names, s.name)
			}
			return nil, fmt.Errorf("no scenario starts with %q; there are %s", word, strings.Join(names, ", "))
		}
	}
	for _, s := range scenarios {
		if slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(s.name, word) }) {
			some = append(some, s)
		}
	}
	return some, nil
}
