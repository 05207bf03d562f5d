package output

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/abide-proxy/abide/internal/alive"
	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/internal/sqlite"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// Output is a database of records, with the connections to it. It is safe for concurrent use.
type Output struct {
	o        Options
	dialect  *dialect
	file     string // of SQLite
	name     string // the file, or PostgreSQL without a secret
	password string // never shown

	db, readers *sql.DB  // one of PostgreSQL
	id          string   // of this process
	claims      *os.File // see claimsSuffix; nil: it has no lock
}

func (e *Output) isSQLite() bool { return e.dialect == sqliteDialect }

// now is the first argument of statements with {now}.
func (e *Output) now() any {
	if e.o.Now != nil || e.isSQLite() {
		return e.here().UnixMilli()
	}
	return nil
}

// here is the present of this process.
func (e *Output) here() time.Time {
	if e.o.Now != nil {
		return e.o.Now()
	}
	return time.Now()
}

// write runs f in a transaction. f may run several times, and must not change anything
// else.
func (e *Output) write(ctx context.Context, f func(*transaction) error) error {
	if e.o.ReadOnly {
		return errors.New("the output is open for reading only")
	}
	if _, err := os.Stat(e.file); e.isSQLite() && errors.Is(err, fs.ErrNotExist) { // what is written to it ends with this process
		return fmt.Errorf("output %s: the file was removed, with what was fetched: the same command begins anew", e.name)
	}
	var err error
	for range 5 {
		err = e.transact(ctx, f)
		// Rolled back because of another transaction: the same may succeed now.
		if code := postgresCode(err); code != "40P01" && code != "40001" {
			break
		}
	}
	return e.explain(ctx, err)
}

func (e *Output) transact(ctx context.Context, f func(*transaction) error) error {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err == nil {
		if err = (&transaction{ctx, tx}).run(f); err == nil {
			return tx.Commit()
		}
		_ = tx.Rollback()
	}
	if e.isSQLite() && !errors.Is(err, ErrLost) {
		// The connection may be unusable. Closing it ends its transaction.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// transaction runs statements.
type transaction struct {
	ctx context.Context
	tx  *sql.Tx
}

// run runs a part of the transaction. A panic, as of the PostgreSQL client at a row with more values than columns, is
// an error, so that the transaction ends.
func (t *transaction) run(f func(*transaction) error) (err error) {
	defer background.Caught(&err)
	return f(t)
}

// exec runs a statement. It returns the number of rows that it changed.
func (t *transaction) exec(query string, args ...any) (int64, error) {
	r, err := t.tx.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query runs a statement, and calls scan for each row.
func (t *transaction) query(scan func(*sql.Rows) error, query string, args ...any) error {
	return sqlite.Each(scan)(t.tx.QueryContext(t.ctx, query, args...))
}

// read runs a query outside of a transaction, and calls scan for each row.
func (e *Output) read(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) (err error) {
	defer func() { err = e.explain(ctx, err) }()
	defer background.Caught(&err)
	return sqlite.Each(scan)(e.readers.QueryContext(ctx, query, args...))
}

// Close ends the connections.
func (e *Output) Close() error {
	var errs []error
	if e.claims != nil {
		errs = append(errs, e.claims.Close(), os.Remove(e.claims.Name()))
	}
	if e.readers != nil && e.readers != e.db {
		errs = append(errs, e.readers.Close())
	}
	if e.db != nil {
		errs = append(errs, e.db.Close())
	}
	return errors.Join(errs...)
}

// explain adds to an error where it happened and what to do. An error that may pass wraps
// ErrAway.
func (e *Output) explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrEmptied) || errors.Is(err, ErrOwned) || errors.Is(err, ErrAway) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	away := isAway(err)
	if !e.isSQLite() {
		err = e.shown(err)
	}
	err = fmt.Errorf("output %s: %w%s", e.name, err, sqliteAdvice[sqliteCode(err)]+postgresAdvice[postgresCode(err)])
	if away {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// connectTimeout bounds the time for connecting to PostgreSQL, unless the URL does.
const connectTimeout = 10 * time.Second

// longestMessage bounds a message of PostgreSQL, such as a row, before memory is taken for it.
const longestMessage = 256 << 20

// openPostgres prepares connections to PostgreSQL.
func (e *Output) openPostgres(at policy.Secret) error {
	e.dialect, e.name = postgresDialect, "postgres"
	c, err := pgx.ParseConfig(at.Reveal())
	if err != nil {
		return errors.New("the URL cannot be read: write postgres://user:password@host:5432/database")
	}
	e.name, e.password = "postgres://"+c.Host+"/"+c.Database, c.Password
	c.MaxProtocolMessageBodyLen = longestMessage
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "abide")
	// A process that is frozen within a transaction would keep its units locked after their
	// leases have ended.
	end := "SET idle_in_transaction_session_timeout = " + strconv.FormatInt(max(e.o.Lease.Milliseconds(), 1000), 10)
	e.db = sql.OpenDB(guardedConnector{stdlib.GetConnector(*c, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, end)
		return err
	}))})
	e.db.SetMaxOpenConns(16)
	e.db.SetMaxIdleConns(16)
	e.db.SetConnMaxIdleTime(time.Minute)
	e.readers = e.db
	return nil
}

