//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestAReloadThatRenewsTheCAWritesItsBundleAgain(t *testing.T) {
	dir := t.TempDir()
	config := func(names string) {
		write(t, filepath.Join(dir, "abide.yaml"), "data: data\nlisten_open: off\nintercept: ["+names+"]\n")
	}
	config("api.test")
	d := serveIn(t, dir, nil)
	if printed := launch(t, dir, nil, "ca", "env"); printed.status() != 0 {
		t.Fatalf("abide ca env: %s", printed.log)
	}
	kept := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, "data", "ca", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := kept("ca.pem")
	config("api.test, other.test")
	d.log.await(t, "the configuration was reloaded")
	root := kept("ca.pem")
	for _, name := range []string{"bundle.pem", "extra.pem"} {
		if text := kept(name); bytes.Equal(before, root) || !bytes.HasPrefix(text, root) || bytes.Contains(text, before) {
			t.Errorf("%s has another root than ca.pem", name)
		}
	}
}
