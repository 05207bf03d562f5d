package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// historyTable is a table of sums by time: the columns step and start, then keys, then sums.
type historyTable struct {
	name       string
	keys, sums []string
}

// The tables of a History. The first key is the site.
var (
	trafficTable = historyTable{"traffic", []string{"site"}, []string{"received", "sent", "requests"}}
	usageTable   = historyTable{"usage", []string{"site", "client", "priority", "token"}, []string{"requests", "refusals", "waited", "received", "sent"}}
	blockedTable = historyTable{"blocked", []string{"site", "name"}, []string{"held", "busy"}}

	historyTables = []historyTable{trafficTable, usageTable, blockedTable}
)

// columns are all columns of the table.
func (t historyTable) columns() string {
	return strings.Join(append(append([]string{"step", "start"}, t.keys...), t.sums...), ", ")
}

// insert adds a row for a minute, or adds its sums to an existing row.
func (t historyTable) insert() string {
	return fmt.Sprintf("INSERT INTO %s VALUES (?%s)", t.name, strings.Repeat(", ?", 1+len(t.keys)+len(t.sums))) + t.addToExisting()
}

// addToExisting adds the new values to an existing row. The bound keeps sums integers.
func (t historyTable) addToExisting() string {
	sums := make([]string, len(t.sums))
	for i, name := range t.sums {
		sums[i] = fmt.Sprintf("%[1]s = min(%[1]s + excluded.%[1]s, %[2]d)", name, maxSum)
	}
	return " ON CONFLICT DO UPDATE SET " + strings.Join(sums, ", ")
}

// Record adds what was counted, all or nothing.
func (f *File) Record(ctx context.Context, h History) error {
	if h.Empty() {
		return nil
	}
	history := History{slices.Clone(h.Traffic), slices.Clone(h.Usage), slices.Clone(h.Blocked)}
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

// period is a time in steps, as a query wants it.
type period struct {
	since, until time.Time
	step         time.Duration // 0: one step
}

// query sums up a table of a site, or of each site if site is "", in [since, until), by
// steps aligned to 1970 and by the named keys.
func (t historyTable) query(site string, p period, by []string) (string, []any) {
	bucket, args := "?", []any{p.since.Unix()}
	if p.step > 0 {
		bucket, args = "start - start % ?", []any{max(int64(p.step/time.Second), minutes)}
	}
	which := ""
	if site != "" {
		which = "site = ? AND "
		args = append(args, site)
	}
	columns := append([]string{bucket + " AS bucket"}, by...)
	for _, name := range t.sums {
		columns = append(columns, "CAST(total("+name+") AS INTEGER)")
	}
	group := strings.Join(append([]string{"bucket"}, by...), ", ")
	args = append(args, ceil(p.since), ceil(p.until), maxHistoryRows+1)
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + t.name + " WHERE " + which +
		"step IN (60, 3600, 86400) AND start >= ? AND start < ? GROUP BY " + group + " ORDER BY " + group + " LIMIT ?", args
}

// maxHistoryRows bounds the rows of an answer.
const maxHistoryRows = 1_000_000

// sum runs a query of a table, and calls each with the scanner of each row.
func (f *File) sum(ctx context.Context, query string, args []any, each func(scan func(...any) error) error) error {
	return f.reading(ctx, func(ctx context.Context, d *database) error {
		rows, err := d.readers.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			if n++; n > maxHistoryRows {
				return fmt.Errorf("more than %d rows: ask for a larger step, a shorter time or one site", maxHistoryRows)
			}
			if err := each(rows.Scan); err != nil {
				return asDamage(err)
			}
		}
		return rows.Err()
	})
}

// Bandwidth returns the traffic of a site, or of each site if site is "", that began in
// [since, until), summed by steps aligned to 1970; step 0 sums up all. If only longer steps
// are kept of that time, these are returned.
func (f *File) Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) (list []Traffic, err error) {
	query, args := trafficTable.query(site, period{since, until, step}, trafficTable.keys)
	err = f.sum(ctx, query, args, func(scan func(...any) error) error {
		var t Traffic
		var start int64
		err := scan(&start, &t.Site, &t.In, &t.Out, &t.Requests)
		t.Minute = time.Unix(start, 0).UTC()
		list = append(list, t)
		return err
	})
	return list, err
}

// Usage returns the usage of a site, or of each site if site is "", as Bandwidth does.
func (f *File) Usage(ctx context.Context, site string, since, until time.Time, step time.Duration) (list []Usage, err error) {
	query, args := usageTable.query(site, period{since, until, step}, usageTable.keys)
	err = f.sum(ctx, query, args, func(scan func(...any) error) error {
		var u Usage
		var start, waited int64
		err := scan(&start, &u.Site, &u.Client, &u.Priority, &u.Token, &u.Requests, &u.Refusals, &waited, &u.In, &u.Out)
		u.Minute, u.Waited = time.Unix(start, 0).UTC(), time.Duration(waited)*time.Millisecond
		list = append(list, u)
		return err
	})
	return list, err
}

// Blocked returns how long limits of a site, or of each site if site is "", held requests,
// as Bandwidth does.
func (f *File) Blocked(ctx context.Context, site string, since, until time.Time, step time.Duration) (list []Blocked, err error) {
	query, args := blockedTable.query(site, period{since, until, step}, blockedTable.keys)
	err = f.sum(ctx, query, args, func(scan func(...any) error) error {
		var b Blocked
		var start, held, busy int64
		err := scan(&start, &b.Site, &b.Limit, &held, &busy)
		b.Minute, b.Held, b.Busy = time.Unix(start, 0).UTC(), time.Duration(held)*time.Millisecond, time.Duration(busy)*time.Millisecond
		list = append(list, b)
		return err
	})
	return list, err
}

func ceil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
