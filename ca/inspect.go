package ca

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Inspect reads the CA in dir, makes and changes nothing, and answers why Open would not
// use it. No CA, or no directory yet, is well.
func Inspect(dir string) error {
	if dir == "" {
		return nil
	}
	if err := makeable(dir); err != nil {
		return fmt.Errorf("making the directory of the CA: %w", err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := private(dir); err != nil {
		return err
	}
	f := files{dir}
	key, err := f.readKey()
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(f.rootPath()); err == nil {
			return f.keyless()
		}
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := f.readRoot(key); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeable answers why a directory is none and cannot be made, as far as what is there
// stands in the way.
func makeable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a directory")}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("it is a link to what is not there")}
	}
	if above := filepath.Dir(dir); above != dir {
		return makeable(above)
	}
	return nil
}
