//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func take(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func flock(f *os.File, how int) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errTaken
		default:
			return err
		}
	}
}

// shareDir takes a directory's own lock, which many processes may have. Where there is
// no such thing, as on some file systems over a network, it answers nil.
func shareDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil // what is wrong with it is said by who needs it
	}
	if err := flock(f, syscall.LOCK_SH); err != nil {
		f.Close()
		if errors.Is(err, errTaken) {
			return nil, err
		}
		return nil, nil
	}
	return f, nil
}

// drop removes the file while it is still locked, so that nobody can have it.
func drop(f *os.File) { _ = os.Remove(f.Name()) }

// owner is whose file it is, for people.
func owner(info os.FileInfo) (int, bool) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), true
	}
	return 0, false
}

// syncDir makes the names in a directory outlive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
