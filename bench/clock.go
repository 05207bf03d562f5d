package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

// clock is a moment of the machine: how long all its cores have idled by then.
type clock struct {
	at   time.Time
	idle time.Duration
	cpus int
}

// readClock reads idle time rather than busy time, as the kernel keeps it
// exactly where it only samples the other, and as what the machine's host took
// away is in neither but ends up in busy, where it belongs.
func readClock() (clock, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return clock{}, fmt.Errorf("reading the machine's CPU time: %w", err)
	}
	c := clock{at: time.Now()}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if f[0] != "cpu" {
			c.cpus++
			continue
		}
		for _, field := range f[4:6] { // idle, iowait
			v, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return clock{}, fmt.Errorf("reading the machine's CPU time: %w", err)
			}
			c.idle += time.Duration(v) * process.Tick
		}
	}
	if c.cpus == 0 {
		return clock{}, fmt.Errorf("reading the machine's CPU time: no cores in /proc/stat")
	}
	return c, nil
}

// busySince is the CPU time that the whole machine spent since before.
func (c clock) busySince(before clock) time.Duration {
	return max(0, c.at.Sub(before.at)*time.Duration(c.cpus)-(c.idle-before.idle))
}
