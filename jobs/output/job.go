package output

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/abide-proxy/abide/internal/alive"
	"github.com/abide-proxy/abide/internal/lists"
)

// job is a Job in SQL.
type job struct {
	engine   *engine
	is       Description
	replacer *strings.Replacer
	insert   string // of a record
	inserts  string // of insertedAtOnce records; of SQLite
}

func newJob(e *engine, description Description) *job {
	j := &job{engine: e, is: description, replacer: strings.NewReplacer(append(e.dialect.replacements(),
		"{records}", quote(description.Name), "{units}", quote(description.Name+"_units"), "{targets}", quote(description.Name+"_targets"),
		"{fetched}", quote(description.Name+"_fetched"), "{state}", quote(description.Name+"_units_state"),
	)...)}
	j.insert, j.inserts = j.insertText(1), j.insertText(insertedAtOnce)
	return j
}

// text is a statement about the tables of the job.
func (j *job) text(s string) string { return j.replacer.Replace(s) }

// Description returns the description with which the job was opened.
func (j *job) Description() Description { return j.is }

// insertedAtOnce is the number of records that one statement adds to SQLite, which is faster
// than a statement for each.
const insertedAtOnce = 16

// insertText is the statement that adds rows records in SQLite, and any number in PostgreSQL.
func (j *job) insertText(rows int) string {
	names := append([]string{"id", "unit", "fetched_at", "body"}, lists.Map(j.is.Columns, quote)...)
	sets := lists.Map(names[1:], func(name string) string { return name + " = excluded." + name })
	key := "id"
	if j.is.History {
		key = "id, fetched_at"
	}
	values := make([]string, len(names))
	for i := range values {
		values[i] = "$" + strconv.Itoa(i+1)
	}
	tuples := make([]string, rows)
	for row := range tuples {
		of := make([]string, len(names))
		for i := range of {
			of[i] = "$" + strconv.Itoa(row*len(names)+i+1)
		}
		tuples[row] = "(" + strings.Join(of, ", ") + ")"
	}
	source := "VALUES " + strings.Join(tuples, ", ")
	if !j.engine.isSQLite() {
		aliases := make([]string, len(names))
		for i := range values {
			values[i] += "::text[]"
			aliases[i] = "a" + strconv.Itoa(i)
		}
		list := strings.Join(aliases, ", ")
		values[2] = "$3::timestamptz[]"
		source = "SELECT " + strings.Replace(list, "a3", "a3::json", 1) + " FROM unnest(" + strings.Join(values, ", ") + ") AS given (" + list + ")"
	}
	return j.text("INSERT INTO {records} (" + strings.Join(names, ", ") + ") " + source +
		" ON CONFLICT (" + key + ") DO UPDATE SET " + strings.Join(sets, ", "))
}

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
	if err := alive.Lock(f, alive.First); err != nil {
		f.Close()
		if errors.Is(err, alive.ErrLocked) {
			err = ErrOwned
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}
