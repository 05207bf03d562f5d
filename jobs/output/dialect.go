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
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	lib "modernc.org/sqlite/lib"

	"github.com/abide-proxy/abide/internal/sqlite"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// dialect holds the differences between the two databases.
type dialect struct {
	clock   string // the present, in milliseconds since 1970
	skip    string // rows that another transaction has locked are left out
	blob    string // types
	time    string
	json    string
	types   map[string]string // of columns, by their types in a job file
	rows    string            // of a JSON array, each with its value
	number  string            // a column as a number, NULL where it is none
	text    string            // a column as a text, in the order of its bytes
	prelude string            // begins a transaction that makes tables: one process at a time does
}

var sqliteDialect = &dialect{
	clock: "0", // is always given
	blob:  "BLOB", time: "TEXT", json: "TEXT",
	types:  map[string]string{"text": "TEXT", "integer": "INTEGER", "number": "NUMERIC", "boolean": "BOOLEAN", "time": "TEXT", "json": "TEXT"},
	rows:   "json_each($1) WHERE true",
	number: "CASE WHEN typeof(%[1]s) IN ('integer', 'real') THEN %[1]s END", text: "%s",
	prelude: "SELECT 1", // its transaction is the only one
}

var postgresDialect = &dialect{
	clock: "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
	skip:  "FOR UPDATE SKIP LOCKED",
	blob:  "BYTEA", time: "TIMESTAMPTZ", json: "JSON",
	types:  map[string]string{"": "TEXT", "text": "TEXT", "integer": "BIGINT", "number": "NUMERIC", "boolean": "BOOLEAN", "time": "TIMESTAMPTZ", "json": "JSONB"},
	rows:   "json_array_elements(CAST($1 AS JSON)) AS value",
	number: "CASE WHEN %[1]s ~ '^-?[0-9]+([.][0-9]+)?$' THEN CAST(%[1]s AS NUMERIC) END", text: `%s COLLATE "C"`,
	prelude: "SELECT pg_advisory_xact_lock(70618001)", // an arbitrary number
}

// replacements returns the differing parts of statements: each placeholder and its text.
func (d *dialect) replacements() []string {
	return []string{
		// The first argument is the time of Options.Now, or NULL.
		"{now}", "coalesce(CAST($1 AS BIGINT), " + d.clock + ")",
		"{skip}", d.skip,
		"{blob}", d.blob, "{time}", d.time, "{json}", d.json, "{rows}", d.rows,
	}
}

var (
	withoutNUL = strings.NewReplacer("\x00", "␀0", "␀", "␀␀")
	withNUL    = strings.NewReplacer("␀0", "\x00", "␀␀", "␀")
)

// encode makes a text that both databases can keep. decode is its reverse.
func encode(s string) string {
	return withoutNUL.Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

func decode(s string) string { return withNUL.Replace(s) }

// Quote makes an identifier of SQL.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// columnType is the name and type of a column.
func (d *dialect) columnType(c jobfile.Column) string {
	return strings.TrimSpace(Quote(c.Name) + " " + d.types[c.Type])
}

// TimeForm is the layout of times in SQLite: texts of one length, whose order is that of the
// times.
const TimeForm = "2006-01-02T15:04:05.000000Z"

// timeText is a time as both databases take it.
func timeText(t time.Time) string { return Precise(t).Format(TimeForm) }

// instant reads a time of a row.
func instant(v any) time.Time {
	switch v := v.(type) {
	case int64: // of a unit
		return time.UnixMilli(v)
	case time.Time:
		return v.UTC()
	case string:
		if at, err := time.Parse(TimeForm, v); err == nil {
			return at
		}
	}
	return time.Time{}
}

// Precise rounds a time to what both databases keep.
func Precise(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

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
func sqliteCode(err error) int { return sqlite.Code(err) & 0xff }

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
