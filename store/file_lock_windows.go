package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const noFollow = 0

// tryLock locks a byte far behind the end, so that other processes may read the owner.
func tryLock(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}

// shareDir takes a shared lock on a directory. It returns nil where directories cannot be
// locked, as on some network file systems.
func shareDir(string) (*os.File, error) { return nil, nil }

// removeLockFile empties the file: an open file cannot be removed on Windows.
func removeLockFile(f *os.File) { _ = f.Truncate(0) }

func ownerOf(os.FileInfo) (int, bool) { return 0, false }

// syncDir makes the names in a directory survive a loss of power.
func syncDir(string) error { return nil }
