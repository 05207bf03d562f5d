//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// link makes or swaps a symbolic link in one step.
func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestAChangeIsNoticedWhereverItHappensOnTheWayToTheFile(t *testing.T) {
	dir := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	for _, release := range []string{"1", "2", "3"} {
		write(t, at("releases", release, "etc", "real.yaml"), "release "+release)
		link(t, "real.yaml", at("releases", release, "etc", "abide.yaml"))
	}
	link(t, at("releases", "1"), at("current"))

	var w watch
	paths := []string{at("current", "etc", "abide.yaml")}
	look := func(name string, want ...bool) {
		t.Helper()
		for n, want := range want {
			if got := w.changed(paths); got != want {
				t.Errorf("%s: look %d tells %v", name, n+1, got)
			}
		}
	}
	look("nothing", false, false)
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"the file is written", func() { write(t, at("releases", "1", "etc", "real.yaml"), "new") }},
		{"the link to the file is swapped", func() {
			write(t, at("releases", "1", "etc", "other.yaml"), "other")
			link(t, "other.yaml", at("releases", "1", "etc", "abide.yaml"))
		}},
		{"what it leads to now is written", func() { write(t, at("releases", "1", "etc", "other.yaml"), "new") }},
		{"a link further up is swapped", func() { link(t, at("releases", "2"), at("current")) }},
		{"the file behind that is written", func() { write(t, at("releases", "2", "etc", "real.yaml"), "new") }},
		{"the directory is removed", func() { os.RemoveAll(at("releases", "2")) }},
		{"a link leads to another one", func() { link(t, at("releases", "3"), at("current")) }},
		{"which is written", func() { write(t, at("releases", "3", "etc", "real.yaml"), "new") }},
	} {
		step.do()
		look(step.name, false, true, false, false)
	}
	paths = []string{at("releases", "3", "etc")}
	look("another path", false, false)
	write(t, at("releases", "3", "etc", "real.yaml"), "newer")
	look("a file in a directory is written", false, true, false)
	write(t, at("releases", "3", "etc", "more"), "")
	look("a file comes", false, true, false)
	os.Remove(at("releases", "3", "etc", "more"))
	look("a file goes", false, true, false)
}

func TestAFileThatKeepsChangingIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "abide.yaml")
	var w watch
	w.changed([]string{path})
	told := 0
	for n := range 2*mostRestless + 1 {
		write(t, path, strconv.Itoa(1<<n))
		os.Remove(path + ".new")
		os.Rename(path, path+".new") // so that it is another file each time
		write(t, path, strconv.Itoa(1<<n))
		if w.changed([]string{path}) {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d changes were told, not one in %d looks", told, mostRestless)
	}
}
