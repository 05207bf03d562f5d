package output

import (
	"context"
	"database/sql"
)

// BeginWithoutEnd locks the units of a job, as a process does that is frozen within a
// transaction. It is for PostgreSQL.
func BeginWithoutEnd(ctx context.Context, o *Output, job string) (*sql.Tx, error) {
	tx, err := o.db.BeginTx(ctx, nil)
	if err == nil {
		_, err = tx.ExecContext(ctx, `UPDATE "`+job+`_units" SET pages = pages`)
	}
	return tx, err
}
