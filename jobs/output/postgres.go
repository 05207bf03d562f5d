package output

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/abide-proxy/abide/policy"
)

// connectTimeout bounds the time for connecting to PostgreSQL, unless the URL does.
const connectTimeout = 10 * time.Second

// openPostgres prepares connections to PostgreSQL.
func (e *engine) openPostgres(at policy.Secret) error {
	e.dialect, e.name = postgresDialect, "postgres"
	c, err := pgx.ParseConfig(at.Reveal())
	if err != nil {
		return errors.New("the URL cannot be read: write postgres://user:password@host:5432/database")
	}
	e.name, e.password = "postgres://"+c.Host+"/"+c.Database, c.Password
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "abide"
	}
	// A process that is frozen within a transaction would keep its units locked after their
	// leases have ended.
	end := "SET idle_in_transaction_session_timeout = " + strconv.FormatInt(max(e.o.Lease.Milliseconds(), 1000), 10)
	e.db = stdlib.OpenDB(*c, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, end)
		return err
	}))
	e.db.SetMaxOpenConns(16)
	e.db.SetMaxIdleConns(16)
	e.db.SetConnMaxIdleTime(time.Minute)
	e.readers = e.db
	return nil
}
