package store

import (
	"context"
	"database/sql"
	"errors"
)

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

// run runs a statement on the writing connection. Only the committer may call it.
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
