package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Check refuses what serve would not start with, in the same words, and changes nothing.
func TestCheckRefusesWhatServeDoes(t *testing.T) {
	junk := func(path ...string) func(string) error {
		return func(dir string) error {
			file := filepath.Join(append([]string{dir}, path...)...)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return err
			}
			return os.WriteFile(file, []byte("junk"), 0o600)
		}
	}
	for name, one := range map[string]struct {
		config string
		make   func(dir string) error
		says   string
	}{
		"roots that are not there": {"egress: {roots: there}", nil, "reading egress.roots "},
		"roots that are none":      {"egress: {roots: there}", junk("there"), "there has no PEM certificate in it"},
		"roots that are a directory": {
			"egress: {roots: there}",
			func(dir string) error { return os.Mkdir(filepath.Join(dir, "there"), 0o700) }, "reading egress.roots ",
		},
		"data that is a file":         {"", junk("data"), "opening the data directory"},
		"data below a file":           {"data: there/data", junk("there"), "opening the data directory"},
		"a CA without a key":          {"", junk("data", "ca", "ca.pem"), "has no key beside it"},
		"a key that is none":          {"", junk("data", "ca", "ca-key.pem"), "has no private key in PEM"},
		"a state file that is none":   {"strict_state: true", junk("data", stateFile), "it is not a SQLite file"},
		"a CA of the store not there": {"store: rediss://127.0.0.1:1?ca=there", nil, "reading the ca of the store's URL"},
		"a CA of the operator's":      {"ca: {cert: there, key: there}", junk("there"), "ca.cert: "},
		"tokens that are not there":   {"pools: {p: {file: there}}\nsites: [{host: a.test, pool: p}]", nil, "pools.p: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := one.config
			if !strings.Contains(config, "data: ") {
				config = "data: data\n" + config
			}
			write(t, filepath.Join(dir, "abide.yaml"), config+"\n")
			if one.make != nil {
				if err := one.make(dir); err != nil {
					t.Fatal(err)
				}
			}
			before := listing(t, dir)
			says(t, refusesToStart(t, dir, "check"), one.says)
			if after := listing(t, dir); after != before {
				t.Errorf("check has changed\n%s to\n%s", before, after)
			}
			says(t, refusesToStart(t, dir, serveArgs...), one.says)
		})
	}
}

// What serve makes itself, or goes on without, is no fault.
func TestCheckPassesWhatServeStartsWith(t *testing.T) {
	for name, config := range map[string]string{
		"nothing there yet":         "data: new/data\n",
		"a damaged state file":      "data: data\n",
		"an address that is not us": "listen: 192.0.2.1:3128\ndata: none\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "abide.yaml"), config)
			if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "data", stateFile), "junk")
			d := launch(t, dir, nil, "check")
			if status := d.status(); status != 0 {
				t.Errorf("it ended with %d: %s", status, d.log.String())
			}
			if warned := strings.Contains(d.log.String(), "does not have the address of 192.0.2.1:3128"); warned != strings.Contains(config, "192.0.2.1") {
				t.Error(d.log.String())
			}
		})
	}
}

// listing is what is in a directory.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all.WriteString(path + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
