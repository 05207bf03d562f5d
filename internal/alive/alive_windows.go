package alive

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks a byte of a file or returns ErrLocked. It does not wait.
func Lock(f *os.File, at Place) error {
	begin := windows.Overlapped{OffsetHigh: uint32(at)}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &begin)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}
