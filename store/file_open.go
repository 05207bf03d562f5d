package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver
	lib "modernc.org/sqlite/lib"
)

// disk is an open file.
type disk struct {
	db, readers *sql.DB
	conn        *sql.Conn // the only one that writes
	says        map[string]*sql.Stmt
	info        os.FileInfo // of the file that was opened
	generation  string
	born        time.Time // when this generation began
	readOnly    bool      // it has readers alone

	reads sync.RWMutex    // held by who reads, and for good by who closes it
	open  context.Context // until it is closed
	end   context.CancelFunc
}

func newDisk() *disk {
	d := &disk{says: map[string]*sql.Stmt{}}
	d.open, d.end = context.WithCancel(context.Background())
	return d
}

// hold keeps the file open for who reads it, until release. The context ends when the file
// is to be closed. It is false when that is so already.
func (d *disk) hold(ctx context.Context) (_ context.Context, release func(), ok bool) {
	if !d.reads.TryRLock() {
		return ctx, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.open, cancel)
	return ctx, func() {
		stop()
		cancel()
		d.reads.RUnlock()
	}, true
}

// checked is up to which size a file is always looked through when it is opened. A
// larger one is only after an unclean end, and not for longer than patience. What is
// not found then is when it is met.
const (
	checked  = 8 << 20
	patience = time.Second
)

// connect opens the file. One that cannot be used is set aside and a new one made. It is
// called within a section.
func (f *File) connect(ctx context.Context) error {
	d, err := f.openDisk(ctx)
	if err != nil && damaged(err) && !f.o.Strict {
		if err := f.setAside(err); err != nil {
			return err
		}
		d, err = f.openDisk(ctx)
	}
	if err != nil {
		return err
	}
	f.info = d.info
	f.ever.Store(true)
	if old := f.disk.Swap(d); old != nil {
		_ = old.close() // it was only read
	}
	return nil
}

// setAside moves the file away, with what belongs to it.
func (f *File) setAside(why error) error {
	name := f.path + ".bad-" + f.o.Now().UTC().Format("20060102T150405.000000")
	for i := 0; ; i++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = fmt.Sprintf("%s-%d", strings.TrimSuffix(name, fmt.Sprintf("-%d", i-1)), i)
	}
	f.keepOpen(nil) // some systems move no file that is open
	for _, tail := range []string{"-wal", "-shm", "-journal", ""} {
		if err := os.Rename(f.path+tail, name+tail); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("it cannot be used (%v) nor be moved away: %w", why, err)
		}
	}
	f.mu.Lock()
	f.damage.At, f.damage.File, f.damage.Why = f.o.Now(), name, why.Error()
	f.damage.Files++
	f.mu.Unlock()
	f.find("state file %s: %v; it was moved to %s, and a new one is made: what it kept is forgotten", f.path, why, filepath.Base(name))
	return f.syncDir()
}

// openDisk opens the file as it is.
func (f *File) openDisk(ctx context.Context) (_ *disk, err error) {
	if err := f.fail("open"); err != nil {
		return nil, err
	}
	d := newDisk()
	if d.info, err = f.touch(); err != nil {
		return nil, err
	}
	left, _ := os.Stat(f.path + "-wal")
	unclean := left != nil && left.Size() > 0
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := d.dial(ctx, f.path, f.o); err != nil {
		return nil, missing(err)
	}
	h, err := readHeader(ctx, d.conn)
	if err != nil {
		return nil, missing(err)
	}
	unfinished := making(f.path)
	if err := h.judge(len(f.o.migrations), unfinished); err != nil {
		return nil, err
	}
	// What other processes use has a log, which says nothing of how it was closed.
	if d.info.Size() <= checked || unclean && len(f.others()) == 0 {
		if err := d.check(ctx); err != nil {
			return nil, missing(err)
		}
	}
	var mode string
	if err := d.conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return nil, missing(err)
	}
	if mode != "wal" {
		return nil, fmt.Errorf("the file system of %s does not share memory between programs, as those over a network: set a data directory on a local disk", filepath.Dir(f.path))
	}
	if err := migrate(ctx, d.conn, f.path, h.version, f.o.migrations); err != nil {
		return nil, missing(err)
	}
	if err := d.complete(ctx); err != nil {
		return nil, missing(err)
	}
	if err := d.know(ctx, f.o.Now()); err != nil {
		return nil, err
	}
	if unfinished {
		_ = os.Remove(f.path + makingMark)
	}
	return d, f.signIn(ctx, d)
}

