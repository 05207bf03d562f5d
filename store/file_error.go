package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	lib "modernc.org/sqlite/lib"

	"github.com/abide-proxy/abide/internal/disk"
	"github.com/abide-proxy/abide/internal/sqlite"
)

// errDamaged marks errors of a file's content, which no change of its directory would
// repair.
var errDamaged = errors.New("it cannot be used")

// errEmpty is an empty file: it was truncated, or has lost its log.
var errEmpty = damagedf("it is empty")

// errNewer is a file of a later release. It is never moved aside.
var errNewer = errors.New("it was written by a newer release")

// ErrInUse is the error of a file that another process keeps from being opened.
var ErrInUse = errors.New("the data directory is in use")

func damagedf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// told is an error that the file has logged itself.
type told struct{ error }

func (e told) Unwrap() error { return e.error }

// IsTold reports whether a state file has logged the error itself, so that nobody has to repeat it.
func IsTold(err error) bool {
	_, ok := errors.AsType[told](err)
	return ok
}

// isDamage tells whether an error is caused by the file's content.
func isDamage(err error) bool {
	if errors.Is(err, errDamaged) {
		return true
	}
	switch code := sqlite.Code(err); code & 0xff {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_FORMAT:
		return true
	case lib.SQLITE_IOERR:
		return code == lib.SQLITE_IOERR_SHORT_READ || code == lib.SQLITE_IOERR_CORRUPTFS
	}
	return false
}

// isTemporary tells whether an error leaves the connection and saved data valid: another
// process has locked the file for a moment.
func isTemporary(err error) bool {
	code := sqlite.Code(err) & 0xff
	return code == lib.SQLITE_BUSY || code == lib.SQLITE_LOCKED
}

// isUncertain tells whether it is unknown after this error what the disk has.
func isUncertain(err error) bool {
	switch sqlite.Code(err) & 0xff {
	case lib.SQLITE_FULL, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return false
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
}

// advise wraps an error of a file with what to do.
func advise(path string, err error) error {
	if errors.Is(err, ErrInUse) {
		return err
	}
	dir := filepath.Dir(path)
	do, code := "", sqlite.Code(err)
	switch {
	case errors.Is(err, errNewer):
		do = "start the release that wrote it, or move the file away to begin anew"
	case isDamage(err):
		do = "restore a copy, or move it away to begin anew (without strict state that is done by itself)"
	case errors.Is(err, syscall.ENOSPC) || code&0xff == lib.SQLITE_FULL:
		do = "the disk is full: make room in " + dir
	case errors.Is(err, syscall.EROFS) || code&0xff == lib.SQLITE_READONLY:
		do = "it cannot be written: make " + dir + " writable, or set another data directory"
	case errors.Is(err, fs.ErrPermission) || code&0xff == lib.SQLITE_CANTOPEN || code&0xff == lib.SQLITE_PERM:
		do = "let " + whoami() + " read and write " + dir + " and what is in it" + owners(dir, path) + ", or set another data directory"
	case errors.Is(err, syscall.ENOTDIR):
		do = "a part of the path is not a directory: set another data directory"
	case code&0xff == lib.SQLITE_BUSY || code&0xff == lib.SQLITE_LOCKED:
		do = "another program has it locked: end that one"
	case code&0xff == lib.SQLITE_IOERR:
		do = "the disk reports errors: look at the system's log, and set another data directory if they stay"
	}
	if do == "" {
		return fmt.Errorf("state file %s: %w", path, err)
	}
	return fmt.Errorf("state file %s: %w; %s", path, err, do)
}

func whoami() string {
	if uid := os.Geteuid(); uid >= 0 {
		return fmt.Sprintf("user %d", uid)
	}
	return "this user"
}

// owners tells to whom the files belong that another user owns.
func owners(paths ...string) string {
	var list []string
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
				list = append(list, fmt.Sprintf("%s belongs to user %d", path, uid))
			}
		}
	}
	if list == nil {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// isUnwritable tells whether an error means a full, read-only or broken disk, or a
// directory that this user may not write. The file's content is fine, and the cause may
// pass.
func isUnwritable(err error) bool {
	if isDamage(err) || errors.Is(err, errNewer) {
		return false
	}
	switch sqlite.Code(err) & 0xff {
	case lib.SQLITE_FULL, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_IOERR:
		return true
	}
	return disk.Unwritable(err)
}
