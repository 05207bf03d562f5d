// Package disk writes files that are complete or not there, and reads files of bounded size.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Write writes a file, which gets its name when it is complete, by put: os.Rename replaces a file of
// that name, and with os.Link one of several processes succeeds and the others get fs.ErrExist.
func Write(path string, mode fs.FileMode, put func(from, to string) error, write func(w io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*.new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // where os.Rename has not taken it
	if err := errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return put(f.Name(), path)
}

// Read reads a regular file of at most so many bytes, and returns its mode, too.
func Read(path string, most int64) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path) // before it is opened: opening a pipe would block
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	return text, info.Mode(), err
}

// Unwritable tells whether an error means that nothing can be written: the disk is full,
// read-only or broken, or permissions are missing. The cause may pass.
func Unwritable(err error) bool {
	causes := []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO}
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}
