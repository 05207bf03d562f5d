package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/abide-proxy/abide/internal/alive"
	"github.com/abide-proxy/abide/internal/sqlite"
	_ "modernc.org/sqlite" // the driver
)

// begin takes the locks and opens the file. Other processes may open, replace or move it after leave.
func (f *File) begin(ctx context.Context) (leave func(), err error) {
	if f.lock.own == nil { // the directory may be missing, too
		if _, err := prepareDir(f.path); err != nil {
			return nil, err
		}
		if err := f.fail("lock"); err != nil {
			return nil, err
		}
	}
	if err := f.lock.renew(ctx); err != nil {
		return nil, err
	}
	if leave, err = openingLock(ctx, f.path); err != nil {
		return nil, err
	}
	if err = f.connect(ctx); err != nil {
		leave()
	}
	return leave, err
}

// prepareDir creates the directory, and returns the path without symbolic links, so that
// all processes use the same lock for a file.
func prepareDir(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return path, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return path, err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// others are the other processes that use the file.
func (f *File) others() []processInfo { return otherProcesses(f.path, f.o.Instance) }

// maxQuickCheck is the size in bytes up to which a file is always checked when it is
// opened. A larger file is checked only after an unclean end. See checkTimeout.
const maxQuickCheck = 8 << 20

// connect opens the file. An unusable file is moved aside and a new one is created. The
// caller holds the opening lock.
func (f *File) connect(ctx context.Context) error {
	d, err := f.openDisk(ctx)
	if err != nil && isDamage(err) && !f.o.Strict {
		if err := f.setAside(err); err != nil {
			return err
		}
		d, err = f.openDisk(ctx)
	}
	if err != nil {
		return err
	}
	f.info = d.info
	f.openedForWriting.Store(true)
	if old := f.disk.Swap(d); old != nil {
		_ = old.close() // it was open for reading only
	}
	return nil
}

// setAside moves the file and its companion files away.
func (f *File) setAside(why error) error {
	name := f.path + ".bad-" + f.o.Now().UTC().Format("20060102T150405.000000")
	for i := 0; ; i++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		}
		name = fmt.Sprintf("%s-%d", strings.TrimSuffix(name, fmt.Sprintf("-%d", i-1)), i)
	}
	f.setProbe(nil) // some systems cannot move an open file
	for _, tail := range []string{"-wal", "-shm", "-journal", ""} {
		if err := os.Rename(f.path+tail, name+tail); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("it cannot be used (%v) nor be moved away: %w", why, err)
		}
	}
	f.log.addDamagedFile(name, why)
	f.log.logf("state file %s: %v; it was moved to %s, and a new one is made: what it kept is forgotten", f.path, why, filepath.Base(name))
	return f.syncDir()
}

