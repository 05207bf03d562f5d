package output

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// unitsAtOnce is the number of units that a transaction adds.
const unitsAtOnce = 5000

// AddUnits adds units that the job does not have yet, and puts those aside that are not over and that it no longer has,
// until it has them again. An error among them ends them, and is returned. Then Retry has n units wait again.
func (j *Job) AddUnits(ctx context.Context, units iter.Seq2[Unit, error], anew bool) (n int64, err error) {
	var again []string
	open, seed := map[uint64]bool{}, maphash.MakeSeed() // hashes of what a unit is about, as there may be millions, and whether the job has it
	about := func(key string) uint64 { return maphash.String(seed, j.is.About(key)) }
	if err = j.freePredecessor(ctx); err == nil {
		err = j.eachOpen(ctx, func(key string, _ int64) { open[about(key)] = false })
	}
	if err != nil {
		return 0, err
	}
	list := make([]Unit, 0, unitsAtOnce)
	add := func() error { return j.engine.write(ctx, func(t *transaction) error { return j.addUnits(t, list) }) }
	for u, err := range units {
		if err != nil {
			return 0, err
		}
		if u.Again {
			again = append(again, u.Key)
		}
		if _, isOpen := open[about(u.Key)]; isOpen {
			open[about(u.Key)] = true
		}
		if list = append(list, u); len(list) == unitsAtOnce {
			if err, list = add(), list[:0]; err != nil {
				return 0, err
			}
		}
	}
	if err := add(); err != nil {
		return 0, err
	}
	var turned [][]any
	err = j.eachOpen(ctx, func(key string, place int64) {
		if has, was := open[about(key)]; was && has != (place >= 0) {
			turned = append(turned, []any{encode(key), place})
		}
	})
	for part := range slices.Chunk(turned, unitsAtOnce) {
		if err == nil {
			err = j.engine.write(ctx, func(t *transaction) error {
				rows, err := json.Marshal(part)
				if err == nil {
					_, err = t.exec(j.text(`UPDATE {units} SET place = -1 - place FROM (SELECT value->>0 AS given_key, CAST(value->>1 AS BIGINT) AS given FROM {rows}) AS turned
						WHERE key = given_key AND place = given`), string(rows))
				}
				return err
			})
		}
	}
	if err != nil {
		return 0, err
	}
	return j.Retry(ctx, again, anew)
}

// eachOpen visits the units that are not over, and that nobody works on, or that were put aside: their place is negative.
func (j *Job) eachOpen(ctx context.Context, visit func(key string, place int64)) error {
	return j.engine.read(ctx, func(r *sql.Rows) error {
		var key string
		var place int64
		err := r.Scan(&key, &place)
		visit(decode(key), place)
		return err
	}, j.text(`SELECT key, place FROM {units} WHERE state IN ('waiting', 'failed', 'incomplete', 'open')
		OR state = 'running' AND lease_end <= {now} OR state IN ('running', 'done') AND place < 0`), j.engine.now())
}

func (j *Job) addUnits(t *transaction, list []Unit) error {
	if len(list) == 0 {
		return nil
	}
	anyValues := slices.ContainsFunc(list, func(u Unit) bool { return len(u.Values) > 0 })
	rows, err := json.Marshal(lists.Map(list, func(u Unit) []any {
		text, _ := json.Marshal(u.Values) // texts have no error
		return []any{encode(u.Key), u.Place, encode(string(text))}
	}))
	if err == nil {
		// One that is there is left out first: of a conflict PostgreSQL waits for the transaction that changes it, such as of a frozen process.
		_, err = t.exec(j.text(`INSERT INTO {units} (key, place) SELECT given_key, place FROM (SELECT value->>0 AS given_key, CAST(value->>1 AS BIGINT) AS place FROM {rows}) AS given
			WHERE NOT EXISTS (SELECT 1 FROM {units} WHERE key = given_key) ON CONFLICT DO NOTHING`), string(rows))
	}
	if err == nil && anyValues { // those of units that are there may have changed
		_, err = t.exec(j.text(`UPDATE {units} SET item = given FROM (SELECT value->>0 AS given_key, value->>2 AS given FROM {rows}) AS items
			WHERE key = given_key AND item <> given`), string(rows))
	}
	return err
}

