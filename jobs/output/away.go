package output

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// isAway tells whether the same write may succeed later, since the fault is the database's or the
// disk's and not the job's.
func isAway(err error) bool {
	switch sqliteCode(err) {
	case lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_PROTOCOL:
		return true
	}
	if code := postgresCode(err); code != "" {
		switch code[:2] {
		case "08", "53", "57", "58", "40": // connection, resources, shutdown, system, rolled back
			return true
		}
		return code == "25006" || code == "25P03" || code == "55P03" // a standby, frozen within a transaction, a lock
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	_, connects := errors.AsType[*pgconn.ConnectError](err)
	return connects || strings.HasSuffix(err.Error(), "conn closed") || slices.ContainsFunc([]error{
		driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded,
		fs.ErrPermission, syscall.ENOSPC, syscall.EROFS, syscall.EIO, syscall.EDQUOT,
	}, func(cause error) bool { return errors.Is(err, cause) })
}

// sqliteCode is SQLite's primary result code of an error, or 0.
func sqliteCode(err error) int {
	if item, ok := errors.AsType[*sqlite.Error](err); ok {
		return item.Code() & 0xff
	}
	return 0
}

// postgresCode is the SQLSTATE of an error, or "".
func postgresCode(err error) string {
	if pgError, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgError.Code
	}
	return ""
}

// sqliteAdvice has what to do about an error, by its sqliteCode.
var sqliteAdvice = map[int]string{
	lib.SQLITE_FULL:     "; the disk is full: make room",
	lib.SQLITE_READONLY: "; make the file and its directory writable",
	lib.SQLITE_PERM:     "; make the file and its directory writable",
	lib.SQLITE_CANTOPEN: "; let this user read and write the file and its directory",
	lib.SQLITE_BUSY:     "; another program has it locked: end that one",
	lib.SQLITE_LOCKED:   "; another program has it locked: end that one",
	lib.SQLITE_NOTADB:   "; set another file",
	lib.SQLITE_CORRUPT:  "; restore a copy, or set another file to begin anew",
}

// postgresAdvice has what to do about an error, by its postgresCode.
var postgresAdvice = map[string]string{
	"42501": "; grant this user the right to make and to change tables in the schema",
	"53100": "; the disk of the server is full: make room",
	"53300": "; raise max_connections of the server, or start fewer processes",
	"3D000": "; make the database",
}

// isMissingTable tells whether a statement failed because there is no such table.
func isMissingTable(err error) bool {
	return postgresCode(err) == "42P01" || sqliteCode(err) == lib.SQLITE_ERROR && strings.Contains(err.Error(), "no such table")
}

// isTaken tells whether a table could not be made because there is one of its name.
func isTaken(err error) bool {
	return postgresCode(err) == "42P07" || sqliteCode(err) == lib.SQLITE_ERROR && strings.Contains(err.Error(), "already")
}