// openDisk opens the existing file.
func (f *File) openDisk(ctx context.Context) (_ *database, err error) {
	if err := f.fail("open"); err != nil {
		return nil, err
	}
	info, err := f.createIfMissing()
	if err != nil {
		return nil, err
	}
	left, _ := os.Stat(f.path + "-wal")
	unclean, unfinished := left != nil && left.Size() > 0, isBeingMade(f.path)
	d, version, err := f.openAs(ctx, "mode=rw", f.o.pragmas())
	if err != nil {
		return nil, damageIfNoTable(err)
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	d.info = info
	// With other processes a log always exists, and says nothing about an unclean end.
	if d.info.Size() <= maxQuickCheck || unclean && len(f.others()) == 0 {
		if err := d.check(ctx); err != nil {
			return nil, damageIfNoTable(err)
		}
	}
	if err := sqlite.ShareLog(ctx, d.conn, f.path, "set a data directory"); err != nil {
		return nil, damageIfNoTable(err)
	}
	if err := migrate(ctx, d.conn, f.path, version, f.o.migrations); err != nil {
		return nil, damageIfNoTable(err)
	}
	if err := d.checkTables(ctx); err != nil {
		return nil, damageIfNoTable(err)
	}
	now := f.o.Now()
	if err := d.readGeneration(ctx, now); err != nil {
		return nil, err
	}
	if err := d.shiftFutureTimes(ctx, now); err != nil {
		return nil, err
	}
	if unfinished {
		_ = os.Remove(f.path + makingSuffix)
	}
	return d, nil
}

// openAs connects to the existing file in a mode such as mode=rw, and checks and returns its version.
func (f *File) openAs(ctx context.Context, mode string, pragmas []string) (d *database, version int, err error) {
	d = newDatabase()
	var h header
	if err = d.open(ctx, f.path, mode, pragmas); err == nil {
		h, err = readHeader(ctx, d.conn)
	}
	if err == nil {
		err = h.check(len(f.o.migrations), isBeingMade(f.path))
	}
	if err != nil {
		_ = d.close()
	}
	return d, h.version, err
}

// createIfMissing creates the file if it does not exist, and checks whether it can be a
// state file before anything else opens it.
func (f *File) createIfMissing() (os.FileInfo, error) {
	info, err := kindOf(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.WriteFile(f.path+makingSuffix, nil, 0o600); err != nil {
			return nil, err
		}
		made, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		f.setProbe(made)
		if err := f.syncDir(); err != nil {
			return nil, err
		}
		return made.Stat()
	case err != nil:
		return nil, err
	}
	if f.probe == nil || !alive.IsAt(f.probe, f.path) {
		there, err := os.OpenFile(f.path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		f.setProbe(there)
	}
	return info, readMagic(f.probe, info.Size(), isBeingMade(f.path))
}

// makingSuffix ends the name of a file that exists while a state file is created: an empty
// state file is unfinished then. Any other empty file has lost its data.
const makingSuffix = ".making"

func isBeingMade(path string) bool {
	_, err := os.Lstat(path + makingSuffix)
	return err == nil
}

// InspectFile tells why OpenFile would refuse a file, as far as its type and first bytes
// show, and changes nothing. A missing file is fine.
func InspectFile(path string, strict bool) error {
	info, err := kindOf(path)
	if err == nil {
		var there *os.File
		if there, err = os.Open(path); err == nil {
			defer there.Close()
			err = readMagic(there, info.Size(), isBeingMade(path))
		}
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
	case strict, !isDamage(err) && !errors.Is(err, fs.ErrPermission):
		return advise(path, err)
	}
	return nil
}

// kindOf checks whether a path names a file that can be a state file.
func kindOf(path string) (os.FileInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&os.ModeSymlink != 0:
		to, _ := os.Readlink(path)
		return nil, fmt.Errorf("it is a symbolic link to %s: set the data directory to the one that has the file", to)
	case info.IsDir():
		return nil, damagedf("it is a directory")
	case !info.Mode().IsRegular():
		return nil, damagedf("it is not a file (%v)", info.Mode())
	}
	return info, nil
}

// readMagic checks whether a file begins like a state file.
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
		return damagedf("it is not a SQLite file")
	case size < 512:
		return damagedf("it was cut short")
	case start[18] > 2 || start[19] > 2: // SQLite would open it read-only
		return damagedf("it is in a format of SQLite that is not known")
	}
	return nil
}

// setProbe keeps a file open until another replaces it: closing it would drop SQLite's
// locks of this process on the same file. nil closes it.
func (f *File) setProbe(file *os.File) {
	if f.probe != nil {
		f.probe.Close()
	}
	f.probe = file
}

func (f *File) syncDir() error { return syncDir(filepath.Dir(f.path)) }

func (f *File) fail(step string) error {
	if f.o.fault == nil {
		return nil
	}
	return f.o.fault(step)
}

// openForReading opens the file read-only.
func (f *File) openForReading(ctx context.Context) (*database, error) {
	if _, err := kindOf(f.path); err != nil {
		return nil, err
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

func (f *File) connectForReading(ctx context.Context, how string) (*database, error) {
	d, version, err := f.openAs(ctx, how, nil)
	if err == nil && version != len(f.o.migrations) {
		_ = d.close()
		err = errors.New("it is of an older release, and has to be brought up to date first")
	}
	d.readOnly = true
	return d, err
}
