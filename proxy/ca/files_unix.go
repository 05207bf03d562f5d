//go:build unix

package ca

import (
	"fmt"
	"io/fs"
	"os"
)

// checkKeyMode refuses a key that others can read: whoever has it can impersonate
// every host to the clients that trust this CA.
func checkKeyMode(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("reading the CA's key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("the CA's key %s can be used by others (mode %04o), who could then impersonate every host: chmod 600 it, or remove it together with ca.pem if it may have been read", path, mode)
	}
	return nil
}

// readableByAll tells whether every user of the machine can read a file.
func readableByAll(mode fs.FileMode) bool { return mode.Perm()&0o004 != 0 }

// checkDirMode refuses a directory in which others could put another key.
func checkDirMode(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("reading the directory of the CA: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the directory of the CA: %w", &fs.PathError{Op: "open", Path: dir, Err: fs.ErrInvalid})
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		cause := ""
		if info.Mode()&fs.ModeSetgid != 0 {
			cause = "; where a pod's fsGroup has done this, set fsGroupChangePolicy: OnRootMismatch beside it, too, and chmod 600 the key"
		}
		return fmt.Errorf("others can write to the directory of the CA %s (mode %04o) and so exchange its key: chmod 700 it%s", dir, mode, cause)
	}
	return nil
}
