package store

import (
	"os"
)

const noFollow = 0

// shareDir takes a shared lock on a directory. It returns nil where directories cannot be
// locked, as on some network file systems.
func shareDir(string) (*os.File, error) { return nil, nil }

// removeLockFile empties the file: an open file cannot be removed on Windows.
func removeLockFile(f *os.File) { _ = f.Truncate(0) }

func ownerOf(os.FileInfo) (int, bool) { return 0, false }

// syncDir makes the names in a directory survive a loss of power.
func syncDir(string) error { return nil }
