package output

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
)

// latest leaves the last of the records with one key, in the order of their keys, so that
// transactions lock rows in one order. Those that were rejected come last.
func latest(records []Record, history bool) []Record {
	compare := func(a, b Record) int {
		by := cmp.Or(cmp.Compare(min(len(a.Rejected), 1), min(len(b.Rejected), 1)), cmp.Compare(a.ID, b.ID))
		if by == 0 && history {
			by = Precise(a.Fetched).Compare(Precise(b.Fetched))
		}
		return by
	}
	sorted := slices.Clone(records)
	slices.Reverse(sorted) // so that the last one of a key comes before the others
	slices.SortStableFunc(sorted, compare)
	return slices.CompactFunc(sorted, func(a, b Record) bool { return compare(a, b) == 0 })
}

// goodOf counts the records of a list of latest that were not rejected.
func goodOf(records []Record) int {
	return sort.Search(len(records), func(i int) bool { return records[i].Rejected != "" })
}

// insertAll adds records, whose keys differ.
func (j *Job) insertAll(t *transaction, records []Record) error {
	good := goodOf(records)
	if err := j.reject(t, records[good:]); err != nil {
		return err
	}
	if j.engine.isSQLite() {
		add, err := t.tx.PrepareContext(t.ctx, j.insert)
		for i := 0; i < good && err == nil; i++ {
			_, err = add.ExecContext(t.ctx, j.row(records[i])...)
		}
		return err // the statement ends with its transaction
	}
	for list := range slices.Chunk(records[:good], insertedAtOnce) {
		rows, err := json.Marshal(lists.Map(list, j.row))
		if err != nil {
			return err
		}
		if _, err := t.exec(j.insert, string(rows)); err != nil {
			return err
		}
	}
	return nil
}

// insertedAtOnce bounds the records that one statement adds to PostgreSQL.
const insertedAtOnce = 1000

// row holds the values of a record in the order of the table's columns. Those of PostgreSQL are texts.
func (j *Job) row(r Record) []any {
	row := []any{encode(r.ID), encode(r.Unit), timeText(r.Fetched), string(bytes.ToValidUTF8(r.Body, []byte("\uFFFD")))}
	for _, v := range r.Columns {
		if s, isText := v.(string); isText {
			v = encode(s)
		} else if v != nil && !j.engine.isSQLite() {
			v = TextOf(v)
		}
		row = append(row, v)
	}
	return row
}

const createRejects = "CREATE TABLE IF NOT EXISTS {rejects} (id TEXT PRIMARY KEY, unit TEXT NOT NULL, fetched_at {time} NOT NULL, reason TEXT NOT NULL, body TEXT NOT NULL)"

// reject adds records to the table of those that were rejected.
func (j *Job) reject(t *transaction, rejects []Record) error {
	for _, r := range rejects {
		_, err := t.exec(j.text("INSERT INTO {rejects} (id, unit, fetched_at, reason, body) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"),
			r.ID, encode(r.Unit), timeText(r.Fetched), encode(r.Rejected), encode(string(r.Body)))
		if err != nil {
			return err
		}
	}
	return nil
}

