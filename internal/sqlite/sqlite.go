// Package sqlite opens files of SQLite, reads rows and tells errors apart:
//
//	db, readers, err := sqlite.Open(path, "mode=rw&_pragma=busy_timeout(5000)", 2)
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/abide-proxy/abide/internal/clock"
)

// Source returns the data source name of a file. query has the parameters of the connection, such as
// mode=ro and pragmas.
func Source(path, query string) string {
	name := filepath.ToSlash(path)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // C:/…
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: name, RawQuery: query}).String()
}

// Open prepares the connection that writes, of which there is one and whose transactions lock the
// file as they begin, and at most so many that only
// read. On an error the caller closes what is not nil.
func Open(path, query string, most int) (db, readers *sql.DB, err error) {
	if db, err = sql.Open("sqlite", Source(path, query+"&_txlock=immediate")); err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	if readers, err = sql.Open("sqlite", Source(path, query+"&_query_only=1")); err == nil {
		readers.SetMaxOpenConns(most)
	}
	return db, readers, err
}

// lockedFor bounds the time for which ShareLog waits for another process, lockedPause each wait.
const lockedFor, lockedPause = 30 * time.Second, 5 * time.Millisecond

// ShareLog gives a file a log that processes share. Processes that open a new file at once disturb
// each other: SQLite then fails at once with SQLITE_BUSY, whatever busy_timeout is, so ShareLog tries
// again. instead says what to do where the file system cannot share memory.
func ShareLog(ctx context.Context, conn interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, path, instead string,
) error {
	limited, cancel := context.WithTimeout(ctx, lockedFor)
	defer cancel()
	for {
		var mode string
		err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		if Code(err)&0xff == lib.SQLITE_BUSY && clock.Sleep(limited, lockedPause) == nil {
			continue
		}
		if err == nil && mode != "wal" {
			return fmt.Errorf("the file system of %s does not share memory between programs, as those over a network: %s on a local disk", filepath.Dir(path), instead)
		}
		return err
	}
}

// Code returns the extended result code of an error, or 0.
func Code(err error) int {
	if item, ok := errors.AsType[*sqlite.Error](err); ok {
		return item.Code()
	}
	return 0
}

// Each returns a function that calls scan for each row of a query of any database, until an error:
//
//	err := sqlite.Each(scan)(db.QueryContext(ctx, query))
func Each(scan func(*sql.Rows) error) func(*sql.Rows, error) error {
	return func(rows *sql.Rows, err error) error {
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}
