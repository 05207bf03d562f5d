// Package sqlite opens files of SQLite, reads rows and tells errors apart:
//
//	db, readers, err := sqlite.Open(path, "mode=rw&_pragma=busy_timeout(5000)", 2)
package sqlite

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
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

// Open prepares the connection that writes, of which there is one, and at most so many that only
// read. On an error the caller closes what is not nil.
func Open(path, query string, most int) (db, readers *sql.DB, err error) {
	if db, err = sql.Open("sqlite", Source(path, query)); err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	if readers, err = sql.Open("sqlite", Source(path, query+"&_query_only=1")); err == nil {
		readers.SetMaxOpenConns(most)
	}
	return db, readers, err
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
