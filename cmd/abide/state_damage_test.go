//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What was set aside is said for as long as the process runs, and not in one line of the
// log alone: a version that is damaged, and rows.
func TestWhatWasSetAsideIsSaid(t *testing.T) {
	for name, one := range map[string]struct {
		spoil func(path string)
		says  []string
	}{
		"a version": {func(path string) { changeByte(t, path, 60) }, []string{"set aside as ", stateFile + ".bad-"}},
		"a format":  {func(path string) { changeByte(t, path, 18) }, []string{"set aside as ", stateFile + ".bad-"}},
		"all of it": {func(path string) { empty(t, path) }, []string{"set aside as ", "it is empty"}},
		"a row":     {func(path string) { change(t, path, "UPDATE counts SET ahead = ahead + 1") }, []string{"1 damaged row of the state file set aside"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := usedDir(t)
			one.spoil(stateOf(dir))
			refusesToStart(t, dir, append(serveArgs, "--strict-state")...)
			d := serveIn(t, dir, nil)
			if status, _ := d.get("http://api.test/"); status != 200 {
				t.Error(status)
			}
			status, ready := d.ask("/readyz")
			if status != 200 || !strings.Contains(ready, "state damage: degraded") {
				t.Errorf("%d %s", status, ready)
			}
			says(t, ready, one.says...)
			_, metrics := d.ask("/metrics")
			what := map[bool]string{true: "row", false: "file"}[name == "a row"]
			says(t, metrics, `abide_state_damaged{what="`+what+`"} 1`)
			_, api := d.ask("/api/v1/status")
			says(t, api, `"damage":{`)
			said := launch(t, dir, nil, "status", "--admin", d.admin)
			said.status()
			says(t, said.out.String(), one.says...)
			d.signal(syscall.SIGTERM)
			if status := d.status(); status != 0 {
				t.Errorf("it ended with %d", status)
			}
			d = serveIn(t, dir, nil)
			if _, ready := d.ask("/readyz"); strings.Contains(ready, "damage") {
				t.Errorf("after a restart: %s", ready)
			}
		})
	}
}

func empty(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
}

func changeByte(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Clone(data)
	data[at] ^= 0x40
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Several processes that meet a damaged file at the same time set it aside once, and keep
// one budget together.
func TestSeveralThatMeetADamagedFileShareANewOne(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	changeByte(t, stateOf(dir), 60)
	const many = 4
	daemons := make([]*daemon, many)
	for i := range daemons {
		daemons[i] = launch(t, dir, nil, serveArgs...)
	}
	for _, d := range daemons {
		d.proxy = d.out.await(t, `proxy +http://(\S+)`)[1]
		d.admin = d.out.await(t, `dashboard +http://(\S+)/`)[1]
	}
	bad, _ := filepath.Glob(stateOf(dir) + ".bad-*")
	set := 0
	for _, one := range bad {
		if !strings.HasSuffix(one, "-wal") && !strings.HasSuffix(one, "-shm") {
			set++
		}
	}
	if set != 1 {
		t.Errorf("it was set aside %d times: %v", set, bad)
	}
	for _, d := range daemons {
		if status, _ := d.get("http://api.test/"); status != 200 {
			t.Error(status)
		}
	}
	for _, d := range daemons {
		d.signal(syscall.SIGTERM)
		d.status()
	}
	if got := left(t, serveIn(t, dir, nil), "api.test"); got != 50-many {
		t.Errorf("%d are left", got)
	}
}