// Claim hands out the next unit, in their order, or nil. A unit whose lease has ended is
// handed out again.
func (j *Job) Claim(ctx context.Context) (c *Claim, err error) {
	err = j.engine.write(ctx, func(t *transaction) error {
		c = nil
		return t.query(func(r *sql.Rows) error {
			c = &Claim{}
			var values string
			err := r.Scan(&c.Key, &c.Place, &values, &c.Lease, &c.Checkpoint, &c.Pages, &c.Records, &c.Tries, &c.Begun)
			c.Key, c.kept = decode(c.Key), c.Pages
			return errors.Join(err, json.Unmarshal([]byte(decode(values)), &c.Values))
		}, j.text(`
			WITH late AS (SELECT key, place FROM {units} WHERE state = 'running' AND place >= 0 AND lease_end <= {now} ORDER BY place LIMIT 1 {skip}),
			free AS (SELECT key, place FROM {units} WHERE state = 'waiting' AND place >= 0 AND not_before <= {now} ORDER BY place LIMIT 1 {skip}),
			picked AS (SELECT key AS picked_key FROM (SELECT * FROM late UNION ALL SELECT * FROM free) AS candidates ORDER BY place LIMIT 1)
			UPDATE {units} SET state = 'running', lease = lease + 1, holder = $2, lease_end = {now} + $3, changed = {now}
			FROM picked WHERE key = picked_key
			RETURNING key, place, item, lease, checkpoint, pages, records, tries, begun`),
			j.engine.now(), j.engine.id, j.engine.o.Lease.Milliseconds())
	})
	return c, err
}

// Renew prolongs the lease of a claim.
func (j *Job) Renew(ctx context.Context, c *Claim) error {
	return j.end(ctx, c, Running, j.text("UPDATE {units} SET lease_end = {now} + $2 WHERE key = $3 AND lease = $4"), j.engine.o.Lease.Milliseconds()) // that of a unit that is over does not matter
}

// Commit adds a page and moves the checkpoint, in one transaction. It changes the claim.
func (j *Job) Commit(ctx context.Context, c *Claim, p Page) error {
	state := cmp.Or(p.Ends, Running)
	records := latest(p.Records, j.is.collects())
	good, before := goodOf(records), "records + "
	if c.Pages == 0 && !p.Unchanged { // those of an earlier run do not count
		before, c.Records = "", 0
	}
	var replaced, begun int64
	err := j.engine.write(ctx, func(t *transaction) error {
		n, err := t.exec(j.text(`UPDATE {units} SET checkpoint = $2, pages = $9, records = `+before+`$3, tries = 0, reason = $10,
			state = $4, lease_end = {now} + $5, changed = {now}
			WHERE key = $6 AND lease = $7 AND pages = $8 AND state = 'running'`),
			j.engine.now(), p.Checkpoint, good, string(state), j.engine.o.Lease.Milliseconds(), encode(c.Key), c.Lease, c.kept, c.Pages+1, encode(p.Reason))
		if err != nil {
			return err
		}
		if n == 0 {
			return j.isRepeated(t, c, state, c.Pages+1)
		}
		if replaced, err = j.replaced(t, c, records[:good]); err == nil && !p.Unchanged {
			begun, err = j.clear(t, c, p.Ends == Done, records)
		}
		if err != nil {
			return err
		}
		return j.insertAll(t, records)
	})
	if err != nil {
		return err
	}
	c.Checkpoint, c.Pages, c.kept, c.Records, c.Tries, c.Begun = p.Checkpoint, c.Pages+1, c.Pages+1, c.Records+int64(good), 0, begun
	c.Rejected, c.Replaced = c.Rejected+int64(len(records)-good), c.Replaced+replaced+int64(len(p.Records)-len(records))
	return nil
}

