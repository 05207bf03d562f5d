//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
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

	w, err := newWatch(at("current", "etc", "abide.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	changed := make(chan struct{}, 100)
	go func() {
		defer close(ended)
		w.run(ctx, time.Millisecond, func() { changed <- struct{}{} })
	}()
	defer func() { stop(); <-ended }()

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
		select {
		case <-changed:
		case <-time.After(patience):
			t.Fatalf("%s: not noticed", step.name)
		}
		// A step may be several changes; the next one starts from rest.
		for rest := false; !rest; {
			select {
			case <-changed:
			case <-time.After(20 * time.Millisecond):
				rest = true
			}
		}
	}
}

func TestComponentsEndWithALoop(t *testing.T) {
	dir := t.TempDir()
	link(t, "b", filepath.Join(dir, "a"))
	link(t, "a", filepath.Join(dir, "b"))
	if got := components(filepath.Join(dir, "a")); len(got) != 2 {
		t.Errorf("a loop of two links has %v", got)
	}
}

// Kubernetes removes the old directory as soon as the link leads to the new one,
// which may be just when somebody follows it.
func TestAPathThatMovesWhileItIsFollowedIsWatched(t *testing.T) {
	dir := t.TempDir()
	version := func(n int) string { return filepath.Join(dir, ".."+strconv.Itoa(n)) }
	write(t, filepath.Join(version(0), "abide.yaml"), "0")
	link(t, version(0), filepath.Join(dir, "..data"))
	link(t, filepath.Join("..data", "abide.yaml"), filepath.Join(dir, "abide.yaml"))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Mkdir(version(n), 0o700)
			_ = os.WriteFile(filepath.Join(version(n), "abide.yaml"), nil, 0o600)
			_ = os.Symlink(version(n), filepath.Join(dir, "..new"))
			_ = os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data"))
			_ = os.RemoveAll(version(n - 1))
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 300 {
		w, err := newWatch(filepath.Join(dir, "abide.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		w.events.Close()
	}
}
