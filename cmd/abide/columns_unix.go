//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// columns is how wide a terminal is, 0 if it does not know; false for a file that is
// no terminal.
func columns(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
