package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// spoiled makes that nothing can be written to the state file in data, by filling the
// disk where this machine lets us have one to fill, and otherwise by putting a link in
// the file's place. It answers how that ends.
func spoiled(t *testing.T, data string, small bool) (mend func()) {
	t.Helper()
	if small {
		ballast := filepath.Join(data, "ballast")
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		for size := 1 << 16; size > 0; {
			if _, err := f.Write(make([]byte, size)); err != nil {
				size /= 2
			}
		}
		f.Close()
		return func() { os.Remove(ballast) }
	}
	file := filepath.Join(data, stateFile)
	if err := errors.Join(os.Rename(file, file+".away"), os.Symlink("nowhere", file)); err != nil {
		t.Fatal(err)
	}
	return func() { _ = errors.Join(os.Remove(file), os.Rename(file+".away", file)) }
}

// TestAFullDiskIsSaidAndServedOn: requests go on, /readyz, the log and the metrics
// say it, once, and it is over when there is room again.
func TestAFullDiskIsSaidAndServedOn(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"full", "taken away"} {
		t.Run(how, func(t *testing.T) { cannotBeWritten(t, how == "full") })
	}
}

func cannotBeWritten(t *testing.T, small bool) {
	o, dir := newOrigin(t), t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if small = small && syscall.Mount("tmpfs", data, "tmpfs", 0, "size=1m,mode=700") == nil; small {
		t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	}
	write(t, filepath.Join(dir, "abide.yaml"), `
data: data
egress: {resolve: {"api.test:80": "`+strings.TrimPrefix(o.url, "http://")+`"}}
sites: [{host: api.test, learn: false, limits: [{requests: 100000, per: day}]}]
`)
	d := serveIn(t, dir, nil)
	asked := 0
	ask := func() {
		t.Helper()
		asked++
		began := time.Now()
		if status, text := d.get("http://api.test/"); status != 200 || time.Since(began) > 15*time.Second {
			t.Fatalf("%d %s after %v", status, text, time.Since(began))
		}
	}
	ready := func(wanted string) func() bool {
		return func() bool {
			ask()
			status, text := d.ask("/readyz")
			return status == 200 && strings.Contains(text, wanted)
		}
	}
	keepsTrying(t, "well", ready("state: ok"))
	mend := spoiled(t, data, small)
	keepsTrying(t, "degraded", ready("state: degraded"))
	keepsTrying(t, "the metric", func() bool { _, text := d.ask("/metrics"); return strings.Contains(text, "abide_store_up 0") })
	for range 50 {
		ask()
	}
	mend()
	keepsTrying(t, "well again", ready("state: ok"))
	keepsTrying(t, "the metric", func() bool { ask(); _, text := d.ask("/metrics"); return strings.Contains(text, "abide_store_up 1") })
	keepsTrying(t, "the log says so", func() bool { return strings.Contains(d.log.String(), "it can be written again") })
	log := d.log.String()
	if n := strings.Count(log, "nothing is saved until that is over"); n != 1 {
		t.Errorf("the log says %d times that it cannot be written: %s", n, log)
	}
	if n := strings.Count(log, "it can be written again"); n != 1 {
		t.Errorf("the log says %d times that it can be written again: %s", n, log)
	}
	if small && !strings.Contains(log, "the disk is full") {
		t.Errorf("the log does not say why: %s", log)
	}
	d.signal(syscall.SIGTERM)
	if status := d.status(); status != 0 {
		t.Errorf("it ended with %d", status)
	}
	d = serveIn(t, dir, nil)
	ask()
	if counted := 100_000 - left(t, d, "api.test"); counted < asked {
		t.Errorf("%d of %d requests are counted", counted, asked)
	}
}
