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

// Whatever is removed of what a process has, it finds a second process that uses the same
// file, and both serve.
func TestProcessesWhoseFilesAreRemovedFindEachOtherAgain(t *testing.T) {
	for name, remove := range map[string][]string{
		"the file of the process":   {stateFile + ".process-*"},
		"the file with its journal": {stateFile, stateFile + "-wal", stateFile + "-shm"},
		"everything":                {"*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, dir := newOrigin(t), t.TempDir()
			manyConfig(t, dir, o)
			d := serveIn(t, dir, nil)
			d.get("http://api.test/")
			for _, pattern := range remove {
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
			second := serveIn(t, dir, nil)
			for _, one := range []*daemon{d, second} {
				keepsTrying(t, "it knows of the other", func() bool {
					if status, text := one.get("http://api.test/"); status != 200 {
						t.Fatalf("%d %s", status, text)
					}
					_, text := one.ask("/api/v1/status")
					_, ready := one.ask("/readyz")
					return strings.Contains(text, `"member_count":2`) && strings.Contains(ready, "state: ok")
				})
			}
			for _, one := range []*daemon{d, second} {
				one.signal(syscall.SIGTERM)
				if status := one.status(); status != 0 {
					t.Errorf("it ended with %d", status)
				}
			}
		})
	}
}

// manyConfig is stateConfig with a limit that a test does not use up.
func manyConfig(t *testing.T, dir string, o *origin) {
	t.Helper()
	write(t, filepath.Join(dir, "abide.yaml"), fmt.Sprintf(`
data: data
egress: {resolve: {"api.test:80": %q}}
sites: [{host: api.test, learn: false, limits: [{requests: 100000, per: day}]}]
`, strings.TrimPrefix(o.url, "http://")))
}

// A directory that is moved away takes the lock with it. Who had it does not write into
// what somebody else has begun in its place.
func TestWhoHadAnotherDirectoryLeavesTheNewOneAlone(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	manyConfig(t, dir, o)
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
	third := serveIn(t, dir, nil)
	keepsTrying(t, "a third shares it", func() bool {
		_, text := third.ask("/api/v1/status")
		return strings.Contains(text, `"member_count":2`)
	})
}
