package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
)

// historyTable is a table of sums by time: the columns step and start, then keys, then sums.
type historyTable struct {
	name       string
	keys, sums []string
}

// historyTables are the tables of a History. The first key is the site.
var historyTables = [Kinds]historyTable{
	TrafficRows: {"traffic", []string{"site"}, []string{"received", "sent", "requests"}},
	UsageRows:   {"usage", []string{"site", "client", "priority", "token"}, []string{"requests", "refusals", "waited", "received", "sent"}},
	BlockedRows: {"blocked", []string{"site", "name"}, []string{"held", "busy"}},
	FailedRows:  {"failed", []string{"site", "name"}, []string{"requests"}},
}

// fields returns where the keys and sums of a row are.
func (t historyTable) fields(r *Row) []any {
	at := map[string]any{
		"site": &r.Site, "client": &r.Client, "priority": &r.Priority, "token": &r.Token, "name": &r.Limit,
		"received": (*count)(&r.In), "sent": (*count)(&r.Out), "requests": (*count)(&r.Requests), "refusals": (*count)(&r.Refusals),
		"waited": (*milliseconds)(&r.Waited), "held": (*milliseconds)(&r.Held), "busy": (*milliseconds)(&r.Busy),
	}
	if t.name == "failed" {
		at["name"] = &r.What
	}
	return lists.Map(slices.Concat(t.keys, t.sums), func(name string) any { return at[name] })
}

// columns are all columns of the table.
func (t historyTable) columns() string {
	return strings.Join(append(append([]string{"step", "start"}, t.keys...), t.sums...), ", ")
}

// addToExisting adds the new values to an existing row. The bound keeps sums integers.
func (t historyTable) addToExisting() string {
	sums := lists.Map(t.sums, func(name string) string {
		return fmt.Sprintf("%[1]s = min(%[1]s + excluded.%[1]s, %[2]d)", name, maxSum)
	})
	return " ON CONFLICT DO UPDATE SET " + strings.Join(sums, ", ")
}

// rollUp runs a part of the due roll-ups. It returns whether there may be more.
func rollUp(d *database, now time.Time, keep Retention) (bool, error) {
	for _, t := range historyTables {
		for _, r := range keep.rollUps(now) {
			if full, err := t.rollUp(d, r, keep.Sites); err != nil || full {
				return full, err
			}
		}
	}
	return false, nil
}

// rollUp moves at most maxRowsPerStep rows to a larger step. It returns whether there may be
// more.
func (t historyTable) rollUp(d *database, r rollUpStep, most int) (full bool, err error) {
	last, to := make([]any, 1+len(t.keys)), make([]any, 1+len(t.keys))
	for i := range last {
		to[i] = &last[i]
	}
	at := "start, " + strings.Join(t.keys, ", ")
	err = d.row("SELECT "+at+" FROM "+t.name+" WHERE step = ? AND start < ? ORDER BY "+at+" LIMIT 1 OFFSET ?", []any{r.from, r.before, maxRowsPerStep - 1}, to...)
	if err != nil && !noRows(err) {
		return false, err
	}
	full = err == nil
	args := []any{r.from, r.before}
	those := "step = ?1 AND start < ?2"
	if full {
		those += " AND " + t.upToLast()
		args = append(args, last...)
	}
	if r.into > 0 {
		if err := d.run(t.moveQuery(those, len(args)), append(args, r.into, most, Others)...); err != nil {
			return false, err
		}
	}
	return full, d.run("DELETE FROM "+t.name+" WHERE "+those, args...)
}

// upToLast is the condition of the rows up to the last one of a step, whose values are the arguments from
// the third on.
func (t historyTable) upToLast() string {
	at, values := "start", "?3"
	for i, key := range t.keys {
		at += ", " + key
		values += fmt.Sprintf(", ?%d", 4+i)
	}
	return "(" + at + ") <= (" + values + ")"
}

// moveQuery adds rows to those of a larger step. If a step has the maximum number of rows,
// the texts of further keys become Others. After n arguments of those, the arguments are the
// larger step, that maximum, and Others.
func (t historyTable) moveQuery(those string, n int) string {
	into, most, others := fmt.Sprintf("?%d", n+1), fmt.Sprintf("?%d", n+2), fmt.Sprintf("?%d", n+3)
	same, keys := make([]string, len(t.keys)), make([]string, len(t.keys))
	for i, key := range t.keys {
		same[i] = fmt.Sprintf("kept.%s = part.%[1]s", key)
		keys[i] = fmt.Sprintf("CASE WHEN bucket IN crowded AND typeof(part.%s) = 'text' AND NOT EXISTS (SELECT 1 FROM %s AS kept WHERE step = %s AND start = bucket AND %s) THEN %s ELSE part.%[1]s END",
			key, t.name, into, "%s", others)
	}
	for i := range keys {
		keys[i] = fmt.Sprintf(keys[i], strings.Join(same, " AND "))
	}
	return fmt.Sprintf(`WITH
	part AS (SELECT start - start %% %[1]s AS bucket, * FROM %[2]s WHERE %[3]s),
	crowded AS (SELECT start FROM %[2]s WHERE step = %[1]s AND start IN (SELECT bucket FROM part) GROUP BY start HAVING count(*) >= %[4]s)
	INSERT INTO %[2]s SELECT %[1]s, bucket, %[5]s, %[6]s FROM part WHERE true`,
		into, t.name, those, most, strings.Join(keys, ", "), strings.Join(t.sums, ", ")) + t.addToExisting()
}
