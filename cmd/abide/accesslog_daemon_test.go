//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheAccessLogIsRotatedAndPlanned checks that the file is opened again after SIGUSR1, and
// that abide plan reads both files.
func TestTheAccessLogIsRotatedAndPlanned(t *testing.T) {
	o, dir := refusingOrigin(t, 0), t.TempDir()
	config := filepath.Join(dir, "abide.yaml")
	write(t, config, "sites: [{host: api.test, learn: false, limits: [{requests: 1000, per: 1s}]}]\n")
	path := filepath.Join(dir, "access.jsonl")
	d := serveIn(t, dir, []string{o.named()}, "--log-access="+path)
	requests := 0
	get := func() {
		requests++
		if status, body := d.get("http://api.test/one"); status != 200 {
			t.Fatal(status, body)
		}
	}
	lines := func(path string) int {
		text, _ := os.ReadFile(path) // a file that is not there has no lines
		return bytes.Count(text, []byte("\n"))
	}
	get()
	for until := time.Now().Add(time.Minute); lines(path) == 0 && time.Now().Before(until); {
		<-time.After(time.Millisecond)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	d.signal(syscall.SIGUSR1)
	for until := time.Now().Add(time.Minute); lines(path) == 0 && time.Now().Before(until); {
		get() // until the signal has arrived, lines go to the renamed file
	}
	d.signal(syscall.SIGTERM)
	d.status()
	if before, after := lines(path+".1"), lines(path); before == 0 || after == 0 || before+after != requests {
		t.Errorf("%d lines and %d lines of %d requests", before, after, requests)
	}
	code, out, errs := d.command("plan", "--config", config, "--from-log", path+".1")
	if code != 0 || !strings.Contains(out, "limited by") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}
