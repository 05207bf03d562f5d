package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	lib "modernc.org/sqlite/lib"
)

// applicationID is SQLite's application ID of a state file: "abid".
const applicationID = 0x61626964

// migrations bring a file from the version equal to their index to the next. The first
// creates a new file. A released migration is never changed; to change the schema, append
// one.
//
// Times are in microseconds since 1970, but for those of history; an until of 0 is for ever.
// The tables are:
//
//   - meta: named values of the file: its version and its generation with the start of that
//     (born), and the number of changes of documents.
//   - counts: the state of a budget that counts (Count in store.go). instance is the process
//     that wrote it, "" if several processes use the budget. seq orders the writes of an
//     instance, at is the time of the write, and ahead has the units that may have been
//     taken after the state.
//   - budgets: never written by this release; rows are removed after until.
//   - notes: what instances tell each other of a site (type Note). at is the time of the
//     write; n and text are the fields N and Text.
//   - documents: the values that Put saves. at is the time of the write.
//   - traffic: bytes and requests of a site. start is the beginning of a time span and step its
//     length, both in seconds, start since 1970.
//   - usage: what became of requests, by site, client, priority and token; waited is in
//     milliseconds. Since version 3, as blocked.
//   - blocked: how long a limit (name) of a site held requests, in milliseconds: held counts
//     each request, busy the time in which any was held.
//   - failed: how many requests to a site failed in one way (name). Since version 4.
//   - aside: rows set aside because they were damaged. at is the time of that,
//     origin is the table, and value is the row as JSON.
//
// sum is the checksum of a row; NULL in rows of version 1.
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
`, `
CREATE TABLE usage (
	step INTEGER, start INTEGER, site TEXT, client TEXT, priority INTEGER, token TEXT,
	requests INTEGER, refusals INTEGER, waited INTEGER, received INTEGER, sent INTEGER,
	PRIMARY KEY (step, start, site, client, priority, token)
) WITHOUT ROWID;
CREATE TABLE blocked (
	step INTEGER, start INTEGER, site TEXT, name TEXT, held INTEGER, busy INTEGER,
	PRIMARY KEY (step, start, site, name)
) WITHOUT ROWID;
CREATE INDEX usage_site ON usage (site, step, start);
CREATE INDEX blocked_site ON blocked (site, step, start);
`, `
CREATE TABLE failed (
	step INTEGER, start INTEGER, site TEXT, name TEXT, requests INTEGER,
	PRIMARY KEY (step, start, site, name)
) WITHOUT ROWID;
CREATE INDEX failed_site ON failed (site, step, start);
`}

// header is the version information of a file. A new, empty file has the zero header.
type header struct {
	application int64
	version     int
	tableCount  int // number of tables and indexes
	metaVersion int // version in the table meta, since version 2; 0: none
}

func readHeader(ctx context.Context, c *sql.Conn) (h header, err error) {
	for query, to := range map[string]any{
		"PRAGMA application_id": &h.application, "PRAGMA user_version": &h.version,
		"SELECT count(*) FROM sqlite_schema": &h.tableCount,
	} {
		if err := c.QueryRowContext(ctx, query).Scan(to); err != nil {
			return h, err
		}
	}
	if h.version > 1 && h.application == applicationID {
		err := c.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'version'").Scan(&h.metaVersion)
		// A missing row or table leaves metaVersion 0, which check reports as damage.
		if err != nil && !noRows(err) && sqliteCode(err)&0xff != lib.SQLITE_ERROR {
			return h, asDamage(err)
		}
	}
	return h, nil
}

// check tells whether a file with that header can be used by a release that knows versions
// up to latest. Only a file that is being created may be empty.
func (h header) check(latest int, creating bool) error {
	switch {
	case h == header{} && creating:
		return nil
	case h == header{}:
		return errEmpty
	case h.application != applicationID:
		return damagedf("it belongs to another program (application id %#x)", h.application)
	case h.version > 1 && h.version != h.metaVersion:
		return damagedf("it says version %d, and version %d in another place", h.version, h.metaVersion)
	case h.version > latest:
		return fmt.Errorf("%w: it has version %d, and this one knows up to %d", errNewer, h.version, latest)
	case h.version < 1 || h.tableCount == 0:
		return damagedf("it says version %d and has %d tables", h.version, h.tableCount)
	}
	return nil
}

// migrate brings the file to the latest version, in one transaction.
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
	// The version is written twice: if only the header has another version, that is a
	// damaged byte and not a newer release.
	end := fmt.Sprintf("INSERT OR REPLACE INTO meta VALUES ('version', %[2]d); PRAGMA application_id = %[1]d; PRAGMA user_version = %[2]d; COMMIT", applicationID, len(list))
	_, err = c.ExecContext(ctx, end)
	return err
}

// backup saves a copy of the file in its current version.
func backup(ctx context.Context, c *sql.Conn, path string, version int) error {
	name := fmt.Sprintf("%s.v%d", path, version)
	unfinished := name + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	f, err := os.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := c.ExecContext(ctx, "VACUUM INTO ?", unfinished); err != nil {
		os.Remove(unfinished)
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	f.Close()
	if err := os.Rename(unfinished, name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
