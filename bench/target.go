package main

import (
	"fmt"
	"math"
	"strings"
)

// target is one promise about abide: a figure of a scenario that is at most so
// much of a peer's, or at most so much.
type target struct {
	what     string
	scenario string
	of       func(*result, string) float64 // the figure of the named peer
	peer     string                        // empty: the limit is absolute
	peerOf   func(*result, string) float64 // what peer stands for where it is another figure; nil: of
	atMost   float64
	unit     string
	digits   int
}

func median(f figure) func(*result, string) float64 {
	return func(r *result, peer string) float64 {
		s := r.find(peer)
		if s == nil || len(s.Samples) == 0 {
			return math.NaN()
		}
		return s.of(f.of).Median
	}
}

// added is what a peer adds to the same figure of direct.
func added(f figure) func(*result, string) float64 {
	return func(r *result, peer string) float64 {
		return median(f)(r, peer) - median(f)(r, "direct")
	}
}

// whose is the same figure of another than the one that is asked for.
func whose(peer string, of func(*result, string) float64) func(*result, string) float64 {
	return func(r *result, _ string) float64 { return of(r, peer) }
}

// targets are in the order of the report.
var targets = []target{
	{"CPU per plain request, 1 KiB", "plain-1k", median(cpuMicros), "goproxy", nil, 0.55, "µs", 1},
	{"CPU per plain request, 1 KiB", "plain-1k", median(cpuMicros), "squid", nil, 0.55, "µs", 1},
	{"CPU per plain request, 64 KiB", "plain-64k", median(cpuMicros), "goproxy", nil, 0.7, "µs", 1},
	{"CPU per plain request, 64 KiB", "plain-64k", median(cpuMicros), "squid", nil, 0.3, "µs", 1},
	// With two idle connections goproxy's interception is mostly handshakes, and
	// half of that would be nothing to be proud of.
	{"CPU per intercepted request, 1 KiB", "intercept-1k", median(cpuMicros), "goproxy+pool", nil, 0.8, "µs", 1},
	{"CPU per intercepted request, 1 KiB", "intercept-1k", median(cpuMicros), "mitmproxy", nil, 0.1, "µs", 1},
	{"latency added, one connection, p50", "latency", added(p50), "goproxy", nil, 0.8, "µs", 0},
	{"latency added, one connection, p99 against its own p50", "latency", added(p99), "abide", added(p50), 3, "µs", 0},
	{"bulk through a tunnel, CPU per GB", "tunnel-bulk", median(cpuPerGB), "splice", nil, 1.1, "s", 3},
	{"resident memory per held plain request", "held-plain", whose(withFlight, median(heldKiB)), "", nil, 64, "KiB", 1},
	{"resident memory per held intercepted request", "held-intercepted", whose(withFlight, median(heldKiB)), "", nil, 80, "KiB", 1},
	{"CPU per plain request, limits that do not bind", "limits-plain", whose(withLimits, median(cpuMicros)), "abide", median(cpuMicros), 1.1, "µs", 1},
	{"CPU per intercepted request, limits that do not bind", "limits-intercept", whose(withLimits, median(cpuMicros)), "abide", median(cpuMicros), 1.1, "µs", 1},
	{"CPU per plain request, a limit of bytes that does not bind", "bytes-plain", whose(withBytes, median(cpuMicros)), "abide", median(cpuMicros), 1.1, "µs", 1},
	{"CPU per plain request, budgets kept in the state file", "store-plain", whose(withFile, median(cpuMicros)), withWindows, median(cpuMicros), 1.05, "µs", 1},
	{"CPU per plain request, budgets shared through Redis", "store-plain", whose(withRedis, median(cpuMicros)), withWindows, median(cpuMicros), 1.1, "µs", 1},
	{"bulk through a tunnel under a limit of bytes, CPU per GB", "tunnel-bulk", whose(withBytes, median(cpuPerGB)), "splice", median(cpuPerGB), 1.2, "s", 3},
	// What one site's queue adds to another may not be told from what the
	// machine adds from one round to the next.
	{"p99 that a full queue adds to another site", "isolation", addedByQueue, "noise", noiseWithout, 1, "µs", 0},
	{"first CONNECT to a new intercepted host, CPU", "intercept-new", median(cpuMillis), "", nil, 2, "ms", 2},
}

// verdict is a target with what was found.
type verdict struct {
	target
	abide, beside float64
	ratio         float64 // NaN for absolute targets
	limit         string
	says          string // pass, MISS or not measured
}

func (t target) judge(results []result) verdict {
	v := verdict{target: t, abide: math.NaN(), beside: math.NaN(), ratio: math.NaN(), says: "not measured"}
	besideOf := t.of
	if t.peerOf != nil {
		besideOf = t.peerOf
	}
	noisy := false
	for i := range results {
		r := &results[i]
		if r.name != t.scenario {
			continue
		}
		v.abide = t.of(r, "abide")
		if t.peer != "" {
			v.beside = besideOf(r, t.peer)
		}
		for _, s := range r.Series {
			noisy = noisy || s.Noisy && (s.Peer == t.peer || strings.HasPrefix(s.Peer, "abide"))
		}
	}
	measured := v.abide
	v.limit = fmt.Sprintf("≤ %g %s", t.atMost, t.unit)
	if v.peer != "" {
		v.ratio = v.abide / v.beside
		measured = v.ratio
		v.limit = fmt.Sprintf("≤ %g × %s", t.atMost, v.peer)
	}
	switch {
	case math.IsNaN(measured):
	case measured <= t.atMost:
		v.says = "pass"
	default:
		v.says = "MISS"
	}
	if noisy && !math.IsNaN(measured) {
		v.says += " (noisy)"
	}
	return v
}

// find is nil for a peer that took no part.
func (r *result) find(peer string) *series {
	for _, s := range r.Series {
		if s.Peer == peer {
			return s
		}
	}
	return nil
}
