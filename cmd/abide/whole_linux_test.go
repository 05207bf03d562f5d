//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestAFileKeepsItsKind: what is written to a link, and to a device, does not take its place.
func TestAFileKeepsItsKind(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := writeWhole(path, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	write(file, "first")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	write(link, "second")
	if text, err := os.ReadFile(file); err != nil || string(text) != "second" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		defer w.Close()
		write(fmt.Sprint("/proc/self/fd/", w.Fd()), "third")
	}()
	if text, err := io.ReadAll(r); err != nil || string(text) != "third" {
		t.Errorf("%q, %v", text, err)
	}
}
