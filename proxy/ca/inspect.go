package ca

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Inspect tells why Open would refuse the CA in dir, and changes nothing. A missing CA or
// directory is fine.
func Inspect(dir string) error {
	if dir == "" {
		return nil
	}
	if err := creatable(dir); err != nil {
		return fmt.Errorf("making the directory of the CA: %w", err)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := checkDirMode(dir); err != nil {
		return err
	}
	f := files{dir}
	key, err := f.readKey()
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(f.rootPath()); err == nil {
			return f.errNoKey()
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

// creatable tells why a directory is missing and cannot be created.
func creatable(dir string) error {
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
		return creatable(above)
	}
	return nil
}