// Append adds records and remembers targets, in one transaction.
func (j *Job) Append(ctx context.Context, records []Record, targets []Target) error {
	records = latest(records, j.is.collects())
	targets = slices.SortedStableFunc(slices.Values(targets), func(a, b Target) int { return cmp.Compare(a.Key, b.Key) })
	text := j.text(`INSERT INTO {targets} (key, etag, last_modified, hash, failures, asked, reason) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (key) DO UPDATE SET etag = excluded.etag, last_modified = excluded.last_modified, hash = excluded.hash,
		failures = excluded.failures, asked = excluded.asked, reason = excluded.reason`)
	return j.engine.write(ctx, func(t *transaction) error {
		if err := j.insertAll(t, records); err != nil {
			return err
		}
		for _, one := range targets {
			_, err := t.exec(text, encode(one.Key), encode(one.ETag), encode(one.LastModified), encode(one.Hash), one.Failures, timeText(one.Asked), encode(one.Reason))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Targets are all that the job remembers.
func (j *Job) Targets(ctx context.Context) (map[string]Target, error) {
	all := map[string]Target{}
	err := j.engine.read(ctx, func(r *sql.Rows) error {
		var target Target
		var at any
		err := r.Scan(&target.Key, &target.ETag, &target.LastModified, &target.Hash, &target.Failures, &at)
		target.Key, target.ETag, target.LastModified, target.Hash, target.Asked = decode(target.Key), decode(target.ETag), decode(target.LastModified), decode(target.Hash), instant(at)
		all[target.Key] = target
		return err
	}, j.text("SELECT key, etag, last_modified, hash, failures, asked FROM {targets}"))
	return all, err
}

// Prune deletes records that were fetched before a time, at most n. With replaced it deletes
// only those whose next record with the same ID was fetched before that time too, so that
// what was valid at any time since is kept.
func (j *Job) Prune(ctx context.Context, before time.Time, replaced bool, n int) (deleted int64, err error) {
	condition := ""
	if replaced {
		condition = " AND EXISTS (SELECT 1 FROM {records} next WHERE next.id = old.id AND next.fetched_at > old.fetched_at AND next.fetched_at < $1)"
	}
	err = j.engine.write(ctx, func(t *transaction) (err error) {
		deleted, err = t.exec(j.text("DELETE FROM {records} WHERE (id, fetched_at) IN (SELECT id, fetched_at FROM {records} old WHERE fetched_at < $1"+
			condition+" ORDER BY fetched_at LIMIT $2)"), timeText(before), n)
		return err
	})
	return deleted, err
}

// Read yields all records that were fetched since a time, in the order of fetching and in a snapshot of
// its begin. Memory does not grow with their number.
func (j *Job) Read(ctx context.Context, since time.Time) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		err := j.engine.read(ctx, func(rows *sql.Rows) error {
			r, err := j.scan(rows)
			if err == nil && !yield(r, nil) {
				err = errEnough
			}
			return err
		}, j.selectRecords()+j.text(" FROM {records} WHERE fetched_at >= $1 ORDER BY fetched_at, id"), timeText(since))
		if err != nil && !errors.Is(err, errEnough) {
			yield(Record{}, err)
		}
	}
}

// errEnough ends a query whose caller needs no more rows.
var errEnough = errors.New("no more rows are needed")

// selectRecords begins a query for what scan reads.
func (j *Job) selectRecords() string {
	return "SELECT " + strings.Join(lists.Map(j.is.Names(), Quote), ", ")
}

func (j *Job) scan(rows *sql.Rows) (Record, error) {
	r := Record{Columns: make([]any, len(j.is.Columns))}
	var at any
	into := []any{&r.ID, &r.Unit, &at, &r.Body}
	for i := range r.Columns {
		into = append(into, &r.Columns[i])
	}
	err := rows.Scan(into...)
	r.ID, r.Unit, r.Fetched = decode(r.ID), decode(r.Unit), instant(at)
	for i, v := range r.Columns {
		switch v := v.(type) {
		case string:
			r.Columns[i] = decode(v)
		case time.Time:
			r.Columns[i] = timeText(v)
		case int64: // SQLite has no truth values
			if j.is.Columns[i].Type == "boolean" {
				r.Columns[i] = v != 0
			}
		}
	}
	return r, err
}

// fill takes the columns of all records out of their bodies.
func (j *Job) fill(t *transaction) error {
	next := j.selectRecords() + j.text(" FROM {records} WHERE (fetched_at, id) > ($1, $2) ORDER BY fetched_at, id LIMIT 100")
	for last := (Record{}); ; {
		var list []Record
		err := t.query(func(rows *sql.Rows) error {
			r, err := j.scan(rows)
			list = append(list, r)
			return err
		}, next, timeText(last.Fetched), encode(last.ID))
		if err != nil || len(list) == 0 {
			return err
		}
		for _, r := range list {
			for i, v := range j.is.Of(r.Body) {
				if v != nil {
					r.Columns[i] = v
				}
			}
		}
		if err := j.insertAll(t, list); err != nil {
			return err
		}
		last = list[len(list)-1]
	}
}
