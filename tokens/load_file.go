package tokens

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// file reads a CSV, or lines where the pool names no column.
func (l *loading) file(path string) {
	l.source = path
	data, open, err := read(path, mostBytes)
	if err != nil {
		l.fail(0, "%v", err)
		return
	}
	if open != "" {
		l.warn(0, "%s may read the secrets in it; chmod 600 is for you alone", open)
	}
	l.text(data)
}

// text is what a file has.
func (l *loading) text(data []byte) {
	if l.pool.Column == "" {
		if fault, ok := notAList(data); !ok {
			l.fail(fault.line, "%s", fault.text)
			return
		}
		for _, r := range parseLines(data) {
			l.take(r)
		}
		return
	}
	table := parseCSV(data, l.pool.Column, l.pool.Label)
	for _, r := range table.rows {
		l.take(r)
	}
	for _, f := range table.flaws {
		l.fail(f.line, "%s", f.text)
	}
	for _, f := range table.doubts {
		l.warn(f.line, "%s", f.text)
	}
}

// dir reads a directory with one secret a file, such as Kubernetes and Docker make.
func (l *loading) dir(path string) {
	l.source = path
	files, err := os.ReadDir(path)
	if err != nil {
		l.fail(0, "%v", reason(err))
		return
	}
	var readable, by string
	count := 0
	for _, f := range files {
		name := f.Name()
		if strings.HasPrefix(name, ".") { // also ..data, where Kubernetes has the files themselves
			continue
		}
		l.source = filepath.Join(path, name)
		if info, err := os.Stat(l.source); err == nil && info.IsDir() {
			continue
		}
		data, open, err := read(l.source, longest+64)
		if err != nil {
			l.fail(0, "%v", err)
			continue
		}
		if open != "" {
			readable, by = name, open
			count++
		}
		l.take(row{label: name, secret: trim(string(data))})
	}
	l.source = path
	switch {
	case count == 1:
		l.warn(0, "%s may read the secret in %s; mode 0400 is for you alone", by, readable)
	case count > 1:
		l.warn(0, "%s may read the secrets in %d files, such as %s; mode 0400 (defaultMode in Kubernetes) is for you alone", by, count, readable)
	}
}

// read reads a file, and says who else may.
func read(path string, most int64) (data []byte, others string, err error) {
	info, err := os.Stat(path) // before it is opened: that of a pipe would wait
	if err != nil {
		return nil, "", reason(err)
	}
	if !info.Mode().IsRegular() {
		return nil, "", errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", reason(err)
	}
	defer f.Close()
	if data, err = io.ReadAll(io.LimitReader(f, most+1)); err != nil {
		return nil, "", reason(err)
	}
	if int64(len(data)) > most {
		return nil, "", fmt.Errorf("is larger than %d bytes", most)
	}
	if len(data) >= 2 && (data[0] == 0xff && data[1] == 0xfe || data[0] == 0xfe && data[1] == 0xff) {
		return nil, "", errors.New("is UTF-16; save it as UTF-8")
	}
	return data, readers(info.Mode()), nil
}

// readers is who may read a file beside its owner.
func readers(mode fs.FileMode) string {
	switch {
	case runtime.GOOS == "windows": // whose modes say nothing of it
		return ""
	case mode&0o004 != 0:
		return "everybody on this machine"
	case mode&0o040 != 0:
		return "its group"
	}
	return ""
}

// reason is an error without its path, which the fault has.
func reason(err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist")
	case errors.As(err, &at):
		return fmt.Errorf("cannot be read: %w", at.Err)
	}
	return err
}
