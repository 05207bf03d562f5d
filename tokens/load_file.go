package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// fileSource reads a file: a CSV table if the pool names a column, otherwise one secret per
// line. The value is the path.
type fileSource string

func (f fileSource) read(_ context.Context, l *loader) {
	path := string(f)
	l.source = path
	data, open, err := readFile(path, maxFileBytes)
	if err != nil {
		l.fail(0, "%v", err)
		return
	}
	if open != "" {
		l.warn(0, "%s may read the secrets in it; chmod 600 is for you alone", open)
	}
	l.text(data)
}

// text reads the content of a file.
func (l *loader) text(data []byte) {
	if l.pool.Column == "" {
		if fault, ok := tableFault(data); !ok {
			l.fail(fault.line, "%s", fault.text)
			return
		}
		for _, r := range parseLines(data) {
			l.add(r)
		}
		return
	}
	table := parseCSV(data, l.pool.Column, l.pool.Label, l.pool.Account)
	for _, r := range table.rows {
		l.add(r)
	}
	for _, f := range table.faults {
		l.fail(f.line, "%s", f.text)
	}
	for _, f := range table.warnings {
		l.warn(f.line, "%s", f.text)
	}
}

// parseLines reads one secret per line. Blank lines and lines that begin with # are
// skipped.
func parseLines(data []byte) []rawToken {
	var rows []rawToken
	line := 0
	for s := range strings.SplitSeq(strings.TrimPrefix(string(data), bom), "\n") {
		line++
		if s = trim(s); s == "" || s[0] == '#' {
			continue
		}
		rows = append(rows, rawToken{secret: s, line: line})
	}
	return rows
}

// lineFault is a fault in one line of a file.
type lineFault struct {
	line int
	text string
}

func lineFaultf(line int, format string, args ...any) lineFault {
	return lineFault{line, fmt.Sprintf(format, args...)}
}

// dirSource reads a directory with one secret per file, as Kubernetes and Docker make it.
// The value is the path.
type dirSource string

func (d dirSource) read(ctx context.Context, l *loader) {
	path := string(d)
	l.source = path
	files, err := os.ReadDir(path)
	if err != nil {
		l.fail(0, "%v", withoutPath(err))
		return
	}
	var readable, by string
	count := 0
	for _, f := range files {
		if ctx.Err() != nil { // Load reports it
			return
		}
		name := f.Name()
		if strings.HasPrefix(name, ".") { // also skips ..data, the directory behind Kubernetes' links
			continue
		}
		l.source = filepath.Join(path, name)
		if info, err := os.Stat(l.source); err == nil && info.IsDir() {
			continue
		}
		data, open, err := readFile(l.source, maxSecretBytes+64)
		if err != nil {
			l.fail(0, "%v", err)
			continue
		}
		if open != "" {
			readable, by = name, open
			count++
		}
		l.add(rawToken{label: name, secret: trim(string(data))})
	}
	l.source = path
	switch {
	case count == 1:
		l.warn(0, "%s may read the secret in %s; mode 0400 is for you alone", by, readable)
	case count > 1:
		l.warn(0, "%s may read the secrets in %d files, such as %s; mode 0400 (defaultMode in Kubernetes) is for you alone", by, count, readable)
	}
}

// readFile reads a file of at most the given size. others names the users beside the owner
// who may read the file; "" is none.
func readFile(path string, most int64) (data []byte, others string, err error) {
	info, err := os.Stat(path) // before opening: opening a pipe would block
	if err != nil {
		return nil, "", withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, "", errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", withoutPath(err)
	}
	defer f.Close()
	if data, err = io.ReadAll(io.LimitReader(f, most+1)); err != nil {
		return nil, "", withoutPath(err)
	}
	if int64(len(data)) > most {
		return nil, "", fmt.Errorf("is larger than %d bytes", most)
	}
	if len(data) >= 2 && (data[0] == 0xff && data[1] == 0xfe || data[0] == 0xfe && data[1] == 0xff) {
		return nil, "", errors.New("is UTF-16; save it as UTF-8")
	}
	return data, otherReaders(info.Mode()), nil
}

// otherReaders names the users beside the owner who may read a file with this mode.
func otherReaders(mode fs.FileMode) string {
	switch {
	case runtime.GOOS == "windows": // its file modes do not tell it
		return ""
	case mode&0o004 != 0:
		return "everybody on this machine"
	case mode&0o040 != 0:
		return "its group"
	}
	return ""
}

// withoutPath returns an error without its path, which the fault already has.
func withoutPath(err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist")
	case errors.As(err, &at):
		return fmt.Errorf("cannot be read: %w", at.Err)
	}
	return err
}
