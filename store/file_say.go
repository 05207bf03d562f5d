package store

import (
	"context"
	"database/sql"
)

// complete shows that the tables are there, with their columns.
func (d *disk) complete(ctx context.Context) error {
	for _, query := range []string{
		"SELECT site, key, instance, seq, ahead, at, state, sum FROM counts",
		"SELECT site, name, until, record, sum FROM budgets",
		"SELECT site, key, at, until, n, text, sum FROM notes",
		"SELECT id, kind, key, at, until, value, sum FROM documents",
		"SELECT id, at, origin, value FROM aside",
		"SELECT step, start, site, received, sent, requests FROM traffic",
		"SELECT name, value FROM meta",
	} {
		rows, err := d.conn.QueryContext(ctx, query+" LIMIT 0")
		if err != nil {
			return err
		}
		rows.Close()
	}
	return nil
}

// say is a statement, completed once.
func (d *disk) say(query string) (*sql.Stmt, error) {
	if s := d.says[query]; s != nil {
		return s, nil
	}
	s, err := d.conn.PrepareContext(context.Background(), query)
	if err == nil {
		d.says[query] = s
	}
	return s, err
}

// row reads one row with the connection that writes.
func (d *disk) row(query string, args []any, to ...any) error {
	s, err := d.say(query)
	if err != nil {
		return err
	}
	return unreadable(s.QueryRowContext(context.Background(), args...).Scan(to...))
}

// rows reads many.
func (d *disk) rows(query string, args []any, each func(scan func(...any) error) error) error {
	s, err := d.say(query)
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
			return unreadable(err)
		}
	}
	return rows.Err()
}

// run says a statement to the connection that writes. Only the committer may.
func (d *disk) run(query string, args ...any) error {
	_, err := d.change(query, args...)
	return err
}

// change is run that answers how many rows are others now.
func (d *disk) change(query string, args ...any) (int64, error) {
	s, err := d.say(query)
	if err != nil {
		return 0, err
	}
	done, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// unreadable makes of a value that is not what it should be that the file is damaged.
func unreadable(err error) error {
	if err != nil && sqliteCode(err) == 0 && !none(err) {
		return damage("%v", err)
	}
	return err
}
