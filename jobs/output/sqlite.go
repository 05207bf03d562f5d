package output

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// openSQLite opens a file. It refuses the file of another program before it changes anything.
func (e *engine) openSQLite(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	e.dialect, e.file, e.holder.base = sqliteDialect, path, path
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a directory: name a file")
	case errors.Is(err, fs.ErrNotExist) && e.o.ReadOnly:
		return errors.New("there is no such file")
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no directory %s: make it, or name another file", filepath.Dir(path))
		}
	case err != nil:
		return err
	}
	mode := "rwc"
	if e.o.ReadOnly {
		mode = "ro"
	}
	// A commit survives the end of the process. A loss of power may undo the last commits, but
	// records and checkpoints together, so that their pages are asked for again.
	q := url.Values{"mode": {mode}, "_pragma": {"busy_timeout(5000)", "synchronous(NORMAL)", "checkpoint_fullfsync(1)", "temp_store(MEMORY)", "trusted_schema(0)"}}
	name := filepath.ToSlash(path)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // C:/…
	}
	source := (&url.URL{Scheme: "file", OmitHost: true, Path: name, RawQuery: q.Encode()}).String()
	if e.db, err = sql.Open("sqlite", source); err != nil {
		return err
	}
	e.db.SetMaxOpenConns(1)
	if e.readers, err = sql.Open("sqlite", source+"&_query_only=1"); err != nil {
		return err
	}
	e.readers.SetMaxOpenConns(8)
	if err := e.isOurs(ctx); err != nil || e.o.ReadOnly {
		return err
	}
	var journal string
	if err := e.db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&journal); err != nil {
		return err
	}
	if journal != "wal" {
		return fmt.Errorf("the file system of %s does not share memory between programs, as those over a network: name a file on a local disk", filepath.Dir(path))
	}
	return nil
}

// isOurs refuses a file that has tables and is no output.
func (e *engine) isOurs(ctx context.Context) error {
	rows, err := e.db.QueryContext(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name")
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		if name == "abide_jobs" {
			return nil
		}
		names = append(names, name)
	}
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	if names != nil {
		return fmt.Errorf("it is the database of something else, with the tables %s: name another file, which abide makes", strings.Join(names, ", "))
	}
	return rows.Err()
}