// shownError is an error with a text of a server, as one short line without the password.
type shownError struct {
	error
	text string
}

func (e *Output) shown(err error) error {
	text := err.Error()
	if e.password != "" {
		text = strings.ReplaceAll(text, e.password, "[redacted]")
	}
	return shownError{err, status.Line(text)}
}

func (e shownError) Error() string { return e.text }
func (e shownError) Unwrap() error { return e.error }

// guardedConnector makes an error of a panic of the PostgreSQL client: database/sql connects in a goroutine of its own.
type guardedConnector struct{ driver.Connector }

func (c guardedConnector) Connect(ctx context.Context) (_ driver.Conn, err error) {
	defer background.Caught(&err)
	return c.Connector.Connect(ctx)
}

// openSQLite opens a file. It refuses the file of another program before it changes anything.
func (e *Output) openSQLite(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	e.dialect, e.file, e.name = sqliteDialect, path, path
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
	if e.db, e.readers, err = sqlite.Open(path, q.Encode(), 8); err != nil {
		return err
	}
	if err := e.isOurs(ctx); err != nil || e.o.ReadOnly {
		return err
	}
	return sqlite.ShareLog(ctx, e.db, path, "name a file")
}

// isOurs refuses a file that has tables and is no output.
func (e *Output) isOurs(ctx context.Context) error {
	var names []string
	err := sqlite.Each(func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		names = append(names, name)
		return err
	})(e.db.QueryContext(ctx, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"))
	if err != nil || len(names) == 0 || slices.Contains(names, "abide_jobs") {
		return err
	}
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	return fmt.Errorf("it is the database of something else, with the tables %s: name another file, which abide makes", strings.Join(names, ", "))
}

// claimsSuffix and the job end the name of the file that a process locks beside that of SQLite, and that has its id.
const claimsSuffix = "-claims-"

// freePredecessor ends the leases of the process that had the lock before, and has ended: its units need not wait for the
// ends of their leases. Where another process has the lock, or there are no locks, they do.
func (j *Job) freePredecessor(ctx context.Context) error {
	e := j.engine
	if !e.isSQLite() || e.claims != nil {
		return nil
	}
	f, err := j.lockBeside(claimsSuffix, alive.Far)
	if err != nil {
		return nil
	}
	before, err := io.ReadAll(f)
	if err == nil {
		err = e.write(ctx, func(t *transaction) error {
			_, err := t.exec(j.text("UPDATE {units} SET lease_end = 0 WHERE state = 'running' AND holder = $1"), string(before))
			return err
		})
	}
	if err == nil {
		_, err = f.WriteAt([]byte(e.id), 0)
	}
	if e.claims = f; err != nil {
		e.claims = nil
		f.Close()
	}
	return e.explain(ctx, err)
}
