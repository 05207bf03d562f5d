package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// maxBandwidthRows bounds the rows of an answer.
const maxBandwidthRows = 1_000_000

// Record adds traffic.
func (f *File) Record(ctx context.Context, list []Traffic) error {
	if len(list) == 0 {
		return nil
	}
	own := slices.Clone(list)
	return f.write(ctx, func(d *database, now time.Time) error {
		for i := range own {
			t := &own[i]
			err := d.run("INSERT INTO traffic VALUES (?, ?, ?, ?, ?, ?)"+addToExisting,
				minutes, t.minute(now), t.Site, clamp(t.In), clamp(t.Out), clamp(t.Requests))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Bandwidth returns the traffic of a site, or of each site if site is "", that began in
// [since, until), summed by steps aligned to 1970; step 0 sums up all. If only longer steps
// are kept of that time, these are returned.
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
	args = append(args, ceil(since), ceil(until), maxBandwidthRows+1)
	query := "SELECT " + bucket + ` AS bucket, site,
		CAST(total(received) AS INTEGER), CAST(total(sent) AS INTEGER), CAST(total(requests) AS INTEGER)
		FROM traffic WHERE ` + which + `step IN (60, 3600, 86400) AND start >= ? AND start < ?
		GROUP BY bucket, site ORDER BY bucket, site LIMIT ?`
	var list []Traffic
	err := f.reading(ctx, func(ctx context.Context, d *database) error {
		rows, err := d.readers.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t Traffic
			var start int64
			if err := rows.Scan(&start, &t.Site, &t.In, &t.Out, &t.Requests); err != nil {
				return asDamage(err)
			}
			t.Minute = time.Unix(start, 0).UTC()
			list = append(list, t)
		}
		return rows.Err()
	})
	if err == nil && len(list) > maxBandwidthRows {
		return nil, fmt.Errorf("bandwidth: more than %d rows: ask for a larger step, a shorter time or one site", maxBandwidthRows)
	}
	return list, err
}

func ceil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
