//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever somebody removes of what a process has, a second one is told who has it and
// since when, and ends.
func TestRemovingFilesDoesNotLetASecondProcessIn(t *testing.T) {
	for name, one := range map[string]struct {
		remove []string
		nobody bool // nothing is left that says who it is
	}{
		"the lock's file":           {remove: []string{stateFile + ".lock"}},
		"the lock's file, emptied":  {remove: nil},
		"the file with its journal": {remove: []string{stateFile, stateFile + "-wal", stateFile + "-shm"}},
		"everything":                {remove: []string{"*"}, nobody: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, dir := newOrigin(t), t.TempDir()
			stateConfig(t, dir, o)
			d := serveIn(t, dir, nil)
			d.get("http://api.test/")
			if one.remove == nil {
				if err := os.Truncate(stateOf(dir)+".lock", 0); err != nil {
					t.Fatal(err)
				}
			}
			for _, pattern := range one.remove {
				list, err := filepath.Glob(filepath.Join(dir, "data", pattern))
				if err != nil || len(list) == 0 {
					t.Fatal(list, err)
				}
				for _, file := range list {
					if err := os.RemoveAll(file); err != nil {
						t.Fatal(err)
					}
				}
			}
			said := refusesToStart(t, dir, serveArgs...)
			says(t, said, stateFile+" is in use by ", "stop that one first", "--data none")
			if !one.nobody {
				says(t, said, fmt.Sprintf("in use by process %d on ", d.cmd.Process.Pid), ", since 20")
			}
			// The first one has it, and writes into it again.
			if status, _ := d.get("http://api.test/"); status != 200 {
				t.Error(status)
			}
			d.signal(syscall.SIGTERM)
			if status := d.status(); status != 0 {
				t.Errorf("it ended with %d", status)
			}
			d = serveIn(t, dir, nil)
			if status, _ := d.get("http://api.test/"); status != 200 {
				t.Error(status)
			}
		})
	}
}

// A directory that is moved away takes the lock with it. Who had it does not write into
// what somebody else has begun in its place.
func TestWhoHadAnotherDirectoryLeavesTheNewOneAlone(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(`
data: data
egress: {resolve: {"api.test:80": %q}}
sites: [{host: api.test, learn: false, limits: [{requests: 100000, per: day}]}]
`, strings.TrimPrefix(o.url, "http://")))
	first := serveIn(t, dir, nil)
	first.get("http://api.test/")
	data := filepath.Join(dir, "data")
	if err := errors.Join(os.Rename(data, data+".away"), os.Mkdir(data, 0o700)); err != nil {
		t.Fatal(err)
	}
	second := serveIn(t, dir, nil)
	second.get("http://api.test/")
	wanted := fmt.Sprintf("in use by process %d on ", second.cmd.Process.Pid)
	keepsTrying(t, "the first hears of the second", func() bool {
		if status, _ := first.get("http://api.test/"); status != 200 {
			t.Fatal(status)
		}
		_, text := first.ask("/readyz")
		return strings.Contains(text, "state: degraded") && strings.Contains(first.log.String(), wanted)
	})
	if _, text := second.ask("/readyz"); !strings.Contains(text, "state: ok") {
		t.Error(text)
	}
	second.signal(syscall.SIGTERM)
	second.status()
	keepsTrying(t, "the first has it then", func() bool {
		first.get("http://api.test/")
		_, text := first.ask("/readyz")
		return strings.Contains(text, "state: ok")
	})
	says(t, refusesToStart(t, dir, serveArgs...), fmt.Sprintf("in use by process %d on ", first.cmd.Process.Pid))
}
