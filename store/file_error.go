package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// errDamaged is a file that cannot be used, whatever is done to its directory.
var errDamaged = errors.New("it cannot be used")

// errEmpty is a file that has nothing: it was emptied, or has lost its log.
var errEmpty = damage("it is empty")

// errNewer is a file of a later release. It is never set aside: nothing is wrong with it.
var errNewer = errors.New("it was written by a newer release")

func damage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// sqliteCode is the extended result code of an error, or 0.
func sqliteCode(err error) int {
	if one, ok := errors.AsType[*sqlite.Error](err); ok {
		return one.Code()
	}
	return 0
}

// damaged says whether an error is the fault of what the file contains.
func damaged(err error) bool {
	if errors.Is(err, errDamaged) {
		return true
	}
	switch code := sqliteCode(err); code & 0xff {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_FORMAT:
		return true
	case lib.SQLITE_IOERR:
		return code == lib.SQLITE_IOERR_SHORT_READ || code == lib.SQLITE_IOERR_CORRUPTFS
	}
	return false
}

// passing says whether an error leaves the connection and what it has saved as they
// are: somebody else has locked the file for a moment.
func passing(err error) bool {
	code := sqliteCode(err) & 0xff
	return code == lib.SQLITE_BUSY || code == lib.SQLITE_LOCKED
}

// doubtful says whether after this error nobody knows what the disk has.
func doubtful(err error) bool {
	switch sqliteCode(err) & 0xff {
	case lib.SQLITE_FULL, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return false
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
}

// advise wraps an error of a file with what to do about it.
func advise(path string, err error) error {
	if _, ok := errors.AsType[*Held](err); ok {
		return err
	}
	dir := filepath.Dir(path)
	do, code := "", sqliteCode(err)
	switch {
	case errors.Is(err, errNewer):
		do = "start the release that wrote it, or move the file away to begin anew"
	case damaged(err):
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

// owners says whose the files are that are not ours.
func owners(paths ...string) string {
	var list []string
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			if uid, ok := owner(info); ok && uid != os.Geteuid() {
				list = append(list, fmt.Sprintf("%s belongs to user %d", path, uid))
			}
		}
	}
	if list == nil {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}
