package output

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync"

	"github.com/abide-proxy/abide/internal/sqlite"
)

// writer writes to a SQLite file. What several goroutines write at once is one transaction,
// so that they wait for the disk together.
type writer struct {
	mu      sync.Mutex
	waiting []*task

	turn       chan struct{} // has room while nobody writes
	conn       *sql.Conn     // of who has the turn, as statements
	statements map[string]*sql.Stmt
}

// task is a part of a transaction.
type task struct {
	run  func(*transaction) error
	err  error
	done chan struct{}
}

// maxTasks bounds the parts of a transaction.
const maxTasks = 64

func (w *writer) write(ctx context.Context, db *sql.DB, f func(*transaction) error) error {
	t := &task{run: f, done: make(chan struct{})}
	w.mu.Lock()
	w.waiting = append(w.waiting, t)
	w.mu.Unlock()
	for {
		select {
		case <-t.done:
			return t.err
		case <-ctx.Done():
			if w.withdraw(t) {
				return ctx.Err()
			}
			<-t.done // another goroutine is writing it
			return t.err
		case w.turn <- struct{}{}:
		}
		tasks := w.take()
		if len(tasks) > 0 {
			// A transaction is short, and others are in it: it does not end with ctx.
			w.runAll(context.WithoutCancel(ctx), db, tasks)
		}
		<-w.turn
	}
}

// withdraw takes back a task that nobody has begun.
func (w *writer) withdraw(t *task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, t)
	if i >= 0 {
		w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
	}
	return i >= 0
}

func (w *writer) take() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.waiting), maxTasks)
	tasks := w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	return tasks
}

// runAll runs tasks in one transaction. A task that fails leaves the others as they are.
func (w *writer) runAll(ctx context.Context, db *sql.DB, tasks []*task) {
	err := w.transact(ctx, db, tasks)
	if err != nil && w.conn != nil {
		// The connection may be unusable. Closing it ends its transaction.
		_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
		w.conn.Close()
		w.conn = nil
	}
	for _, t := range tasks {
		if t.err == nil {
			t.err = err
		}
		close(t.done)
	}
}

func (w *writer) transact(ctx context.Context, db *sql.DB, tasks []*task) error {
	if w.conn == nil {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		w.conn, w.statements = conn, map[string]*sql.Stmt{}
	}
	tx := &transaction{ctx: ctx, conn: w.conn, statements: w.statements}
	if _, err := tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, t := range tasks {
		if _, err := tx.exec("SAVEPOINT task"); err != nil {
			return err
		}
		if t.err = t.run(tx); t.err != nil {
			// It fails where the error has ended the whole transaction, as that of a full disk.
			if _, err := tx.exec("ROLLBACK TO task"); err != nil {
				return fmt.Errorf("the transaction was rolled back: %w", t.err)
			}
		}
		if _, err := tx.exec("RELEASE task"); err != nil {
			return err
		}
	}
	_, err := tx.exec("COMMIT")
	return err
}

// close waits until nobody writes.
func (w *writer) close() {
	w.turn <- struct{}{}
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
	<-w.turn
}

// transaction runs statements.
type transaction struct {
	ctx        context.Context
	conn       connection
	statements map[string]*sql.Stmt // prepared ones; nil: the driver has them
}

// connection is *sql.Conn and *sql.Tx.
type connection interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// exec runs a statement. It returns the number of rows that it changed.
func (t *transaction) exec(query string, args ...any) (int64, error) {
	var r sql.Result
	s, err := t.prepared(query)
	switch {
	case err != nil:
	case s != nil:
		r, err = s.ExecContext(t.ctx, args...)
	default:
		r, err = t.conn.ExecContext(t.ctx, query, args...)
	}
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query runs a statement, and calls scan for each row.
func (t *transaction) query(scan func(*sql.Rows) error, query string, args ...any) error {
	s, err := t.prepared(query)
	switch {
	case err != nil:
		return err
	case s != nil:
		return sqlite.Each(scan)(s.QueryContext(t.ctx, args...))
	}
	return sqlite.Each(scan)(t.conn.QueryContext(t.ctx, query, args...))
}

// maxPrepared bounds the prepared statements of a file.
const maxPrepared = 200

func (t *transaction) prepared(query string) (*sql.Stmt, error) {
	if t.statements == nil {
		return nil, nil
	}
	if s := t.statements[query]; s != nil {
		return s, nil
	}
	if len(t.statements) >= maxPrepared {
		return nil, nil
	}
	s, err := t.conn.PrepareContext(t.ctx, query)
	if err == nil {
		t.statements[query] = s
	}
	return s, err
}
