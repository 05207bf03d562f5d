//go:build !unix

package ca

import (
	"io/fs"
	"os"
)

// claim gives a complete file its name unless there is one.
func claim(from, to string) error { return os.Link(from, to) }

// Where permissions are lists and not bits, the user's profile, in which the
// data directory is, is closed to others already.
func secret(*os.File) error { return nil }

func private(string) error { return nil }

// readableByAll cannot be told from a mode here.
func readableByAll(fs.FileMode) bool { return false }
