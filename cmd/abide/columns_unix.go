//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// columns is the width of a terminal, 0 if the terminal does not know its width; false for a
// file that is no terminal.
func columns(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
