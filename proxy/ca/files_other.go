//go:build !unix

package ca

import (
	"io/fs"
)

// checkKeyMode accepts every file. Where permissions are lists and not bits, the data
// directory is in the user's profile, which others cannot read.
func checkKeyMode(string) error { return nil }

func checkDirMode(string) error { return nil }

// readableByAll cannot be told from a mode here.
func readableByAll(fs.FileMode) bool { return false }
