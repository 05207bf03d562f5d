package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const noFollow = 0

// take locks a byte far behind the end, so that others may read who has it.
func take(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errTaken
	}
	return err
}

// shareDir does nothing: directories have no locks here.
func shareDir(string) (*os.File, error) { return nil, nil }

// drop leaves the file, which is open here and cannot be removed.
func drop(f *os.File) { _ = f.Truncate(0) }

func owner(os.FileInfo) (int, bool) { return 0, false }

// syncDir does nothing: names are written with the file there.
func syncDir(string) error { return nil }
