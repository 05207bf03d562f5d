package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/abide-proxy/abide/internal/disk"
	"github.com/abide-proxy/abide/internal/sqlite"
)

// applicationID is SQLite's application ID of a state file: "abid".
const applicationID = 0x61626964

// maxRowsPerStep bounds the rows that a maintenance step changes, so that writers wait only
// briefly.
const maxRowsPerStep = 1000

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
//   - budgets: no release has written to it.
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
		if err != nil && !noRows(err) && sqlite.Code(err)&0xff != lib.SQLITE_ERROR {
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
	err := disk.Write(fmt.Sprintf("%s.v%d", path, version), 0o600, os.Rename, func(w io.Writer) error {
		_, err := c.ExecContext(ctx, "VACUUM INTO ?", w.(*os.File).Name()) // SQLite takes a file that is empty
		return err
	})
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// database is an open state file with its connections.
type database struct {
	db, readers     *sql.DB
	conn            *sql.Conn // the only connection that writes
	statements      map[string]*sql.Stmt
	info            os.FileInfo // of the opened file
	generation      string      // random name of this life of the file: it changes when data may have been lost
	generationStart time.Time   // when the generation began
	readOnly        bool        // it was opened for reading only

	reads   sync.RWMutex    // read-locked by readers; locked for good by close
	openCtx context.Context // ends with close
	cancel  context.CancelFunc
}

func newDatabase() *database {
	d := &database{statements: map[string]*sql.Stmt{}}
	d.openCtx, d.cancel = context.WithCancel(context.Background())
	return d
}

// acquire holds the file open for a reader until release. The context ends when the file is
// to be closed. ok is false if it is closed.
func (d *database) acquire(ctx context.Context) (_ context.Context, release func(), ok bool) {
	if !d.reads.TryRLock() {
		return ctx, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.openCtx, cancel)
	return ctx, func() {
		stop()
		cancel()
		d.reads.RUnlock()
	}, true
}

// open connects the writer and the readers in a mode such as mode=rw, with further pragmas.
func (d *database) open(ctx context.Context, path, mode string, pragmas []string) (err error) {
	// Other processes write, too: busy_timeout waits for their transactions. Commits are on
	// the disk when they return: synchronous(FULL), and fullfsync on macOS, where disks may
	// otherwise keep data in their cache.
	usual := []string{"busy_timeout(5000)", "synchronous(FULL)", "fullfsync(1)", "checkpoint_fullfsync(1)", "temp_store(MEMORY)", "cell_size_check(1)", "trusted_schema(0)"}
	if d.db, d.readers, err = sqlite.Open(path, mode+"&"+url.Values{"_pragma": append(usual, pragmas...)}.Encode(), 2); err != nil {
		return err
	}
	d.conn, err = d.db.Conn(ctx)
	return err
}

// checkTimeout bounds the integrity check. Damage that it misses is found when the damaged
// part is read.
const checkTimeout = time.Second

// check runs SQLite's integrity check. A timeout is no error.
func (d *database) check(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var said string
	err := d.conn.QueryRowContext(limited, "PRAGMA quick_check(1)").Scan(&said)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil || sqlite.Code(err)&0xff == lib.SQLITE_INTERRUPT:
		return nil
	case err != nil:
		return err
	case said != "ok":
		return damagedf("%s", strings.Join(strings.Fields(said), " "))
	}
	return nil
}

