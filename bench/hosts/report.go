//go:build linux

package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// mostResident is what abide promises for the hosts of a whole run.
const mostResident = 1 << 30

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// markdown is the whole report.
func markdown(now time.Time, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Memory of hosts\n\n"+
		"One run of `make hosts` on %s, %d cores, %s. The built binary with its defaults and a data directory, where nothing else is said: only addresses and `egress.ports` are set. Of some kinds a fifth of the hosts is asked. "+
		"Each host is an address of the loopback network, asked once, over up to 64 connections of clients at once. Then abide is left alone.\n",
		now.UTC().Format("2 January 2006"), runtime.NumCPU(), runtime.Version())
	for _, r := range results {
		most := int64(0)
		for _, p := range r.Points {
			most = max(most, p.Resident)
		}
		says := "pass"
		if most > mostResident {
			says = "MISS"
		}
		fmt.Fprintf(&b, "\n## %s\n\n`-only %s`; CPU in all %s. The most resident memory was %s; target: at most 1 GiB: %s.\n\n"+
			"| hosts seen | left alone for | resident | one scrape of `/metrics` | data directory | seconds since the start |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n",
			r.title, r.name, r.CPU.Round(time.Second), mebibytes(most), says)
		for _, p := range r.Points {
			fmt.Fprintf(&b, "| %d | %v | %s | %s | %s | %.0f |\n", p.Hosts, p.Idle, mebibytes(p.Resident), mebibytes(p.Metrics), mebibytes(p.Data), p.Took.Seconds())
		}
	}
	return b.String()
}