// clear removes what a page of a unit that is fetched again takes the place of: the first one that of the records that were
// rejected, and, with Replace, the last one that of the records of earlier walks, which are older than those of this one
// whatever the clocks say.
func (j *Job) clear(t *transaction, c *Claim, last bool, records []Record) (begun int64, err error) {
	if begun = c.Begun; c.Pages == 0 && c.Lease > 1 {
		_, err = t.exec(j.text("DELETE FROM {rejects} WHERE unit = $1"), encode(c.Key))
	}
	if err != nil || !j.is.Replace {
		return begun, err
	}
	if c.Pages == 0 {
		var newest any
		err = t.query(func(r *sql.Rows) error { return r.Scan(&newest) }, j.text("SELECT max(fetched_at) FROM {records} WHERE unit = $1"), encode(c.Key))
		if begun = 0; newest != nil {
			begun = instant(newest).UnixMicro() + 1
		}
		if err == nil {
			_, err = t.exec(j.text("UPDATE {units} SET begun = $1 WHERE key = $2"), begun, encode(c.Key))
		}
	}
	for i := range records {
		records[i].Fetched = status.Later(records[i].Fetched, time.UnixMicro(begun))
	}
	if err == nil && last {
		n := int64(0)
		n, err = t.exec(j.text("DELETE FROM {records} WHERE unit = $1 AND fetched_at < $2"), encode(c.Key), timeText(time.UnixMicro(begun)))
		if n > 0 && c.Records+int64(goodOf(records)) == 0 && !j.is.Empties {
			err = fmt.Errorf("%w, and the %d that it had are kept: where that is right, write \"check: off\" in paginate for a run", ErrEmptied, n)
		}
	}
	return begun, err
}

// replaced counts the records that are there under the IDs of a list, and are of another unit, as the job names it, or,
// with Hashed, of an earlier page of this one. Where records move between units, those of earlier runs do not count.
func (j *Job) replaced(t *transaction, c *Claim, records []Record) (n int64, err error) {
	if j.is.collects() || len(records) == 0 {
		return 0, nil
	}
	var since time.Time
	if j.is.Moves {
		since = j.opened
	}
	ids, err := json.Marshal(lists.Map(records, func(r Record) [1]string { return [1]string{encode(r.ID)} }))
	if err != nil {
		return 0, err
	}
	err = t.query(func(r *sql.Rows) error {
		unit, count, lately := "", int64(0), int64(0)
		err := r.Scan(&unit, &count, &lately)
		if j.is.About(decode(unit)) != j.is.About(c.Key) {
			n += count
		} else if j.is.Hashed && c.Pages > 0 {
			n += lately
		}
		return err
	}, j.text("SELECT unit, count(*), count(CASE WHEN fetched_at >= $3 THEN 1 END) FROM {records} WHERE id IN (SELECT value ->> 0 FROM {rows}) AND fetched_at >= $2 GROUP BY unit"),
		string(ids), timeText(since), timeText(j.opened))
	return n, err
}

// isRepeated returns nil if a change was made before, by a call whose answer was lost, and
// else ErrLost.
func (j *Job) isRepeated(t *transaction, c *Claim, state State, pages int64) error {
	n := int64(0)
	err := t.query(func(r *sql.Rows) error { return r.Scan(&n) },
		j.text("SELECT count(*) FROM {units} WHERE key = $1 AND lease = $2 AND state = $3 AND pages = $4"),
		encode(c.Key), c.Lease, string(state), pages)
	if err == nil && n == 0 {
		err = fmt.Errorf("unit %s: %w", c.Key, ErrLost)
	}
	return err
}

// End ends a claim: as Failed or Incomplete, or as Waiting, so that the unit may be claimed again from a time on, at its checkpoint,
// or where it begins anew at its first page. A reason counts as a try: where the process stops there is none.
func (j *Job) End(ctx context.Context, c *Claim, s State, from time.Time, reason string) error {
	delay := max(0, from.Sub(j.engine.here()))
	c.kept = c.Pages
	return j.end(ctx, c, s, j.text(`UPDATE {units} SET state = $2, tries = tries + $3, reason = $4, not_before = {now} + $5,
		pages = $6, lease_end = 0, changed = {now} WHERE key = $7 AND lease = $8 AND state = 'running'`),
		string(s), min(len(reason), 1), encode(reason), (delay + time.Millisecond - 1).Milliseconds(), c.Pages)
}

func (j *Job) end(ctx context.Context, c *Claim, s State, text string, args ...any) error {
	return j.engine.write(ctx, func(t *transaction) error {
		n, err := t.exec(text, slices.Concat([]any{j.engine.now()}, args, []any{encode(c.Key), c.Lease})...)
		if err == nil && n == 0 {
			err = j.isRepeated(t, c, s, c.kept)
		}
		return err
	})
}

// An incomplete unit that was begun mostAnew times begins anew once in anewEvery, as it may never be complete.
const mostAnew, anewEvery = 20, 24 * time.Hour

