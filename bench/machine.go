package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// cores says where processes run: the proxy alone on one core, generator and
// origin on the others. Both empty: nothing is pinned.
type cores struct {
	proxy string // as taskset -c writes them
	rest  string
	all   int
}

// findCores splits the cores that the bench itself may use.
func findCores() cores {
	c := cores{all: runtime.NumCPU()}
	if _, err := exec.LookPath("taskset"); err != nil {
		return c
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return c
	}
	_, after, _ := strings.Cut(string(text), "Cpus_allowed_list:")
	line, _, _ := strings.Cut(after, "\n")
	ids := parseCores(strings.TrimSpace(line))
	if len(ids) < 2 {
		return c
	}
	c.proxy = ids[len(ids)-1]
	c.rest = strings.Join(ids[:len(ids)-1], ",")
	return c
}

// loose is the same machine with nothing pinned.
func (c cores) loose() cores { return cores{all: c.all} }

// parseCores spells out a list such as "0-2,5".
func parseCores(list string) []string {
	var ids []string
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.Atoi(low)
		if err != nil {
			return nil
		}
		to, err := strconv.Atoi(high)
		if err != nil {
			return nil
		}
		for id := from; id <= to; id++ {
			ids = append(ids, strconv.Itoa(id))
		}
	}
	return ids
}

// openFiles is how many files a process of this machine may open.
func openFiles() int {
	text, err := os.ReadFile("/proc/self/limits")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
				// The hard limit: Go raises its own to it.
				if f := strings.Fields(rest); len(f) >= 2 {
					if n, err := strconv.Atoi(f[1]); err == nil {
						return n
					}
					return 1 << 20 // unlimited
				}
			}
		}
	}
	return 1024
}

// machineFacts describe the machine without naming it.
func machineFacts(c cores) string {
	facts := fmt.Sprintf("%d cores", c.all)
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(after, "\n")
			facts += " (" + strings.TrimSpace(strings.TrimLeft(line, "\t :")) + ")"
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		if v := versionIn(string(text)); v != "" {
			facts += ", Linux " + v
		}
	}
	return facts + ", bench built with " + runtime.Version()
}

var versionPattern = regexp.MustCompile(`\d+\.\d+(\.\d+)*`)

func versionIn(text string) string { return versionPattern.FindString(text) }

// findProgram looks where daemons are installed too, which is not always in
// the search path of a user.
func findProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(filepath.Join("/usr/sbin", name))
	if err != nil {
		return "", fmt.Errorf("%s is not installed", name)
	}
	return path, nil
}

// programVersion is what the program says of itself.
func programVersion(path string, args ...string) string {
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil && len(out) == 0 {
		return "of unknown version"
	}
	return versionIn(string(out))
}