// touch makes the file if there is none, and looks whether it can be one of ours
// before anything else opens it.
func (f *File) touch() (os.FileInfo, error) {
	info, err := kindOf(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.WriteFile(f.path+makingMark, nil, 0o600); err != nil {
			return nil, err
		}
		made, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		f.keepOpen(made)
		if err := f.syncDir(); err != nil {
			return nil, err
		}
		return made.Stat()
	case err != nil:
		return nil, err
	}
	if f.probe == nil || !same(f.probe, f.path) {
		there, err := os.OpenFile(f.path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		f.keepOpen(there)
	}
	return info, readMagic(f.probe, info.Size(), making(f.path))
}

// makingMark ends the name of a file that is there as long as a state file is made: one
// that is empty then was not finished. Any other that is empty has lost what it had.
const makingMark = ".making"

func making(path string) bool {
	_, err := os.Lstat(path + makingMark)
	return err == nil
}

// InspectFile answers why OpenFile would not open a file, as far as its kind and its
// beginning tell, and changes nothing. No file is well.
func InspectFile(path string, strict bool) error {
	info, err := kindOf(path)
	if err == nil {
		var there *os.File
		if there, err = os.Open(path); err == nil {
			defer there.Close()
			err = readMagic(there, info.Size(), making(path))
		}
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
	case strict && damaged(err):
		return fmt.Errorf("state file %s: %w; restore a copy, or move it away to begin anew (without strict state that is done by itself)", path, err)
	case strict, !damaged(err) && !errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("state file %s: %w", path, err)
	}
	return nil
}

// kindOf tells whether what a path names can be a file of ours.
func kindOf(path string) (os.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&os.ModeSymlink != 0:
		to, _ := os.Readlink(path)
		return nil, fmt.Errorf("it is a symbolic link to %s: set the data directory to the one that has the file", to)
	case info.IsDir():
		return nil, damage("it is a directory")
	case !info.Mode().IsRegular():
		return nil, damage("it is not a file (%v)", info.Mode())
	}
	return info, nil
}

// readMagic tells whether the beginning of a file is that of one of ours.
func readMagic(there *os.File, size int64, making bool) error {
	const magic = "SQLite format 3\x00"
	start := make([]byte, len(magic)+4)
	n, err := there.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case n == 0 && making:
	case n == 0:
		return errEmpty
	case !strings.HasPrefix(string(start[:n]), magic):
		return damage("it is not a SQLite file")
	case size < 512:
		return damage("it was cut short")
	case start[18] > 2 || start[19] > 2: // SQLite would only read it
		return damage("it is in a format of SQLite that is not known")
	}
	return nil
}

// keepOpen has a file stay open until another one is in its place: closing it would drop
// the locks of this process that SQLite has on the same file. nil closes it.
func (f *File) keepOpen(one *os.File) {
	if f.probe != nil {
		f.probe.Close()
	}
	f.probe = one
}

