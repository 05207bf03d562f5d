package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"
)

// database is an open state file with its connections.
type database struct {
	db, readers     *sql.DB
	conn            *sql.Conn // the only connection that writes
	statements      map[string]*sql.Stmt
	info            os.FileInfo // of the opened file
	generation      string      // random name of this life of the file: it changes when data may have been lost
	generationStart time.Time   // when the generation began
	readOnly        bool        // it has readers only

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

// open connects the writer and the readers.
func (d *database) open(ctx context.Context, path string, o FileOptions) (err error) {
	// Other processes write, too: busy_timeout waits for their transactions. Commits are on
	// the disk when they return: synchronous(FULL), and fullfsync on macOS, where disks may
	// otherwise keep data in their cache.
	q := url.Values{"_pragma": {"busy_timeout(5000)", "synchronous(FULL)", "fullfsync(1)", "checkpoint_fullfsync(1)", "temp_store(MEMORY)", "cell_size_check(1)", "trusted_schema(0)"}}
	if o.pragmas != nil {
		q["_pragma"] = append(q["_pragma"], o.pragmas()...)
	}
	if o.noSync {
		q.Add("_pragma", "synchronous(OFF)")
	}
	source := sourceOf(path, "mode=rw&"+q.Encode())
	if d.db, err = sql.Open("sqlite", source); err != nil {
		return err
	}
	d.db.SetMaxOpenConns(1)
	if d.conn, err = d.db.Conn(ctx); err != nil {
		return err
	}
	if d.readers, err = sql.Open("sqlite", source+"&_query_only=1"); err != nil {
		return err
	}
	d.readers.SetMaxOpenConns(2)
	return nil
}

// sourceOf returns the data source name of a file for SQLite.
func sourceOf(path, query string) string {
	name := filepath.ToSlash(path)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // C:/…
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: name, RawQuery: query}).String()
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
	case limited.Err() != nil || sqliteCode(err)&0xff == lib.SQLITE_INTERRUPT:
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
	if sqliteCode(err) == lib.SQLITE_ERROR {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// readGeneration reads the generation of the file. A new file begins a generation.
func (d *database) readGeneration(ctx context.Context, now time.Time) error {
	var began int64
	err := d.conn.QueryRowContext(ctx, "SELECT a.value, b.value FROM meta a, meta b WHERE a.name = 'generation' AND b.name = 'born'").Scan(&d.generation, &began)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		if sqliteCode(err) == 0 {
			return damagedf("%v", err) // the values have wrong types
		}
		return err
	}
	d.generationStart = time.UnixMicro(began)
	if err != nil {
		if err := d.newGeneration(ctx, now); err != nil {
			return err
		}
	}
	return nil
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
		"SELECT site, name, until, record, sum FROM budgets",
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
	rows, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return asDamage(err)
		}
	}
	return rows.Err()
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
	if err != nil && sqliteCode(err) == 0 && !noRows(err) {
		return damagedf("%v", err)
	}
	return err
}
