package output

import (
	"context"
	"database/sql"
)

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
	var rows *sql.Rows
	s, err := t.prepared(query)
	switch {
	case err != nil:
	case s != nil:
		rows, err = s.QueryContext(t.ctx, args...)
	default:
		rows, err = t.conn.QueryContext(t.ctx, query, args...)
	}
	if err != nil {
		return err
	}
	return scanAll(rows, scan)
}

func scanAll(rows *sql.Rows, scan func(*sql.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
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
