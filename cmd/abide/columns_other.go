//go:build !unix

package main

import "os"

// columns is the width of a terminal, 0 if the terminal does not know its width; false for a
// file that is no terminal.
func columns(*os.File) (int, bool) { return 0, false }
