// Package alive tells by locked files which processes run. A process locks a file for as long as
// it runs: the system drops the lock when the process ends, however it ends.
//
//	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
//	err = alive.Lock(f, alive.Far)
//
// Versions of abide that run side by side lock the same files, so neither the files nor the
// locked bytes ever change.
package alive

import (
	"errors"
	"os"
)

// ErrLocked is returned when another process has the lock.
var ErrLocked = errors.New("another process has the lock")

// Place is the byte of a file that is locked on Windows, where a locked byte cannot be
// read, in units of 4 GiB. Elsewhere the file is locked.
type Place uint32

// The places of locks.
const (
	First Place = 0       // the first byte: for a file without text
	Far   Place = 1 << 30 // far behind the end, so that other processes may read the text
)

// IsAt reports whether an open file is the one at a path. A file may have been removed or moved
// between its opening and its locking.
func IsAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}
