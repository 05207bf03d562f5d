package output

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/alive"
	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// layout is the version of the tables.
const layout = 1

// Open opens an output, and makes a SQLite file if there is none. Errors that may pass wrap
// ErrAway.
func Open(ctx context.Context, at jobfile.Output, o Options) (*Output, error) {
	o.Lease = cmp.Or(o.Lease, LeaseTime)
	d := &Output{o: o, id: rand.Text()}
	var err error
	if at.File != "" {
		err = d.openSQLite(ctx, at.File)
	} else {
		err = d.openPostgres(at.URL)
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

// prepare makes the table of jobs, and refuses that of a later release.
func (d *Output) prepare(ctx context.Context) (err error) {
	defer background.Caught(&err)
	var newest sql.NullInt64
	err = d.readers.QueryRowContext(ctx, "SELECT max(layout) FROM abide_jobs").Scan(&newest)
	switch {
	case err == nil && newest.Int64 > layout:
		return errors.New("it was written by a newer release: use that one, or name another output")
	case err == nil:
		return nil
	case !isMissingTable(err):
		return err
	case d.o.ReadOnly:
		return errors.New("it has no jobs of abide")
	}
	return d.write(ctx, func(t *transaction) error {
		if _, err := t.exec(d.dialect.prelude); err != nil {
			return err
		}
		_, err := t.exec(`CREATE TABLE IF NOT EXISTS abide_jobs (
			name TEXT PRIMARY KEY, kind TEXT NOT NULL, fingerprint TEXT NOT NULL, request TEXT NOT NULL,
			columns TEXT NOT NULL, history BOOLEAN NOT NULL, layout BIGINT NOT NULL, made TEXT NOT NULL)`)
		return err
	})
}

const selectJobs = "SELECT name, kind, fingerprint, request, columns, layout FROM abide_jobs"

// Jobs are the descriptions of the jobs in the output.
func (d *Output) Jobs(ctx context.Context) ([]Description, error) {
	var list []Description
	err := d.read(ctx, func(r *sql.Rows) error {
		description, err := scanDescription(r)
		list = append(list, description)
		return err
	}, selectJobs+" ORDER BY name")
	return list, err
}

func scanDescription(r *sql.Rows) (d Description, err error) {
	var columns string
	var version int64
	if err := r.Scan(&d.Name, &d.Kind, &d.Fingerprint, &d.Request, &columns, &version); err != nil {
		return d, err
	}
	if version > layout {
		return d, fmt.Errorf("the job %s was written by a newer release: use that one, or name another output", d.Name)
	}
	var texts []string
	err = json.Unmarshal([]byte(columns), &texts)
	d.Columns = lists.Map(texts, columnOf)
	return d, err
}

// Kept opens a job that the output has; "" names the only one.
func (d *Output) Kept(ctx context.Context, name string) (*Job, error) {
	list, err := d.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, kept := range list {
		if kept.Name == name || name == "" && len(list) == 1 {
			return newJob(d, kept), nil
		}
	}
	names := status.Line(strings.Join(lists.Map(list, func(kept Description) string { return kept.Name }), ", ")) // a server may say anything
	if name == "" && len(list) > 0 {
		return nil, fmt.Errorf("there are several jobs, so name one of them: %s", names)
	}
	return nil, fmt.Errorf("there is no job %q; there are: %s", name, names)
}

// Job opens a job, and makes its tables if there are none. The error says what to do if the output has
// a job of that name with another fingerprint.
func (d *Output) Job(ctx context.Context, want Description) (*Job, error) {
	if name := strings.ToLower(want.Name); name == "abide_jobs" || strings.HasPrefix(name, "sqlite_") { // policy/jobfile checks all else
		return nil, d.explain(ctx, fmt.Errorf("a job cannot have the name %q: give it another one", want.Name))
	}
	j := newJob(d, want)
	err := d.write(ctx, func(t *transaction) error { return d.makeJob(t, want) })
	if err != nil {
		return nil, err
	}
	added := []string{"{units} item TEXT NOT NULL DEFAULT 'null'", "{units} begun BIGINT NOT NULL DEFAULT 0"} // which a table of an older release lacks
	if want.collects() {
		added = []string{"{targets} reason TEXT NOT NULL DEFAULT ''"}
	}
	for _, one := range added {
		table, column, _ := strings.Cut(one, " ")
		name, _, _ := strings.Cut(column, " ")
		if _, lacks := d.readers.ExecContext(ctx, j.text("SELECT "+name+" FROM "+table+" LIMIT 0")); lacks != nil && err == nil {
			err = d.write(ctx, func(t *transaction) error {
				_, err := t.exec(j.text("ALTER TABLE " + table + " ADD COLUMN " + column))
				return err
			})
		}
	}
	return j, err
}

// dropEmpty drops the tables of a job that is another one than it was, if it has fetched nothing and no process works on
// it: its request was wrong.
func (d *Output) dropEmpty(t *transaction, kept Description) (dropped bool, err error) {
	j, about := newJob(d, kept), "{units}"
	using, arguments := "SELECT 1 FROM {units} WHERE state = 'running' AND lease_end > {now} UNION ALL ", []any{d.now()}
	if kept.collects() {
		release, err := j.Own(t.ctx)
		if err != nil {
			return false, nil // another process has it
		}
		defer release()
		about, using, arguments = "{targets}", "", nil
	}
	if _, err = t.exec(j.text(createRejects)); err != nil {
		return false, err
	}
	dropped = true
	err = t.query(func(*sql.Rows) error { dropped = false; return nil }, j.text(using+"SELECT 1 FROM {records} UNION ALL SELECT 1 FROM {rejects} LIMIT 1"), arguments...)
	for _, table := range []string{"{records}", about, "{rejects}"} {
		if err == nil && dropped {
			_, err = t.exec(j.text("DROP TABLE " + table))
		}
	}
	return dropped, err
}

// differs tells why a job that is kept is not the wanted one.
func (d Description) differs(want Description) error {
	what := ""
	switch {
	case d.Kind != want.Kind:
		what = fmt.Sprintf("it was a %s, and is a %s", d.Kind, want.Kind)
	case d.Fingerprint == want.Fingerprint:
		return nil
	default:
		before, after := strings.Split(d.Request, "\n"), strings.Split(want.Request, "\n")
		what = "its request is the same, " + after[0] + ", and something else has changed that decides about units or records" // an older release has kept the request alone
		for i := range min(len(before), len(after)) {
			if before[i] != after[i] {
				what = fmt.Sprintf("it had %s, and has %s", before[i], after[i])
				break
			}
		}
	}
	return fmt.Errorf("the output has another job %s: %s; name another output, or give the job another name", want.Name, what)
}

// makeJob makes the tables and columns that a job lacks.
func (d *Output) makeJob(t *transaction, want Description) error {
	if _, err := t.exec(d.dialect.prelude); err != nil {
		return err
	}
	var kept Description
	found, isNew := false, false // isNew: a column
	err := t.query(func(r *sql.Rows) (err error) {
		found = true
		kept, err = scanDescription(r)
		return err
	}, selectJobs+" WHERE name = $1", want.Name)
	if err != nil {
		return err
	}
	columns := want.Columns
	if another := kept.differs(want); found && another != nil {
		if dropped, err := d.dropEmpty(t, kept); err != nil || !dropped {
			return cmp.Or(err, another)
		}
		found = false
	}
	if found {
		columns = kept.Columns
		for _, c := range want.Columns {
			i := slices.IndexFunc(columns, func(there jobfile.Column) bool { return there.Name == c.Name })
			if i < 0 {
				columns = append(columns, c)
			} else {
				was := columns[i]
				if columns[i] = c; want.Of == nil || isFilledAs(was, c) {
					continue
				}
				_, err = t.exec("ALTER TABLE " + Quote(want.Name) + " DROP COLUMN " + Quote(c.Name)) // it has another type or path now
			}
			if err == nil {
				_, err = t.exec("ALTER TABLE " + Quote(want.Name) + " ADD COLUMN " + d.dialect.columnType(c))
			}
			if err != nil {
				return err
			}
			isNew = true
		}
	} else if err := d.makeTables(t, want); err != nil {
		if isTaken(err) {
			return fmt.Errorf("the output has a table already that the job %s would make (%w): give the job another name", want.Name, err)
		}
		return err
	}
	j := newJob(d, want)
	_, err = t.exec(j.text(createRejects))
	if err == nil && want.Replace {
		_, err = t.exec(j.text("CREATE INDEX IF NOT EXISTS {unit} ON {records} (unit, fetched_at)"))
	}
	if err == nil && isNew && want.Of != nil {
		err = j.fill(t)
	}
	if err != nil {
		return err
	}
	list, err := json.Marshal(append([]string{}, lists.Map(columns, columnText)...))
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO abide_jobs (name, kind, fingerprint, request, columns, history, layout, made) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, fingerprint = excluded.fingerprint, request = excluded.request, columns = excluded.columns, history = excluded.history`,
		want.Name, want.Kind, want.Fingerprint, encode(want.Request), string(list), want.collects(), layout, d.here().UTC().Format(time.RFC3339))
	return err
}

// key is that of the table of records.
func (d *Description) key() string {
	if d.collects() {
		return "id, fetched_at"
	}
	return "id"
}

func (d *Output) makeTables(t *transaction, want Description) error {
	var columns strings.Builder
	for _, c := range want.Columns {
		columns.WriteString(", " + d.dialect.columnType(c))
	}
	texts := []string{
		"CREATE TABLE {records} (id TEXT NOT NULL, unit TEXT NOT NULL, fetched_at {time} NOT NULL, body {json} NOT NULL" +
			columns.String() + ", PRIMARY KEY (" + want.key() + "))",
		"CREATE INDEX {fetched} ON {records} (fetched_at, id)",
	}
	if want.collects() {
		texts = append(texts, `CREATE TABLE {targets} (key TEXT PRIMARY KEY, etag TEXT NOT NULL, last_modified TEXT NOT NULL,
			hash TEXT NOT NULL, failures BIGINT NOT NULL, asked {time} NOT NULL, reason TEXT NOT NULL DEFAULT '')`)
	} else {
		texts = append(texts, `CREATE TABLE {units} (key TEXT PRIMARY KEY, place BIGINT NOT NULL, item TEXT NOT NULL DEFAULT 'null', state TEXT NOT NULL DEFAULT 'waiting',
			checkpoint {blob}, pages BIGINT NOT NULL DEFAULT 0, records BIGINT NOT NULL DEFAULT 0,
			tries BIGINT NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '', lease BIGINT NOT NULL DEFAULT 0,
			owner TEXT NOT NULL DEFAULT '', holder TEXT NOT NULL DEFAULT '', lease_end BIGINT NOT NULL DEFAULT 0,
			not_before BIGINT NOT NULL DEFAULT 0, changed BIGINT NOT NULL DEFAULT 0, begun BIGINT NOT NULL DEFAULT 0)`,
			"CREATE INDEX {state} ON {units} (state, place, not_before, pages, records)")
	}
	j := newJob(d, want)
	for _, text := range texts {
		if _, err := t.exec(j.text(text)); err != nil {
			return err
		}
	}
	return nil
}

// Query runs a SELECT, and yields for each row as texts the first column and those with the names. A row whose first
// column is NULL is left out.
func (d *Output) Query(ctx context.Context, query string, names ...string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		if err := d.query(ctx, query, names, yield); err != nil {
			yield(nil, d.explain(ctx, err))
		}
	}
}

func (d *Output) query(ctx context.Context, query string, names []string, yield func([]string, error) bool) (err error) {
	defer background.Caught(&err)
	query = strings.TrimRight(strings.TrimSpace(query), "; \t\n")
	tx, err := d.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	// What changes something cannot stand in parentheses.
	rows, err := tx.QueryContext(ctx, "SELECT * FROM (\n"+query+"\n) AS query")
	if err != nil {
		return fmt.Errorf("the query: %w", err)
	}
	defer rows.Close()
	there, err := rows.Columns()
	if err != nil {
		return err
	}
	row, into, wanted := make([]any, len(there)), make([]any, len(there)), []int{0}
	for i := range row {
		into[i] = &row[i]
	}
	for _, name := range names {
		wanted = append(wanted, slices.Index(there, name))
		if wanted[len(wanted)-1] < 0 {
			return fmt.Errorf("the query has no column %q; there are %s", name, strings.Join(there, ", "))
		}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if row[0] != nil && !yield(lists.Map(wanted, func(i int) string { return TextOf(row[i]) }), nil) {
			return nil
		}
	}
	return rows.Err()
}

// Greatest yields for each unit of a job its greatest number, or text or time up to most, in a column, and the unit.
func (d *Output) Greatest(ctx context.Context, job string, column jobfile.Column, number bool, most string) iter.Seq2[[]string, error] {
	value, condition := Quote(column.Name), ""
	switch {
	case number && !slices.Contains([]string{"integer", "number"}, column.Type):
		value = fmt.Sprintf(d.dialect.number, value)
	case !number && column.Type != "time":
		value = fmt.Sprintf(d.dialect.text, value)
	}
	if !number {
		condition = " WHERE " + value + " <= '" + most + "'"
	}
	return d.Query(ctx, "SELECT max("+value+"), unit FROM "+Quote(job)+condition+" GROUP BY unit", "unit")
}

// TextOf is a value of a column as text.
func TextOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return decode(v)
	case []byte:
		return decode(string(v))
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

// Job is one job in an output. It is safe for concurrent use.
type Job struct {
	engine   *Output
	is       Description
	replacer *strings.Replacer
	insert   string // adds records
	opened   time.Time
}

func newJob(e *Output, description Description) *Job {
	if description.About == nil {
		description.About = func(key string) string { return key }
	}
	j := &Job{engine: e, is: description, opened: e.here(), replacer: strings.NewReplacer(append(e.dialect.replacements(),
		"{records}", Quote(description.Name), "{units}", Quote(description.Name+"_units"), "{targets}", Quote(description.Name+"_targets"), "{rejects}", Quote(description.Name+"_rejects"),
		"{fetched}", Quote(description.Name+"_fetched"), "{state}", Quote(description.Name+"_units_state"), "{unit}", Quote(description.Name+"_unit"),
	)...)}
	j.insert = j.insertText()
	return j
}

// text is a statement about the tables of the job.
func (j *Job) text(s string) string { return j.replacer.Replace(s) }

// Description returns the description with which the job was opened, or is kept.
func (j *Job) Description() Description { return j.is }

// insertText is the statement that adds a record to SQLite, and the rows of a JSON array of arrays
// to PostgreSQL.
func (j *Job) insertText() string {
	names := lists.Map(j.is.Names(), Quote)
	sets := lists.Map(names[1:], func(name string) string { return name + " = excluded." + name })
	given, values := make([]string, len(names)), make([]string, len(names))
	for i := range names {
		given[i], values[i] = "$"+strconv.Itoa(i+1), "(value->>"+strconv.Itoa(i)+")"
	}
	source := "VALUES (" + strings.Join(given, ", ") + ")"
	if !j.engine.isSQLite() {
		values[2], values[3] = values[2]+"::timestamptz", values[3]+"::json"
		for i, c := range j.is.Columns {
			values[4+i] += "::" + j.engine.dialect.types[c.Type]
		}
		source = "SELECT " + strings.Join(values, ", ") + " FROM json_array_elements(CAST($1 AS JSON)) AS value"
	}
	return j.text("INSERT INTO {records} (" + strings.Join(names, ", ") + ") " + source +
		" ON CONFLICT (" + j.is.key() + ") DO UPDATE SET " + strings.Join(sets, ", "))
}

// Own makes the caller the only one who collects the job, until release or the end of the
// process. It returns ErrOwned if another process does.
func (j *Job) Own(ctx context.Context) (release func(), err error) {
	defer background.Caught(&err)
	if j.engine.isSQLite() {
		f, err := j.lockBeside(ownerSuffix, alive.First)
		if errors.Is(err, alive.ErrLocked) {
			err = ErrOwned
		}
		return func() { f.Close() }, err
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
	return nil, j.engine.explain(ctx, cmp.Or(err, ErrOwned))
}

const ownerSuffix = "-collect-"

// lockBeside locks a file of the job beside that of SQLite.
func (j *Job) lockBeside(suffix string, at alive.Place) (*os.File, error) {
	f, err := os.OpenFile(j.engine.file+suffix+j.is.Name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = alive.Lock(f, at); err != nil {
		f.Close()
	}
	return f, err
}
