package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestUnwritableIsWhatMayBeOverAtAnyTime(t *testing.T) {
	for _, one := range []error{syscall.EROFS, syscall.ENOSPC, syscall.EACCES, syscall.EPERM, syscall.EDQUOT, syscall.EIO} {
		if !Unwritable(fmt.Errorf("writing: %w", &fs.PathError{Op: "open", Path: "x", Err: one})) {
			t.Error(one)
		}
	}
	for _, one := range []error{nil, errors.New("damaged"), fs.ErrNotExist, syscall.ENOTDIR} {
		if Unwritable(one) {
			t.Error(one)
		}
	}
}

func TestAFileThatIsNotWholeIsNotThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	full := errors.New("full")
	if err := Write(path, 0o600, os.Rename, func(io.Writer) error { return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Error(left)
	}
	text := func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }
	if err := Write(path, 0o640, os.Link, text); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, 0o640, os.Link, text); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := Write(path, 0o600, os.Rename, text); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Error(left)
	}
}
