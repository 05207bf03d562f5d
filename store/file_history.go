package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/sqlite"
)

// Record adds what was counted, all or nothing.
func (f *File) Record(ctx context.Context, h History) error {
	if h.Empty() {
		return nil
	}
	var history History
	history.Add(h)
	return f.write(ctx, func(d *database, now time.Time) error {
		for k, t := range historyTables {
			add := fmt.Sprintf("INSERT INTO %s VALUES (?%s)%s", t.name, strings.Repeat(", ?", 1+len(t.keys)+len(t.sums)), t.addToExisting())
			for _, r := range history[k] {
				if err := d.run(add, append([]any{minutes, minuteOf(r.Minute, now)}, t.fields(&r)...)...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// minuteOf is the start of a minute, in Unix seconds. An impossible time of a wrong clock
// becomes now.
func minuteOf(at, now time.Time) int64 {
	s, latest := at.Unix(), now.Unix()
	if s <= 0 || s > latest {
		s = latest
	}
	return s - s%minutes
}

// query sums up a table of a site, or of each site if site is "", in [since, until), by
// steps aligned to 1970 and by its keys. Step 0 is one step.
func (t historyTable) query(site string, since, until time.Time, step time.Duration) (string, []any) {
	bucket, args := "?", []any{since.Unix()}
	if step > 0 {
		bucket, args = "start - start % ?", []any{max(int64(step/time.Second), minutes)}
	}
	which := ""
	if site != "" {
		which = "site = ? AND "
		args = append(args, site)
	}
	sums := lists.Map(t.sums, func(name string) string { return "CAST(total(" + name + ") AS INTEGER)" })
	columns := slices.Concat([]string{bucket + " AS bucket"}, t.keys, sums)
	group := strings.Join(append([]string{"bucket"}, t.keys...), ", ")
	args = append(args, ceil(since), ceil(until), maxHistoryRows+1)
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + t.name + " WHERE " + which +
		"step IN (60, 3600, 86400) AND start >= ? AND start < ? GROUP BY " + group + " ORDER BY " + group + " LIMIT ?", args
}

// maxHistoryRows bounds the rows of an answer.
const maxHistoryRows = 1_000_000

// unixSeconds, milliseconds and count are times, durations and numbers as columns have them.
type (
	unixSeconds  time.Time
	milliseconds time.Duration
	count        int64
)

// Value implements driver.Valuer.
func (n count) Value() (driver.Value, error) { return clamp(int64(n)), nil }

// Value implements driver.Valuer.
func (d milliseconds) Value() (driver.Value, error) {
	return clamp(time.Duration(d).Milliseconds()), nil
}

// Scan implements sql.Scanner.
func (t *unixSeconds) Scan(value any) error {
	n, _ := value.(int64)
	*t = unixSeconds(time.Unix(n, 0).UTC())
	return nil
}

// Scan implements sql.Scanner.
func (d *milliseconds) Scan(value any) error {
	n, _ := value.(int64)
	*d = milliseconds(time.Duration(n) * time.Millisecond)
	return nil
}

// Rows returns the rows of a kind of a site, or of each site if site is "", that began in
// [since, until), summed by steps aligned to 1970; step 0 sums up all. If only longer steps
// are kept of that time, these are returned.
func (f *File) Rows(ctx context.Context, k RowKind, site string, since, until time.Time, step time.Duration) (list []Row, err error) {
	t := historyTables[k]
	query, args := t.query(site, since, until, step)
	err = f.reading(ctx, func(ctx context.Context, d *database) error {
		list = nil // it may be the second try
		return sqlite.Each(func(rows *sql.Rows) error {
			if len(list) >= maxHistoryRows {
				return fmt.Errorf("more than %d rows: ask for a larger step, a shorter time or one site", maxHistoryRows)
			}
			var row Row
			if err := rows.Scan(append([]any{(*unixSeconds)(&row.Minute)}, t.fields(&row)...)...); err != nil {
				return asDamage(err)
			}
			list = append(list, row)
			return nil
		})(d.readers.QueryContext(ctx, query, args...))
	})
	return list, err
}

// ceil returns a time in seconds, rounded up.
func ceil(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }
