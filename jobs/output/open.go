package output

import (
	"context"
	"errors"

	"github.com/abide-proxy/abide/policy/jobfile"
)

// Open opens an output, and makes a SQLite file if there is none. Errors that may pass wrap
// ErrAway.
func Open(ctx context.Context, at jobfile.Output, o Options) (Output, error) {
	if o.Lease <= 0 {
		o.Lease = LeaseTime
	}
	d := &database{engine: &engine{o: o, writer: newWriter()}}
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