// dial connects the one that writes, and those that only read.
func (d *disk) dial(ctx context.Context, path string, o FileOptions) (err error) {
	// Other processes write, too: a transaction of theirs is waited for.
	// Commits are on the disk when they are answered: synchronous(FULL), and on a Mac
	// fullfsync, without which its disks may keep them in their memory.
	q := url.Values{"_pragma": {"busy_timeout(5000)", "synchronous(FULL)", "fullfsync(1)", "checkpoint_fullfsync(1)", "temp_store(MEMORY)", "cell_size_check(1)", "trusted_schema(0)"}}
	if o.pragmas != nil {
		q["_pragma"] = append(q["_pragma"], o.pragmas()...)
	}
	if o.careless {
		q.Add("_pragma", "synchronous(OFF)")
	}
	source := sourceOf(path, "mode=rw&"+q.Encode())
	if d.db, err = sql.Open("sqlite", source); err != nil {
		return err
	}
	d.db.SetMaxOpenConns(1)
	if d.conn, err = d.db.Conn(ctx); err != nil {
		return err
	}
	if d.readers, err = sql.Open("sqlite", source+"&_query_only=1"); err != nil {
		return err
	}
	d.readers.SetMaxOpenConns(2)
	return nil
}

// sourceOf is a file as SQLite wants it named.
func sourceOf(path, query string) string {
	name := filepath.ToSlash(path)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // C:/…
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: name, RawQuery: query}).String()
}

// check looks the file through. That it takes too long says nothing about it.
func (d *disk) check(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var said string
	err := d.conn.QueryRowContext(limited, "PRAGMA quick_check(1)").Scan(&said)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil || sqliteCode(err)&0xff == lib.SQLITE_INTERRUPT:
		return nil
	case err != nil:
		return err
	case said != "ok":
		return damage("%s", strings.Join(strings.Fields(said), " "))
	}
	return nil
}

// missing makes of what SQLite says of tables that are not there, or in a format that
// it does not know, that the file is damaged.
func missing(err error) error {
	if sqliteCode(err) == lib.SQLITE_ERROR {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// know reads which life of the store this is. A new file begins one.
func (d *disk) know(ctx context.Context, now time.Time) error {
	var born int64
	err := d.conn.QueryRowContext(ctx, "SELECT a.value, b.value FROM meta a, meta b WHERE a.name = 'generation' AND b.name = 'born'").Scan(&d.generation, &born)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		if sqliteCode(err) == 0 {
			return damage("%v", err) // the values are not what they should be
		}
		return err
	}
	d.born = time.UnixMicro(born)
	if err != nil {
		if err := d.begin(ctx, now); err != nil {
			return err
		}
	}
	// Times from the future are of a clock that has been set back since: what they
	// bound lasts as long as it was to last then. On a full disk that has to wait.
	for _, table := range []string{"notes", "documents"} {
		_, err := d.conn.ExecContext(ctx, "UPDATE "+table+" SET until = CASE until WHEN 0 THEN 0 ELSE until - (at - ?1) END, at = ?1 WHERE at > ?1", now.UnixMicro())
		if err != nil && (damaged(err) || doubtful(err)) {
			return err
		}
	}
	return nil
}

// begin makes what is kept a new generation.
func (d *disk) begin(ctx context.Context, now time.Time) error {
	d.generation, d.born = rand.Text(), now
	_, err := d.conn.ExecContext(ctx, "INSERT OR REPLACE INTO meta VALUES ('generation', ?), ('born', ?)", d.generation, now.UnixMicro())
	return err
}

var errReading = errors.New("somebody is reading it")

// checkpoint writes everything into the file itself. Nothing of the log is relied on
// after that.
func (d *disk) checkpoint() error {
	var busy, log, moved int
	if err := d.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved); err != nil {
		return err
	}
	if busy != 0 {
		return errReading
	}
	return nil
}

// close waits for who reads. Were one of them to go on, with a file that is made anew at
// the same path, it could use the memory that belongs to that one.
func (d *disk) close() error {
	d.end()
	d.reads.Lock()
	var errs []error
	for _, s := range d.says {
		errs = append(errs, s.Close())
	}
	if d.readers != nil {
		errs = append(errs, d.readers.Close())
	}
	if d.conn != nil {
		errs = append(errs, d.conn.Close())
	}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	return errors.Join(errs...)
}

func (f *File) syncDir() error {
	if f.o.careless {
		return nil
	}
	return syncDir(filepath.Dir(f.path))
}

func (f *File) fail(step string) error {
	if f.o.fault == nil {
		return nil
	}
	return f.o.fault(step)
}
