//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestManyBudgetsDoNotKeepItFromStarting: it starts within seconds, and keeps
// those that were used last. With the race detector it is its CPU time that is bounded,
// for the machine may be slow and have something else to do.
func TestManyBudgetsDoNotKeepItFromStarting(t *testing.T) {
	t.Parallel()
	// A million take two minutes to be written with the race detector.
	rows, whole := 210_000, false // more than are kept
	if text := os.Getenv("ABIDE_STORE_ROWS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rows, whole = n, true
	}
	o, dir := newOrigin(t), t.TempDir()
	stateConfig(t, dir, o)
	d := serveIn(t, dir, nil)
	d.get("http://api.test/")
	d.signal(syscall.SIGTERM)
	d.status()
	change(t, stateOf(dir), fmt.Sprintf(`
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO counts (site, key, instance, seq, ahead, at, state) SELECT printf('site%%07d.test', i), 'quota requests per day', 'before', i, 1, %d - i, randomblob(24) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO documents (kind, key, at, until, value) SELECT 'ledger', printf('site%%07d.test', i), %d, %d, randomblob(300) FROM n`,
		rows, time.Now().Add(-time.Hour).UnixMicro(), time.Now().UnixMicro(), time.Now().Add(time.Hour).UnixMicro()))
	began := time.Now()
	d = serveIn(t, dir, nil)
	took := time.Since(began)
	if status, _ := d.get("http://api.test/"); status != 200 {
		t.Error(status)
	}
	if counted := 50 - left(t, d, "api.test"); counted < 2 {
		t.Errorf("%d requests are counted", counted)
	}
	peak, work := memoryOf(t, d), workOf(t, d)
	t.Logf("it starts in %v, works for %v and has %d MB", took, work, peak>>20)
	if whole && took > 5*time.Second || work > 30*time.Second {
		t.Errorf("it starts in %v and works for %v", took, work)
	}
	most := uint64(400 << 20)
	if raced { // which takes two to three times the memory
		most *= 3
	}
	if uint64(peak) > most {
		t.Errorf("it has %d MB", peak>>20)
	}
}

// workOf is the CPU time that a process had.
func workOf(t *testing.T, d *daemon) (all time.Duration) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		return 0 // this system does not tell
	}
	// After its name, which is in brackets, its own and the system's are the twelfth and the next.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		all += time.Duration(n) * 10 * time.Millisecond
	}
	return all
}

// memoryOf is the most that a process had.
func memoryOf(t *testing.T, d *daemon) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0 // this system does not tell
	}
	n, err := strconv.Atoi(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}
