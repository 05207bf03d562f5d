//go:build unix

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// At the start nothing can be written, in each step of opening and for each reason. What
// was kept is read, and when the reason is over all of it is still there.
func TestAFileThatCannotBeWrittenAtTheStartIsReadAndTriedAgain(t *testing.T) {
	for _, step := range []string{"lock", "open"} {
		for _, why := range []error{syscall.EROFS, syscall.ENOSPC, syscall.EACCES, syscall.EPERM, syscall.EDQUOT, syscall.EIO} {
			t.Run(fmt.Sprint(step, " ", why), func(t *testing.T) {
				path, clock := newPath(t), newWall(time.Now())
				first := openFile(t, path, FileOptions{Now: clock.now})
				say(t, first, counts("s", "k", 1, 5))
				if err := first.Put(t.Context(), "limits", "site", []byte("x"), time.Time{}); err != nil {
					t.Fatal(err)
				}
				before, _ := first.Pulse(t.Context(), Member{ID: "i"})
				first.Close()
				var over atomic.Bool
				o := FileOptions{Now: clock.now, fault: func(at string) error {
					if at == step && !over.Load() {
						return &os.PathError{Op: "open", Path: path, Err: why}
					}
					return nil
				}}
				strict := o
				strict.Strict = true
				if _, err := OpenFile(t.Context(), path, strict); !errors.Is(err, why) {
					t.Fatalf("it is to be strict, and says %v", err)
				}
				f := openFile(t, path, o)
				if h := f.Health(); !errors.Is(h.Err, why) || !h.Since.Equal(clock.now()) {
					t.Fatalf("%+v", h)
				}
				if said := fmt.Sprint(lines(f)); !strings.Contains(said, "what it kept was read") || !strings.Contains(said, "are lost if this process ends") {
					t.Error(said)
				}
				if k := recall(t, f)["s k"]; k.Ahead != 5 {
					t.Errorf("of the limit is known %+v", k)
				}
				if all, err := f.All(t.Context(), "limits"); err != nil || string(all["site"]) != "x" {
					t.Errorf("of what was set is known %v, %v", all, err)
				}
				if _, err := f.Pulse(t.Context(), Member{ID: "i"}); !errors.Is(err, why) {
					t.Errorf("the store is said to be there: %v", err)
				}
				for range 2 {
					clock.forward(time.Second)
					if _, err := f.Exchange(t.Context(), counts("s", "k", 2, 6)); !errors.Is(err, why) {
						t.Fatal(err)
					}
				}
				over.Store(true)
				clock.forward(time.Second)
				f.retryOpen(t.Context())
				say(t, f, counts("s", "other", 2, 6))
				after, err := f.Pulse(t.Context(), Member{ID: "i"})
				if err != nil || f.Health().Err != nil || after.Generation == before.Generation {
					t.Fatal(after, f.Health(), err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				known := recall(t, openFile(t, path, FileOptions{Now: clock.now, Strict: true}))
				if known["s k"].Ahead != 5 || known["s other"].Ahead != 6 {
					t.Errorf("%+v", known)
				}
			})
		}
	}
}

// There is no directory yet, and none can be made.
func TestADirectoryThatCannotBeMadeAtTheStart(t *testing.T) {
	dir, clock := t.TempDir(), newWall(time.Now())
	var over atomic.Bool
	path := filepath.Join(dir, "data", "abide.db")
	f := openFile(t, path, FileOptions{Now: clock.now, fault: func(string) error {
		if over.Load() {
			return nil
		}
		_ = os.Remove(filepath.Join(dir, "data"))
		return syscall.EROFS
	}})
	if all, err := f.Recall(t.Context()); !errors.Is(err, syscall.EROFS) || len(all) != 0 {
		t.Fatal(all, err)
	}
	if said := fmt.Sprint(lines(f)); !strings.Contains(said, "there is none yet") {
		t.Error(said)
	}
	if len(f.others()) != 0 {
		t.Error("somebody else is said to use it")
	}
	over.Store(true)
	clock.forward(time.Second)
	say(t, f, counts("s", "k", 1, 5))
	if k := recall(t, f)["s k"]; k.Ahead != 5 || f.Health().Err != nil {
		t.Fatal(k, f.Health())
	}
}

// A file whose process was killed has a log beside it, and what that has is read as well.
func TestAFileWithALogThatCannotBeWrittenIsRead(t *testing.T) {
	from, path := newPath(t), newPath(t)
	first := openFile(t, from, FileOptions{})
	say(t, first, counts("s", "k", 1, 5))
	first.done.Wait()
	for _, tail := range []string{"", "-wal", "-shm"} {
		text, err := os.ReadFile(from + tail)
		if err == nil {
			err = os.WriteFile(path+tail, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f := openFile(t, path, FileOptions{fault: func(string) error { return syscall.EROFS }})
	if k := recall(t, f)["s k"]; k.Ahead != 5 {
		t.Fatalf("%+v; %v", k, lines(f))
	}
}

// What is wrong with the file is said as ever, whether it can be written or not.
func TestAFileThatCannotBeWrittenNorUsed(t *testing.T) {
	readOnly := func(string) error { return syscall.EROFS }
	newer, older := newPath(t), newPath(t)
	openFile(t, newer, FileOptions{migrations: append(migrations[:len(migrations):len(migrations)], "SELECT 1")}).Close()
	if _, err := OpenFile(t.Context(), newer, FileOptions{fault: readOnly}); !errors.Is(err, errNewer) {
		t.Error(err)
	}
	openFile(t, older, FileOptions{}).Close()
	text, err := os.ReadFile(older)
	if err != nil {
		t.Fatal(err)
	}
	text[63] = 1 // its version
	if err := os.WriteFile(older, text, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := newPath(t)
	if err := os.WriteFile(damaged, []byte(strings.Repeat("nothing of ours ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, word := range map[string]string{older: "older release", damaged: "not a database"} {
		f := openFile(t, path, FileOptions{fault: readOnly})
		if said := fmt.Sprint(lines(f)); !strings.Contains(said, "cannot be read either") || !strings.Contains(said, word) {
			t.Error(said)
		}
		if all, err := f.Recall(t.Context()); !errors.Is(err, syscall.EROFS) || len(all) != 0 {
			t.Error(all, err)
		}
	}
}
