package store

import (
	"fmt"
	"time"
)

// addToExisting adds the new values to an existing row. The bound keeps sums integers.
var addToExisting = fmt.Sprintf(` ON CONFLICT DO UPDATE SET received = min(received + excluded.received, %d),
	sent = min(sent + excluded.sent, %[1]d), requests = min(requests + excluded.requests, %[1]d)`, maxSum)

// rollUp runs a part of the due roll-ups. It returns whether there may be more.
func rollUp(d *database, now time.Time, keep Retention) (bool, error) {
	for _, r := range keep.rollUps(now) {
		full := true
		start, site := r.before, ""
		if err := d.row("SELECT start, site FROM traffic WHERE step = ? AND start < ? ORDER BY start, site LIMIT 1 OFFSET ?",
			[]any{r.from, r.before, maxRowsPerStep - 1}, &start, &site); noRows(err) {
			full = false
		} else if err != nil {
			return false, err
		}
		const those = " FROM traffic WHERE step = ? AND start < ? AND (start, site) <= (?, ?)"
		if r.into > 0 {
			err := d.run(rollUpQuery, r.into, r.from, r.before, start, site, keep.Sites, Others)
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

// rollUpQuery adds rows to those of a larger step. If a step has the maximum number of
// sites, further sites are added to Others.
var rollUpQuery = `WITH
	part AS (SELECT start - start % ?1 AS bucket, site, received, sent, requests
		FROM traffic WHERE step = ?2 AND start < ?3 AND (start, site) <= (?4, ?5)),
	crowded AS (SELECT start FROM traffic WHERE step = ?1 AND start IN (SELECT bucket FROM part)
		GROUP BY start HAVING count(*) >= ?6)
	INSERT INTO traffic SELECT ?1, bucket, CASE
		WHEN bucket IN crowded AND NOT EXISTS (SELECT 1 FROM traffic WHERE step = ?1 AND start = bucket AND traffic.site = part.site) THEN ?7
		ELSE site END, received, sent, requests
	FROM part WHERE true` + addToExisting
