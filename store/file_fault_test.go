//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestAFullDiskIsSaidAtOnceAndIsOverByItself(t *testing.T) {
	clock := newWall(time.Now())
	var pages atomic.Int64
	pages.Store(1 << 20)
	var opens atomic.Int64
	f := openFile(t, newPath(t), FileOptions{
		Now:     clock.now,
		pragmas: func() []string { return []string{fmt.Sprintf("max_page_count(%d)", pages.Load())} },
		fault: func(step string) error {
			if step == "open" {
				opens.Add(1)
			}
			return nil
		},
	})
	say(t, f, counts("s", "k", 1, 5))
	before, err := f.Pulse(t.Context(), Member{ID: "i"})
	if err != nil {
		t.Fatal(err)
	}
	f.done.Wait()
	pages.Store(1)
	if _, err := f.disk.Load().conn.ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 1<<20)
	fails := func(why string) error {
		t.Helper()
		err := f.Put(t.Context(), "ledger", "big", big, time.Time{})
		if err == nil || !strings.Contains(err.Error(), "the disk is full: make room in") {
			t.Fatalf("%s: %v", why, err)
		}
		return err
	}
	first := fails("at first")
	if h := f.Health(); !h.Since.Equal(clock.now()) || h.Err.Error() != first.Error() {
		t.Fatalf("%+v", h)
	}
	was := opens.Load()
	for range 100 {
		fails("soon after")
	}
	if opens.Load() != was {
		t.Errorf("it was tried %d times within a second", opens.Load()-was)
	}
	since := clock.now()
	clock.forward(time.Second)
	fails("still")
	if h := f.Health(); !h.Since.Equal(since) || !h.Tried.Equal(clock.now()) || opens.Load() == was {
		t.Fatalf("%+v, opened %d times", h, opens.Load()-was)
	}
	pages.Store(1 << 20)
	fails("not yet tried again")
	clock.forward(time.Second)
	if err := f.Put(t.Context(), "ledger", "big", big, time.Time{}); err != nil {
		t.Fatal(err)
	}
	after, err := f.Pulse(t.Context(), Member{ID: "i"})
	if err != nil || f.Health().Err != nil || after.Generation != before.Generation || len(lines(f)) != 1 {
		t.Fatal(f.Health(), lines(f), err)
	}
	// There was room for one write only, so the disk is still full, and the log does not say
	// anything else before writes have succeeded for a while.
	f.done.Wait()
	pages.Store(1)
	if _, err := f.disk.Load().conn.ExecContext(t.Context(), "PRAGMA max_page_count = 1"); err != nil {
		t.Fatal(err)
	}
	big = make([]byte, 2<<20)
	clock.forward(time.Second)
	fails("again")
	if h := f.Health(); !h.Since.Equal(since) || len(lines(f)) != 1 {
		t.Fatal(h, lines(f))
	}
	pages.Store(1 << 20)
	for range 6 {
		clock.forward(time.Second)
		if said := lines(f); len(said) != 1 {
			t.Fatal(said)
		}
		if err := f.Put(t.Context(), "ledger", "big", big, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if said := lines(f); len(said) != 2 || !strings.HasSuffix(said[1], "it can be written again, after 4s") || f.Health() != (Health{}) {
		t.Fatal(said, f.Health())
	}
	if k := recall(t, f)["s k"]; k.Ahead != 5 {
		t.Fatalf("%+v", k)
	}
}

func TestWhatFailedOnceIsNotBelievedUntilTheFileWasOpenedAnew(t *testing.T) {
	clock, path := newWall(time.Now()), newPath(t)
	var fails atomic.Value
	fails.Store("")
	steps := make(chan string, 100)
	f := openFile(t, path, FileOptions{
		Now: clock.now,
		fault: func(step string) error {
			steps <- step
			if step == fails.Load() {
				return syscall.EIO
			}
			return nil
		},
	})
	say(t, f, counts("s", "k", 1, 5))
	before, _ := f.Pulse(t.Context(), Member{ID: "i"})
	open := f.disk.Load()
	f.done.Wait()

	fails.Store("commit")
	if _, err := f.Exchange(t.Context(), counts("s", "k", 2, 6)); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if f.disk.Load() != nil || open.db.Ping() == nil {
		t.Fatal("the file is still open")
	}
	if _, err := f.Pulse(t.Context(), Member{ID: "i"}); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	for _, step := range []string{"checkpoint", "open"} {
		clock.forward(time.Second)
		fails.Store(step)
		if _, err := f.Exchange(t.Context(), counts("s", "k", 2, 6)); !errors.Is(err, syscall.EIO) {
			t.Fatalf("%s: %v", step, err)
		}
	}
	clock.forward(time.Second)
	fails.Store("")
	f.done.Wait()
	for len(steps) > 0 {
		<-steps
	}
	if a := say(t, f, counts("s", "k", 2, 6)); a.Status != Done {
		t.Fatalf("%+v", a)
	}
	if got := fmt.Sprint(<-steps, " ", <-steps, " ", <-steps); got != "open checkpoint commit" {
		t.Error(got)
	}
	if after, _ := f.Pulse(t.Context(), Member{ID: "i"}); after.Generation == before.Generation {
		t.Error("it is the same generation, though something may be lost")
	}
	f.Close()
	if k := recall(t, openFile(t, path, FileOptions{}))["s k"]; k.Ahead != 6 {
		t.Fatalf("%+v", k)
	}
}

// TestAFileThatMayNotGrow makes the kernel refuse writes, in a process of its own.
func TestAFileThatMayNotGrow(t *testing.T) {
	path := os.Getenv(childOf)
	if path == "" {
		c := child(t, t.Name(), newPath(t))
		if out, err := c.Output(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	clock := newWall(time.Now())
	f := openFile(t, path, FileOptions{Now: clock.now})
	say(t, f, counts("s", "k", 1, 5))
	f.done.Wait()
	size(t, 64<<10)
	big := make([]byte, 1<<20)
	if err := f.Put(t.Context(), "ledger", "big", big, time.Time{}); err == nil || f.Health().Err == nil {
		t.Fatal(err)
	}
	clock.forward(time.Second)
	if err := f.Put(t.Context(), "ledger", "big", big, time.Time{}); err == nil {
		t.Fatal("it has grown")
	}
	size(t, 1<<30)
	clock.forward(time.Second)
	if err := f.Put(t.Context(), "ledger", "big", big, time.Time{}); err != nil || f.Health().Err != nil {
		t.Fatal(err)
	}
	if k := recall(t, f)["s k"]; k.Ahead != 5 {
		t.Fatalf("%+v", k)
	}
}

// TestAFileThatMayNotBeWritten is about files that may not be written, which root may, so
// that is not who tries it.
func TestAFileThatMayNotBeWritten(t *testing.T) {
	dir := os.Getenv(childOf)
	if dir == "" {
		c := child(t, t.Name(), t.TempDir())
		if os.Geteuid() == 0 {
			become(t, c)
		}
		if out, err := c.Output(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	path := filepath.Join(dir, "state", "abide.db")
	kept := openFile(t, path, FileOptions{})
	say(t, kept, counts("s", "kept", 1, 5))
	kept.Close()
	refused := func(why, path, word string) {
		t.Helper()
		_, err := OpenFile(t.Context(), path, FileOptions{Strict: true})
		if err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", why, err)
		}
		f, open := OpenFile(t.Context(), path, FileOptions{})
		if open == nil {
			if h := f.Health(); h.Err == nil || h.Err.Error() != err.Error() {
				t.Errorf("%s: %v", why, h)
			}
			if k, _ := f.Recall(t.Context()); len(k) == 1 != strings.HasPrefix(why, "readable") {
				t.Errorf("%s: of what was kept is known %v", why, k)
			}
			f.Close()
		}
		if ends := strings.Contains(word, "not a directory"); ends != (open != nil) {
			t.Errorf("%s: without strict state it says %v", why, open)
		}
		if bad, _ := filepath.Glob(path + ".bad-*"); len(bad) != 0 {
			t.Errorf("%s: it was set aside", why)
		}
	}
	mode := func(name string, m os.FileMode) {
		t.Helper()
		if err := os.Chmod(name, m); err != nil {
			t.Fatal(err)
		}
	}
	mode(path, 0o400)
	refused("readable: the file", path, fmt.Sprintf("let user %d read and write", os.Geteuid()))
	mode(path, 0)
	refused("the file, not even read", path, "permission denied")
	mode(path, 0o600)
	mode(filepath.Dir(path), 0o500)
	refused("readable: the directory", path, "another data directory")
	refused("a directory in it", filepath.Join(filepath.Dir(path), "more", "abide.db"), "another data directory")
	mode(filepath.Dir(path), 0o700)
	refused("below a file", filepath.Join(path, "abide.db"), "not a directory")
	refused("of somebody else", "/abide.db", "/ belongs to user 0")

	clock := newWall(time.Now())
	f := openFile(t, path, FileOptions{Now: clock.now})
	say(t, f, counts("s", "k", 1, 5))
	f.done.Wait()
	if _, err := f.disk.Load().conn.ExecContext(context.Background(), "PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Exchange(t.Context(), counts("s", "k", 2, 6)); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Fatal(err)
	}
	clock.forward(time.Second)
	say(t, f, counts("s", "k", 2, 6))
}

// become makes a child somebody who is not root, from a copy that he may run.
func become(t *testing.T, c *exec.Cmd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, one := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(one); err != nil || (one == dir && os.Chmod(one, 0o777) != nil) || (one != dir && info.Mode()&1 == 0) {
			t.Fatal("nobody else may come here")
		}
	}
	from, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "test"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	c.Path, c.Dir = to.Name(), dir
	c.Env = append(c.Env, childOf+"="+filepath.Join(dir, "data"), "TMPDIR="+dir, "HOME="+dir)
	asNobody(c)
}
