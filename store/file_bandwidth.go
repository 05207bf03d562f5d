package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// rowsOfBandwidth is how many rows an answer has at most.
const rowsOfBandwidth = 1_000_000

// Record adds traffic to what is kept.
func (f *File) Record(ctx context.Context, list []Traffic) error {
	if len(list) == 0 {
		return nil
	}
	own := slices.Clone(list)
	return f.write(ctx, func(d *disk, now time.Time) error {
		for i := range own {
			t := &own[i]
			err := d.run("INSERT INTO traffic VALUES (?, ?, ?, ?, ?, ?)"+addUp,
				minutes, t.at(now), t.Site, clamp(t.In), clamp(t.Out), clamp(t.Requests))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// addUp adds what is there already. The bound keeps sums whole numbers.
var addUp = fmt.Sprintf(` ON CONFLICT DO UPDATE SET received = min(received + excluded.received, %d),
	sent = min(sent + excluded.sent, %[1]d), requests = min(requests + excluded.requests, %[1]d)`, brims)

// Bandwidth is the traffic of a site, or of each if that is "", that began in [since,
// until), summed by steps that are aligned to 1970; without a step, all in one. A
// step shorter than what is still kept of that time gives what there is.
func (f *File) Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]Traffic, error) {
	bucket, args := "?", []any{since.Unix()}
	if step > 0 {
		bucket, args = "start - start % ?", []any{max(int64(step/time.Second), minutes)}
	}
	which := ""
	if site != "" {
		which = "site = ? AND "
		args = append(args, site)
	}
	args = append(args, ceil(since), ceil(until), rowsOfBandwidth+1)
	query := "SELECT " + bucket + ` AS bucket, site,
		CAST(total(received) AS INTEGER), CAST(total(sent) AS INTEGER), CAST(total(requests) AS INTEGER)
		FROM traffic WHERE ` + which + `step IN (60, 3600, 86400) AND start >= ? AND start < ?
		GROUP BY bucket, site ORDER BY bucket, site LIMIT ?`
	var list []Traffic
	err := f.reading(ctx, func(ctx context.Context, d *disk) error {
		rows, err := d.readers.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t Traffic
			var start int64
			if err := rows.Scan(&start, &t.Site, &t.In, &t.Out, &t.Requests); err != nil {
				return unreadable(err)
			}
			t.Minute = time.Unix(start, 0).UTC()
			list = append(list, t)
		}
		return rows.Err()
	})
	if err == nil && len(list) > rowsOfBandwidth {
		return nil, fmt.Errorf("bandwidth: more than %d rows: ask for a larger step, a shorter time or one site", rowsOfBandwidth)
	}
	return list, err
}

func ceil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// rollUp does a part of what is to be rolled up now. It answers whether there may be
// more.
func rollUp(d *disk, now time.Time, keep Retention) (bool, error) {
	for _, r := range keep.rolls(now) {
		full := true
		start, site := r.before, ""
		if err := d.row("SELECT start, site FROM traffic WHERE step = ? AND start < ? ORDER BY start, site LIMIT 1 OFFSET ?",
			[]any{r.from, r.before, atOnce - 1}, &start, &site); none(err) {
			full = false
		} else if err != nil {
			return false, err
		}
		const those = " FROM traffic WHERE step = ? AND start < ? AND (start, site) <= (?, ?)"
		if r.into > 0 {
			err := d.run(intoLarger, r.into, r.from, r.before, start, site, keep.Sites, Others)
			if err != nil {
				return false, err
			}
		}
		if err := d.run("DELETE"+those, r.from, r.before, start, site); err != nil || full {
			return full, err
		}
	}
	return false, nil
}

// intoLarger adds rows to those of a larger step. Where there are as many sites as there
// may be, the ones that are not among them are others.
var intoLarger = `WITH
	part AS (SELECT start - start % ?1 AS bucket, site, received, sent, requests
		FROM traffic WHERE step = ?2 AND start < ?3 AND (start, site) <= (?4, ?5)),
	crowded AS (SELECT start FROM traffic WHERE step = ?1 AND start IN (SELECT bucket FROM part)
		GROUP BY start HAVING count(*) >= ?6)
	INSERT INTO traffic SELECT ?1, bucket, CASE
		WHEN bucket IN crowded AND NOT EXISTS (SELECT 1 FROM traffic WHERE step = ?1 AND start = bucket AND traffic.site = part.site) THEN ?7
		ELSE site END, received, sent, requests
	FROM part WHERE true` + addUp