// Retry makes units that failed, are incomplete or open wait again, and the named ones whatever has become of them.
// All but those that failed begin anew; those that are done keep their checkpoint. With anew, the named ones all begin anew. One
// that is incomplete for the 20th time and is not named does so once a day.
func (j *Job) Retry(ctx context.Context, named []string, anew bool) (n int64, err error) {
	again := func(anew bool, which string) string {
		kept := map[bool]string{false: "state", true: "''"}[anew]
		return j.text(`UPDATE {units} SET state = 'waiting', tries = 0, reason = '', not_before = 0, changed = {now},
			checkpoint = CASE WHEN ` + kept + ` IN ('failed', 'done') THEN checkpoint END,
			pages = CASE ` + kept + ` WHEN 'failed' THEN pages ELSE 0 END WHERE ` + which)
	}
	err = j.engine.write(ctx, func(t *transaction) error {
		n = 0
		for _, key := range named {
			changed, err := t.exec(again(anew, "state IN ('failed', 'incomplete', 'done') AND key = $2"), j.engine.now(), encode(key))
			if err != nil {
				return err
			}
			n += changed
		}
		changed, err := t.exec(again(false, `place >= 0 AND (state IN ('failed', 'open') OR state = 'incomplete' AND (lease < $2 OR changed <= {now} - $3))`),
			j.engine.now(), mostAnew, anewEvery.Milliseconds())
		n += changed
		return err
	})
	return n, err
}

// Counts sum up the job.
func (j *Job) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	u := &c.Units
	into := map[State]*int64{Waiting: &u.Waiting, Running: &u.Running, Done: &u.Done, Failed: &u.Failed, Incomplete: &u.Incomplete, NotOver: &u.Open}
	err := j.engine.read(ctx, func(r *sql.Rows) error { return r.Scan(&c.Rejects) }, j.text("SELECT count(*) FROM {rejects}"))
	if err != nil && !isMissingTable(err) {
		return c, err
	}
	if j.is.collects() {
		err = j.engine.read(ctx, func(r *sql.Rows) error { return r.Scan(&c.Records) }, j.text("SELECT count(*) FROM {records}"))
		return c, err
	}
	err = j.engine.read(ctx, func(r *sql.Rows) error {
		var state State
		var n, aside, pages, records, now int64
		var from sql.NullInt64
		if err := r.Scan(&state, &n, &aside, &pages, &records, &from, &now); err != nil {
			return err
		}
		*into[state] = n - aside
		u.Total += n - aside
		u.Aside += aside
		c.Pages += pages
		c.Records += records
		if from.Valid {
			c.Earlier = j.engine.here().Add(time.Duration(from.Int64-now) * time.Millisecond)
		}
		return nil
	}, j.text(`SELECT state, count(*), count(CASE WHEN place < 0 THEN 1 END), CAST(sum(pages) AS BIGINT), CAST(sum(records) AS BIGINT),
		min(CASE WHEN state = 'waiting' AND place >= 0 AND not_before > 0 THEN not_before END), {now} FROM {units} GROUP BY state`), j.engine.now())
	return c, err
}

// Problems are the units that failed, are incomplete or open, at most n. Of a collection they are
// the targets that fail now, without the reasons that an older release did not keep.
func (j *Job) Problems(ctx context.Context, n int) (list []Problem, err error) {
	queries := []string{"SELECT key, state, reason, pages, changed FROM {units} WHERE place >= 0 AND state IN ('failed', 'incomplete', 'open') ORDER BY place LIMIT $1"}
	if j.is.collects() {
		ofTargets := "SELECT key, 'failed', 'failures in a row: ' || failures%s, 0, asked FROM {targets} WHERE failures > 0 ORDER BY failures DESC, key LIMIT $1"
		queries = []string{fmt.Sprintf(ofTargets, " || CASE reason WHEN '' THEN '' ELSE '; the last: ' || reason END"), fmt.Sprintf(ofTargets, "")}
	}
	for _, query := range queries {
		list = nil
		err = j.engine.read(ctx, func(r *sql.Rows) error {
			var p Problem
			var at any
			err := r.Scan(&p.Unit, &p.State, &p.Reason, &p.Pages, &at)
			p.Unit, p.Reason, p.At = decode(p.Unit), decode(p.Reason), instant(at)
			list = append(list, p)
			return err
		}, j.text(query), n)
		if err == nil {
			break
		}
	}
	return list, err
}
