//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"

	"github.com/abide-proxy/abide/internal/alive"
)

const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// shareDir takes a shared lock on a directory. It returns nil where directories cannot be
// locked, as on some network file systems.
func shareDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil // the later use of it reports the error
	}
	if err := alive.Share(f); err != nil {
		f.Close()
		if errors.Is(err, alive.ErrLocked) {
			return nil, err
		}
		return nil, nil
	}
	return f, nil
}

// removeLockFile removes the file while it is still locked, so that no other process can
// lock it.
func removeLockFile(f *os.File) { _ = os.Remove(f.Name()) }

// ownerOf is the user ID of a file's owner.
func ownerOf(info os.FileInfo) (int, bool) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), true
	}
	return 0, false
}

// syncDir makes the names in a directory survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
