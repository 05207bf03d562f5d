package output

import (
	"context"
	"errors"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// Options of Open.
type Options struct {
	// ReadOnly opens an output that exists, and changes nothing.
	ReadOnly bool
	// Lease is how long a claim lasts that is not renewed. 0: LeaseTime.
	Lease time.Duration
	// Now is the clock of leases. nil: the clock of this machine for SQLite, and the clock
	// of the server for PostgreSQL.
	Now func() time.Time
}

// Open opens an output, and makes a SQLite file if there is none. Errors that may pass wrap
// ErrAway.
func Open(ctx context.Context, at policy.JobOutput, o Options) (Output, error) {
	if o.Lease <= 0 {
		o.Lease = LeaseTime
	}
	d := &database{o: o}
	var err error
	switch {
	case !at.URL.Empty():
		err = d.openPostgres(at.URL)
	case at.File != "":
		err = d.openSQLite(ctx, at.File)
	default:
		return nil, errors.New("no output is set: set a file or a postgres:// URL")
	}
	if err == nil {
		err = d.prepare(ctx)
	}
	if err != nil {
		d.Close()
		return nil, d.explain(ctx, err)
	}
	return d, nil
}
