//go:build unix

package alive

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks a file or returns ErrLocked. It does not wait.
func Lock(f *os.File, _ Place) error { return flock(f, syscall.LOCK_EX) }

// Share locks a file together with others that share it, or returns ErrLocked. It does not wait.
func Share(f *os.File) error { return flock(f, syscall.LOCK_SH) }

func flock(f *os.File, how int) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		default:
			return err
		}
	}
}
