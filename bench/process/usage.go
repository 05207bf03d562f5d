package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Tick is the unit of CPU time in /proc: USER_HZ, 100 wherever Go runs Linux.
const Tick = 10 * time.Millisecond

// procStat is what /proc/PID/stat says that is wanted.
type procStat struct {
	parent int
	own    time.Duration // user and system time of its threads
	reaped time.Duration // the same of children that it has waited for
}

// parseStat reads a line of /proc/PID/stat. The command's name stands in
// parentheses and may hold spaces and parentheses itself.
func parseStat(line string) (procStat, error) {
	at := strings.LastIndexByte(line, ')')
	if at < 0 {
		return procStat{}, fmt.Errorf("reading process times: no name in %q", line)
	}
	f := strings.Fields(line[at+1:])
	if len(f) < 15 {
		return procStat{}, fmt.Errorf("reading process times: %d fields after the name", len(f))
	}
	var n [5]int64 // parent, utime, stime, cutime, cstime
	for i, field := range []int{1, 11, 12, 13, 14} {
		v, err := strconv.ParseInt(f[field], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("reading process times: %w", err)
		}
		n[i] = v
	}
	return procStat{
		parent: int(n[0]),
		own:    time.Duration(n[1]+n[2]) * Tick,
		reaped: time.Duration(n[3]+n[4]) * Tick,
	}, nil
}

// Usage is what processes have used.
type Usage struct {
	CPU      time.Duration
	Resident int64 // bytes
}

// UsageOf adds up a process and all below it, workers of a peer included.
func UsageOf(pid int) (Usage, error) {
	all := map[int]procStat{} // :: process → its times
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return Usage{}, fmt.Errorf("listing processes: %w", err)
	}
	for _, file := range files {
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		if s, err := parseStat(string(line)); err == nil {
			all[id] = s
		}
	}
	if _, there := all[pid]; !there {
		return Usage{}, fmt.Errorf("process %d is gone", pid)
	}
	var sum Usage
	for id := range all {
		if !below(all, id, pid) {
			continue
		}
		sum.CPU += all[id].own + all[id].reaped
		sum.Resident += residentOf(id)
	}
	return sum, nil
}

// below tells whether id is the process top or descends from it.
func below(all map[int]procStat, id, top int) bool {
	for range len(all) { // a bound, as the table is no snapshot
		if id == top {
			return true
		}
		s, there := all[id]
		if !there {
			return false
		}
		id = s.parent
	}
	return false
}

func residentOf(pid int) int64 {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(line))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
