//go:build !unix

package main

import "os"

// columns is how wide a terminal is; false for a file that is no terminal.
func columns(*os.File) (int, bool) { return 0, false }