// damageIfNoTable turns SQLite's errors about missing tables or unknown formats into damage.
func damageIfNoTable(err error) error {
	if sqlite.Code(err) == lib.SQLITE_ERROR {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// readGeneration reads the generation of the file. A new file begins a generation.
func (d *database) readGeneration(ctx context.Context, now time.Time) error {
	var began int64
	err := d.conn.QueryRowContext(ctx, "SELECT a.value, b.value FROM meta a, meta b WHERE a.name = 'generation' AND b.name = 'born'").Scan(&d.generation, &began)
	d.generationStart = time.UnixMicro(began)
	if noRows(err) {
		return d.newGeneration(ctx, now)
	}
	return asDamage(err)
}

// shiftFutureTimes changes rows whose times are in the future, because the clock has been set
// back since: they keep the remaining lifetime that they had then. On a full disk this is done
// later.
func (d *database) shiftFutureTimes(ctx context.Context, now time.Time) error {
	for _, table := range []string{"notes", "documents"} {
		_, err := d.conn.ExecContext(ctx, "UPDATE "+table+" SET until = CASE until WHEN 0 THEN 0 ELSE until - (at - ?1) END, at = ?1 WHERE at > ?1", now.UnixMicro())
		if err != nil && (isDamage(err) || isUncertain(err)) {
			return err
		}
	}
	return nil
}

// newGeneration begins a new generation.
func (d *database) newGeneration(ctx context.Context, now time.Time) error {
	d.generation, d.generationStart = rand.Text(), now
	_, err := d.conn.ExecContext(ctx, "INSERT OR REPLACE INTO meta VALUES ('generation', ?), ('born', ?)", d.generation, now.UnixMicro())
	return err
}

var errReading = errors.New("somebody is reading it")

// checkpoint writes everything from the log into the file itself.
func (d *database) checkpoint() error {
	var busy, log, moved int
	if err := d.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved); err != nil {
		return err
	}
	if busy != 0 {
		return errReading
	}
	return nil
}

// close waits for readers. A reader of a closed file could otherwise use the shared memory
// of a new file at the same path.
func (d *database) close() error {
	d.cancel()
	d.reads.Lock()
	var errs []error
	for _, s := range d.statements {
		errs = append(errs, s.Close())
	}
	if d.readers != nil {
		errs = append(errs, d.readers.Close())
	}
	if d.conn != nil {
		errs = append(errs, d.conn.Close())
	}
	if d.db != nil {
		errs = append(errs, d.db.Close())
	}
	return errors.Join(errs...)
}

// checkTables checks that the tables exist with their columns.
func (d *database) checkTables(ctx context.Context) error {
	queries := []string{
		"SELECT site, key, instance, seq, ahead, at, state, sum FROM counts",
		"SELECT site, key, at, until, n, text, sum FROM notes",
		"SELECT id, kind, key, at, until, value, sum FROM documents",
		"SELECT id, at, origin, value FROM aside",
		"SELECT name, value FROM meta",
	}
	for _, t := range historyTables {
		queries = append(queries, "SELECT "+t.columns()+" FROM "+t.name)
	}
	for _, query := range queries {
		rows, err := d.conn.QueryContext(ctx, query+" LIMIT 0")
		if err != nil {
			return err
		}
		rows.Close()
	}
	return nil
}

// statement returns a prepared statement, prepared once.
func (d *database) statement(query string) (*sql.Stmt, error) {
	if s := d.statements[query]; s != nil {
		return s, nil
	}
	s, err := d.conn.PrepareContext(context.Background(), query)
	if err == nil {
		d.statements[query] = s
	}
	return s, err
}

// row reads one row with the writing connection.
func (d *database) row(query string, args []any, to ...any) error {
	s, err := d.statement(query)
	if err != nil {
		return err
	}
	return asDamage(s.QueryRowContext(context.Background(), args...).Scan(to...))
}

// rows reads many rows.
func (d *database) rows(query string, args []any, each func(scan func(...any) error) error) error {
	s, err := d.statement(query)
	if err != nil {
		return err
	}
	return sqlite.Each(func(rows *sql.Rows) error { return asDamage(each(rows.Scan)) })(s.QueryContext(context.Background(), args...))
}

// run runs a statement on the writing connection. Only the goroutine that
// commits may call it.
func (d *database) run(query string, args ...any) error {
	_, err := d.change(query, args...)
	return err
}

// change is run that returns the number of changed rows.
func (d *database) change(query string, args ...any) (int64, error) {
	s, err := d.statement(query)
	if err != nil {
		return 0, err
	}
	done, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// noRows tells whether a query had no row.
func noRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// asDamage turns an error about a wrong type of a value into damage.
func asDamage(err error) error {
	if err != nil && sqlite.Code(err) == 0 && !noRows(err) {
		return damagedf("%v", err)
	}
	return err
}
