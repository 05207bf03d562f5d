package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/sqlite"
)

// Record adds what was counted, all or nothing.
func (f *File) Record(ctx context.Context, h History) error {
	if h.Empty() {
		return nil
	}
	history := History{slices.Clone(h.Traffic), slices.Clone(h.Usage), slices.Clone(h.Blocked), slices.Clone(h.Failed)}
	return f.write(ctx, func(d *database, now time.Time) error {
		for _, t := range history.Traffic {
			if err := d.run(trafficTable.insert(), minutes, minuteOf(t.Minute, now), t.Site, clamp(t.In), clamp(t.Out), clamp(t.Requests)); err != nil {
				return err
			}
		}
		for _, u := range history.Usage {
			if err := d.run(usageTable.insert(), minutes, minuteOf(u.Minute, now), u.Site, u.Client, u.Priority, u.Token,
				clamp(u.Requests), clamp(u.Refusals), clamp(u.Waited.Milliseconds()), clamp(u.In), clamp(u.Out)); err != nil {
				return err
			}
		}
		for _, b := range history.Blocked {
			if err := d.run(blockedTable.insert(), minutes, minuteOf(b.Minute, now), b.Site, b.Limit, clamp(b.Held.Milliseconds()), clamp(b.Busy.Milliseconds())); err != nil {
				return err
			}
		}
		for _, one := range history.Failed {
			if err := d.run(failedTable.insert(), minutes, minuteOf(one.Minute, now), one.Site, one.What, clamp(one.Requests)); err != nil {
				return err
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
	columns := append([]string{bucket + " AS bucket"}, t.keys...)
	for _, name := range t.sums {
		columns = append(columns, "CAST(total("+name+") AS INTEGER)")
	}
	group := strings.Join(append([]string{"bucket"}, t.keys...), ", ")
	args = append(args, ceil(since), ceil(until), maxHistoryRows+1)
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + t.name + " WHERE " + which +
		"step IN (60, 3600, 86400) AND start >= ? AND start < ? GROUP BY " + group + " ORDER BY " + group + " LIMIT ?", args
}

// maxHistoryRows bounds the rows of an answer.
const maxHistoryRows = 1_000_000

// unixSeconds and milliseconds read columns into times and durations.
type (
	unixSeconds  time.Time
	milliseconds time.Duration
)

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

// sumUp queries a table. fields returns where the columns of a row go.
func sumUp[R any](ctx context.Context, f *File, t historyTable, site string, since, until time.Time, step time.Duration, fields func(*R) []any) (list []R, err error) {
	query, args := t.query(site, since, until, step)
	err = f.reading(ctx, func(ctx context.Context, d *database) error {
		list = nil // it may be the second try
		return sqlite.Each(func(rows *sql.Rows) error {
			if len(list) >= maxHistoryRows {
				return fmt.Errorf("more than %d rows: ask for a larger step, a shorter time or one site", maxHistoryRows)
			}
			var row R
			if err := rows.Scan(fields(&row)...); err != nil {
				return asDamage(err)
			}
			list = append(list, row)
			return nil
		})(d.readers.QueryContext(ctx, query, args...))
	})
	return list, err
}

// Bandwidth returns the traffic of a site, or of each site if site is "", that began in
// [since, until), summed by steps aligned to 1970; step 0 sums up all. If only longer steps
// are kept of that time, these are returned.
func (f *File) Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]Traffic, error) {
	return sumUp(ctx, f, trafficTable, site, since, until, step, func(t *Traffic) []any {
		return []any{(*unixSeconds)(&t.Minute), &t.Site, &t.In, &t.Out, &t.Requests}
	})
}

// Usage returns the usage of a site, or of each site if site is "", as Bandwidth does.
func (f *File) Usage(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]Usage, error) {
	return sumUp(ctx, f, usageTable, site, since, until, step, func(u *Usage) []any {
		return []any{(*unixSeconds)(&u.Minute), &u.Site, &u.Client, &u.Priority, &u.Token, &u.Requests, &u.Refusals, (*milliseconds)(&u.Waited), &u.In, &u.Out}
	})
}

// Blocked returns how long limits of a site, or of each site if site is "", held requests,
// as Bandwidth does.
func (f *File) Blocked(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]Blocked, error) {
	return sumUp(ctx, f, blockedTable, site, since, until, step, func(b *Blocked) []any {
		return []any{(*unixSeconds)(&b.Minute), &b.Site, &b.Limit, (*milliseconds)(&b.Held), (*milliseconds)(&b.Busy)}
	})
}

// Failed returns the failures of a site, or of each site if site is "", as Bandwidth does.
func (f *File) Failed(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]Failure, error) {
	return sumUp(ctx, f, failedTable, site, since, until, step, func(failure *Failure) []any {
		return []any{(*unixSeconds)(&failure.Minute), &failure.Site, &failure.What, &failure.Requests}
	})
}

func ceil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
