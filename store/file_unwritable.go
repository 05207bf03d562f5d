package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	lib "modernc.org/sqlite/lib"
)

// unwritable says whether an error is of a disk that is full, read-only or broken, or of a
// directory that this user may not write: nothing is wrong with what the file contains,
// and it may be over at any time.
func unwritable(err error) bool {
	if damaged(err) || errors.Is(err, errNewer) {
		return false
	}
	switch sqliteCode(err) & 0xff {
	case lib.SQLITE_FULL, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_IOERR:
		return true
	}
	for _, one := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// beginUnwritten begins with a file that cannot be opened to be written, and with what can
// be read of it. The next write tries again, as after any other failure.
func (f *File) beginUnwritten(ctx context.Context, why error) error {
	d, err := f.openKept(ctx)
	if errors.Is(err, errNewer) {
		return err
	}
	if err == nil {
		f.disk.Store(d)
	}
	f.chores.lost = true
	f.note(advise(f.path, why))
	const lost = "what is counted until it can be written is lost if this process ends before"
	switch {
	case err == nil:
		f.find("state file %s: what it kept was read; %s", f.path, lost)
	case errors.Is(err, fs.ErrNotExist):
		f.find("state file %s: there is none yet, so nothing is known of before; %s", f.path, lost)
	default:
		f.find("state file %s: what it kept cannot be read either (%v), so limits begin as if nothing was used; %s", f.path, err, lost)
	}
	return nil
}

// tryAgain opens the file to be written, once a second, without waiting for somebody who
// has something to write.
func (f *File) tryAgain(ctx context.Context) {
	_ = f.write(ctx, func(d *disk, _ time.Time) error { return f.signIn(context.Background(), d) }) // Health has how that went
}

// openKept opens the file only to be read.
func (f *File) openKept(ctx context.Context) (*disk, error) {
	info, err := os.Lstat(f.path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a file (%v)", info.Mode())
	}
	// A file that was closed well has no log, and is complete without. With a log SQLite
	// needs one more file. It is not to make either of them: they would be as read-only as
	// the file is now.
	log, err := os.Stat(f.path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	_, beside := os.Stat(f.path + "-shm")
	switch {
	case err == nil && beside == nil:
		return f.dialKept(ctx, "mode=ro")
	case err == nil && log.Size() > 0:
		return nil, fmt.Errorf("a part of it is in a log that can be read only with another file: %w", beside)
	}
	return f.dialKept(ctx, "mode=ro&immutable=1")
}

func (f *File) dialKept(ctx context.Context, how string) (_ *disk, err error) {
	readers, err := sql.Open("sqlite", sourceOf(f.path, how+"&_query_only=1&_pragma=busy_timeout(5000)&_pragma=temp_store(MEMORY)&_pragma=cell_size_check(1)&_pragma=trusted_schema(0)"))
	if err != nil {
		return nil, err
	}
	readers.SetMaxOpenConns(2)
	d := newDisk()
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
	if err := h.judge(len(f.o.migrations), making(f.path)); err != nil {
		return nil, err
	}
	if h.version != len(f.o.migrations) {
		return nil, errors.New("it is of an older release, and has to be brought up to date first")
	}
	return d, nil
}
