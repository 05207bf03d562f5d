package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// openForReading opens the file read-only.
func (f *opener) openForReading(ctx context.Context) (*database, error) {
	info, err := os.Lstat(f.path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a file (%v)", info.Mode())
	}
	// A cleanly closed file has no log and is complete without. With a log, SQLite needs
	// the -shm file, too. Neither must be created here: they would be as read-only as the
	// file is now.
	log, err := os.Stat(f.path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	_, beside := os.Stat(f.path + "-shm")
	switch {
	case err == nil && beside == nil:
		return f.connectForReading(ctx, "mode=ro")
	case err == nil && log.Size() > 0:
		return nil, fmt.Errorf("a part of it is in a log that can be read only with another file: %w", beside)
	}
	return f.connectForReading(ctx, "mode=ro&immutable=1")
}

func (f *opener) connectForReading(ctx context.Context, how string) (_ *database, err error) {
	readers, err := sql.Open("sqlite", sourceOf(f.path, how+"&_query_only=1&_pragma=busy_timeout(5000)&_pragma=temp_store(MEMORY)&_pragma=cell_size_check(1)&_pragma=trusted_schema(0)"))
	if err != nil {
		return nil, err
	}
	readers.SetMaxOpenConns(2)
	d := newDatabase()
	d.readers, d.readOnly = readers, true
	defer func() {
		if err != nil {
			_ = d.close()
		}
	}()
	conn, err := readers.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	h, err := readHeader(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := h.check(len(f.o.migrations), isBeingMade(f.path)); err != nil {
		return nil, err
	}
	if h.version != len(f.o.migrations) {
		return nil, errors.New("it is of an older release, and has to be brought up to date first")
	}
	return d, nil
}
