//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// lockRegistration locks a file for as long as it is open. A file system without
// locks is no error: registrationLocked goes by the process ID there.
func lockRegistration(f *os.File) error {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) {
		return nil
	}
	return err
}

// registrationLocked tells whether the process that wrote a registration still runs.
func registrationLocked(f *os.File, pid int) bool {
	switch err := flock(f, syscall.LOCK_SH|syscall.LOCK_NB); {
	case err == nil:
		return false
	case errors.Is(err, syscall.EWOULDBLOCK):
		return true
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
