package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// readOnlyDir has data not be written: as a file system of its own where this machine lets
// us mount one, and otherwise by its mode, which holds for everybody but root.
func readOnlyDir(t *testing.T, data string) (lock, mend func()) {
	t.Helper()
	err := os.Mkdir(data, 0o700)
	if err == nil && syscall.Mount("tmpfs", data, "tmpfs", 0, "size=8m,mode=700") == nil {
		t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
		change := func(flags uintptr) func() {
			return func() {
				if err := syscall.Mount("tmpfs", data, "tmpfs", syscall.MS_REMOUNT|flags, "size=8m,mode=700"); err != nil {
					t.Fatal(err)
				}
			}
		}
		return change(syscall.MS_RDONLY), change(0)
	}
	t.Cleanup(func() { _ = os.Chmod(data, 0o700) })
	change := func(mode os.FileMode) func() {
		return func() {
			err = errors.Join(err, os.Chmod(data, mode))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return change(0o500), change(0o700)
}

const tenAnHour = `
queue: {wait: 5m}
egress: {resolve: {"api.test:80": "ORIGIN"}}
sites: [{host: api.test, learn: false, limits: [{requests: 10, per: 1h}]}]
`

// A data directory that is read-only when abide starts: what is in it counts, it is served
// on, said everywhere, and over by itself.
func TestADataDirectoryThatIsReadOnlyAtTheStart(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	lock, mend := readOnlyDir(t, filepath.Join(dir, "data"))
	write(t, filepath.Join(dir, "abide.yaml"), "data: data"+strings.ReplaceAll(tenAnHour, "ORIGIN", strings.TrimPrefix(o.url, "http://")))
	d := serveIn(t, dir, nil)
	ask := func(n, wanted int) {
		t.Helper()
		for range n {
			if status, text := d.get("http://api.test/"); status != wanted {
				t.Fatalf("%d %s", status, text)
			}
		}
	}
	ask(4, 200)
	if status, text := d.send("PUT", "/api/v1/sites/other.test/limits", `{"limits": [{"requests": 7, "per": "1h"}]}`); status != 200 {
		t.Fatal(status, text)
	}
	root := func() string { _, text := d.ask("/ca.pem"); return text }
	first := root()
	d.signal(syscall.SIGTERM)
	d.status()

	lock()
	probe := filepath.Join(dir, "data", "probe")
	if os.WriteFile(probe, nil, 0o600) == nil {
		os.Remove(probe)
		t.Log("nothing can be made read-only for this user: see TestADataDirectoryThatCannotBeMade")
		return
	}
	strict := launch(t, dir, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--strict-state")
	if status := strict.status(); status == 0 || !strings.Contains(strict.log.String(), "state file") {
		t.Errorf("with strict state it ends with %d: %s", status, strict.log)
	}
	d = serveIn(t, dir, nil)
	if root() != first {
		t.Error("it has another CA")
	}
	saidEverywhere(t, d)
	if log := d.log.String(); !strings.Contains(log, "what it kept was read") || !strings.Contains(log, "the limits of other.test are those that were set at run time") {
		t.Errorf("the log says %s", log)
	}
	ask(6, 200)
	ask(1, 429)
	mend()
	keepsTrying(t, "well again", func() bool { _, text := d.ask("/readyz"); return strings.Contains(text, "state: ok") })
	again := func() int { return strings.Count(d.log.String(), "it can be written again") }
	keepsTrying(t, "the log says that it can be written again", func() bool { return again() > 0 })
	ask(1, 429)
	d.signal(syscall.SIGTERM)
	if status := d.status(); status != 0 {
		t.Errorf("it ends with %d", status)
	}
	if n := again(); n != 1 {
		t.Errorf("the log says %d times that it can be written again", n)
	}
	d = serveIn(t, dir, nil)
	ask(1, 429)
}

// A data directory that is not there and cannot be made, by root neither.
func TestADataDirectoryThatCannotBeMade(t *testing.T) {
	t.Parallel()
	o, dir := newOrigin(t), t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "data: /sys/abide-test"+strings.ReplaceAll(tenAnHour, "ORIGIN", strings.TrimPrefix(o.url, "http://")))
	strict := launch(t, dir, nil, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--strict-state")
	if status := strict.status(); status == 0 || !strings.Contains(strict.log.String(), "/sys/abide-test") {
		t.Errorf("with strict state it ends with %d: %s", status, strict.log)
	}
	d := serveIn(t, dir, nil)
	saidEverywhere(t, d)
	for i := range 12 {
		if status, text := d.get("http://api.test/"); status != 200 != (i >= 10) {
			t.Fatalf("%d: %d %s", i, status, text)
		}
	}
	log := d.log.String()
	if n := strings.Count(log, "/sys/abide-test: "); n != 1 || !strings.Contains(log, "there is none yet, so nothing is known of before; what limits use, what is learned, the history and a new CA are lost if this process ends before") {
		t.Errorf("%d lines about one cause: %s", n, log)
	}
	if said := d.out.String(); strings.Contains(said, "abide env") || !strings.Contains(said, "export HTTP_PROXY=http://") || !strings.Contains(said, "/ca.pem") {
		t.Errorf("the banner has a command that would fail:\n%s", said)
	}
	d.signal(syscall.SIGTERM)
	if status := d.status(); status != 0 {
		t.Errorf("it ends with %d", status)
	}
}

func saidEverywhere(t *testing.T, d *daemon) {
	t.Helper()
	const lost = "what is counted meanwhile is lost if this process ends"
	if status, text := d.ask("/readyz"); status != 200 || !strings.Contains(text, "state: degraded") || !strings.Contains(text, lost) {
		t.Errorf("/readyz says %d %s", status, text)
	}
	if _, text := d.ask("/metrics"); !strings.Contains(text, "abide_store_up 0") {
		t.Error("the metrics do not say it")
	}
	status := launch(t, d.cmd.Dir, nil, "status", "--admin", d.admin)
	if code := status.status(); code != 0 || !strings.Contains(status.out.String(), "the state file cannot be written since") || !strings.Contains(status.out.String(), lost) {
		t.Errorf("abide status ends with %d and says %s", code, status.out)
	}
	if n := strings.Count(d.log.String(), "nothing is saved until that is over"); n != 1 {
		t.Errorf("the log says %d times that nothing is saved: %s", n, d.log)
	}
}
