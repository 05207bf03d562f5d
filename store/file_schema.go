package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	lib "modernc.org/sqlite/lib"
)

// application is what a file of ours has in its header: "abid".
const application = 0x61626964

// migrations bring a file from the version that is their index to the next one. The
// first makes a new file. One that was released is never changed.
var migrations = []string{`
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE counts (
	site TEXT, key TEXT, instance TEXT, seq INTEGER, ahead INTEGER, at INTEGER, state BLOB,
	PRIMARY KEY (site, key)
) WITHOUT ROWID;
CREATE TABLE budgets (
	site TEXT, name TEXT, until INTEGER, record TEXT,
	PRIMARY KEY (site, name)
) WITHOUT ROWID;
CREATE TABLE notes (
	site TEXT, key TEXT, at INTEGER, until INTEGER, n INTEGER, text TEXT,
	PRIMARY KEY (site, key)
) WITHOUT ROWID;
CREATE TABLE documents (
	id INTEGER PRIMARY KEY, kind TEXT, key TEXT, at INTEGER, until INTEGER, value BLOB,
	UNIQUE (kind, key)
);
CREATE TABLE traffic (
	step INTEGER, start INTEGER, site TEXT, received INTEGER, sent INTEGER, requests INTEGER,
	PRIMARY KEY (step, start, site)
) WITHOUT ROWID;
CREATE INDEX budgets_until ON budgets (until);
CREATE INDEX notes_until ON notes (until);
CREATE INDEX documents_until ON documents (until) WHERE until > 0;
CREATE INDEX traffic_site ON traffic (site, step, start);
`, `
ALTER TABLE counts ADD COLUMN sum INTEGER;
ALTER TABLE budgets ADD COLUMN sum INTEGER;
ALTER TABLE notes ADD COLUMN sum INTEGER;
ALTER TABLE documents ADD COLUMN sum INTEGER;
CREATE TABLE aside (id INTEGER PRIMARY KEY, at INTEGER, origin TEXT, value BLOB);
`}

// header is what a file says of itself.
type header struct {
	application int64
	version     int
	tables      int
	noted       int // the version as the table meta has it since version 2; 0: it has none
}

func readHeader(ctx context.Context, c *sql.Conn) (h header, err error) {
	for query, to := range map[string]any{
		"PRAGMA application_id": &h.application, "PRAGMA user_version": &h.version,
		"SELECT count(*) FROM sqlite_schema": &h.tables,
	} {
		if err := c.QueryRowContext(ctx, query).Scan(to); err != nil {
			return h, err
		}
	}
	if h.version > 1 && h.application == application {
		err := c.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'version'").Scan(&h.noted)
		if err != nil && !none(err) && sqliteCode(err)&0xff != lib.SQLITE_ERROR { // there is no such table
			return h, unreadable(err)
		}
	}
	return h, nil
}

// judge says whether a file with that header can be used by a release that knows
// versions up to latest. Only one that is being made may be empty.
func (h header) judge(latest int, making bool) error {
	switch {
	case h == header{} && making:
		return nil
	case h == header{}:
		return errEmpty
	case h.application != application:
		return damage("it belongs to another program (application id %#x)", h.application)
	case h.version > 1 && h.version != h.noted:
		return damage("it says version %d, and version %d in another place", h.version, h.noted)
	case h.version > latest:
		return fmt.Errorf("%w: it has version %d, and this one knows up to %d", errNewer, h.version, latest)
	case h.version < 1 || h.tables == 0:
		return damage("it says version %d and has %d tables", h.version, h.tables)
	}
	return nil
}

// migrate brings the file to the latest version, all in one transaction.
func migrate(ctx context.Context, c *sql.Conn, path string, from int, list []string) (err error) {
	if from == len(list) {
		return nil
	}
	if from > 0 {
		if err := backup(ctx, c, path, from); err != nil {
			return fmt.Errorf("keeping a copy before the change from version %d: %w", from, err)
		}
	}
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	for i, text := range list[from:] {
		if _, err := c.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("from version %d to %d: %w", from+i, from+i+1, err)
		}
	}
	// Later releases keep writing the version twice: one that stands in the header alone
	// is a damaged byte, not a newer release.
	end := fmt.Sprintf("INSERT OR REPLACE INTO meta VALUES ('version', %[2]d); PRAGMA application_id = %[1]d; PRAGMA user_version = %[2]d; COMMIT", application, len(list))
	_, err = c.ExecContext(ctx, end)
	return err
}

// backup keeps a copy of the file as it was in that version.
func backup(ctx context.Context, c *sql.Conn, path string, version int) error {
	name := fmt.Sprintf("%s.v%d", path, version)
	half := name + ".new"
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	f, err := os.OpenFile(half, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := c.ExecContext(ctx, "VACUUM INTO ?", half); err != nil {
		os.Remove(half)
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	f.Close()
	if err := os.Rename(half, name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
