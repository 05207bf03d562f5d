package output

import (
	"context"
	"errors"
	"os"
)

// Own makes the caller the only one who collects the job.
func (j *job) Own(ctx context.Context) (release func(), err error) {
	if j.engine.isSQLite() {
		return j.ownFile()
	}
	// The lock belongs to the connection, and ends with it.
	conn, err := j.engine.db.Conn(ctx)
	if err != nil {
		return nil, j.engine.explain(ctx, err)
	}
	var got bool
	err = conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock(hashtext(current_schema()), hashtext($1))", j.is.Name).Scan(&got)
	if err == nil && got {
		return func() {
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext(current_schema()), hashtext($1))", j.is.Name)
			conn.Close()
		}, nil
	}
	conn.Close()
	if err == nil {
		err = ErrOwned
	}
	return nil, j.engine.explain(ctx, err)
}

const ownerSuffix = "-collect-"

// ownFile locks a file beside that of SQLite.
func (j *job) ownFile() (release func(), err error) {
	f, err := os.OpenFile(j.engine.file+ownerSuffix+j.is.Name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		f.Close()
		if errors.Is(err, errLocked) {
			err = ErrOwned
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}
