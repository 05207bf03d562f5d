//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe that nobody writes to, a device and a huge file in the place of each file that is
// read: that is said, and nothing waits for ever.
func TestWhatIsNoFileIsSaid(t *testing.T) {
	for _, as := range []string{"pipe", "terminal", "zeros", "huge"} {
		for name, config := range map[string]string{
			"configuration": "",
			"tokens":        "pools: {p: {file: there}}\nsites: [{host: a.test, pool: p}]\n",
			"roots":         "egress: {roots: there}\n",
			"ca":            "ca: {cert: there, key: there}\n",
		} {
			t.Run(name+" "+as, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				there := filepath.Join(dir, "there")
				switch as {
				case "pipe":
					if err := syscall.Mkfifo(there, 0o600); err != nil {
						t.Fatal(err)
					}
				case "terminal":
					if err := os.Symlink("/dev/ptmx", there); err != nil {
						t.Fatal(err)
					}
				case "zeros":
					if err := os.Symlink("/dev/zero", there); err != nil {
						t.Fatal(err)
					}
				case "huge":
					f, err := os.Create(there)
					if err == nil {
						err = f.Truncate(1 << 33)
					}
					if err != nil {
						t.Fatal(err)
					}
					f.Close()
				}
				file := there
				if config != "" {
					file = filepath.Join(dir, "abide.yaml")
					write(t, file, "data: data\n"+config)
				}
				for _, args := range [][]string{{"check", file}, {"serve", "--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}} {
					d := launch(t, dir, nil, args...)
					if status := d.status(); status == 0 {
						t.Errorf("%v ended with 0", args)
					}
					if text := d.out.String() + d.log.String(); !strings.Contains(text, "there") || strings.Contains(text, "panic") {
						t.Errorf("%v: %s", args, text)
					}
				}
			})
		}
	}
}

// A configuration that somebody writes into a pipe is read, as from <(…) of a shell.
func TestAConfigurationMayComeThroughAPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	d := launch(t, dir, nil, "check", pipe)
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "sites: [{host: a.test, limits: [{requests: 7, per: 1m}]}]")
	f.Close()
	if status := d.status(); status != 0 || !strings.Contains(d.out.String(), "7 requests per 1m") {
		t.Errorf("%d: %s %s", status, d.out, d.log)
	}
}
