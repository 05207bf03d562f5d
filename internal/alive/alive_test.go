package alive

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestALockLastsAsLongAsItsFileIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	ours, theirs := open(t, path), open(t, path)
	if err := Lock(ours, Far); err != nil {
		t.Fatal(err)
	}
	if err := Lock(theirs, Far); !errors.Is(err, ErrLocked) {
		t.Fatalf("locked twice: %v", err)
	}
	ours.Close()
	if err := Lock(theirs, Far); err != nil {
		t.Fatalf("the lock of a closed file is still there: %v", err)
	}
}

func TestAFileThatWasRemovedOrReplacedIsNotAtItsPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	if !IsAt(f, path) {
		t.Fatal("it is not at its path")
	}
	if os.Rename(path, path+".old") != nil {
		return // an open file cannot be moved here
	}
	if IsAt(f, path) {
		t.Fatal("it is at a path without a file")
	}
	open(t, path)
	if IsAt(f, path) {
		t.Fatal("it is at the path of another file")
	}
}
