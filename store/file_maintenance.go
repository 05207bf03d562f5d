package store

import (
	"context"
	"database/sql"
	"slices"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/sqlite"
)

// maintenance runs after commits: it drops expired rows, sums up old traffic and bounds the
// size of the file. It runs only while data is written. Only the
// goroutine that commits uses it.
type maintenance struct {
	path string
	o    FileOptions
	log  *fileLog

	next       time.Time // time of the next step
	lastCount  time.Time // when Counts were last counted
	halved     int       // how often the retention of traffic is halved
	halvedAt   time.Time // last change of halved
	rollUpDone bool      // all due roll-ups are done

	oldest atomic.Int64 // Counts saved before are in excess, in microseconds since 1970
	site   string       // position of the search for them
	key    string
}

func (c *maintenance) due(now time.Time) bool {
	return !now.Before(c.next) || c.next.Sub(now) > time.Minute
}

// step drops a part of the expired rows, and rolls up old traffic.
func (c *maintenance) step(d *database, now time.Time, background func(func())) error {
	c.next = now.Add(time.Minute)
	if err := c.adjustRetention(d, now); err != nil {
		return err
	}
	more, err := rollUp(d, now, c.o.Roll.halved(c.halved))
	if err != nil {
		return err
	}
	c.rollUpDone = !more
	for _, over := range []string{
		"DELETE FROM documents WHERE id IN (SELECT id FROM documents WHERE until BETWEEN 1 AND ? LIMIT ?)",
		"DELETE FROM notes WHERE (site, key) IN (SELECT site, key FROM notes WHERE until <= ? LIMIT ?)",
	} {
		n, err := d.change(over, now.UnixMicro(), maxRowsPerStep)
		if err != nil {
			return err
		}
		more = more || n == maxRowsPerStep
	}
	for _, drop := range []func(*database) (bool, error){c.dropExcessCounts, c.dropExcessDocuments} {
		some, err := drop(d)
		if err != nil {
			return err
		}
		more = more || some
	}
	if more {
		c.next = now
	}
	if since := now.Sub(c.lastCount); since < 0 || since >= time.Hour {
		c.lastCount = now
		background(func() { c.countCounts(d) })
	}
	return nil
}

// adjustRetention halves the retention of traffic while the file is too large, and doubles
// it again when the file is much smaller.
func (c *maintenance) adjustRetention(d *database, now time.Time) error {
	var pages, unused, size int64
	for query, to := range map[string]*int64{"PRAGMA page_count": &pages, "PRAGMA freelist_count": &unused, "PRAGMA page_size": &size} {
		if err := d.row(query, nil, to); err != nil {
			return err
		}
	}
	used := (pages - unused) * size
	since := now.Sub(c.halvedAt)
	switch {
	case used > c.o.Roll.Bytes && c.halved < maxHalvings && (c.rollUpDone || c.halved == 0):
		c.halved++
	case used < c.o.Roll.Bytes/2 && c.halved > 0 && (since < 0 || since > 24*time.Hour):
		c.halved--
	default:
		return nil
	}
	c.halvedAt, c.rollUpDone = now, false
	keep := c.o.Roll.halved(c.halved)
	c.log.logf("state file %s: it has %d MB in use, of %d MB that it may have, so bandwidth is kept by the minute for %v, by the hour for %v and by the day for %v",
		c.path, used>>20, c.o.Roll.Bytes>>20, keep.Minutes, keep.Hours, keep.Days)
	return nil
}

// dropExcessDocuments drops a part of the documents beyond the maximum of their kind, those
// that expire first.
func (c *maintenance) dropExcessDocuments(d *database) (more bool, err error) {
	for kind, most := range c.o.Most {
		n := 0
		if err := d.row("SELECT count(*) FROM documents WHERE kind = ?", []any{kind}, &n); err != nil {
			return false, err
		}
		if n <= most {
			continue
		}
		gone, err := d.change("DELETE FROM documents WHERE id IN (SELECT id FROM documents WHERE until > 0 AND kind = ? ORDER BY until LIMIT ?)", kind, min(n-most, maxRowsPerStep))
		if err != nil {
			return false, err
		}
		more = more || gone > 0 && int(gone) < n-most // those that never expire stay
	}
	return more, nil
}

// countCounts finds out in the background whether there are too many Counts.
func (c *maintenance) countCounts(d *database) {
	ctx, release, ok := d.acquire(context.Background())
	if !ok {
		return
	}
	defer release()
	if at, _, err := d.oldest(ctx, c.o.Counts*5/4); err != nil || at == 0 {
		return
	}
	if at, _, err := d.oldest(ctx, c.o.Counts); err == nil {
		c.oldest.Store(at)
	}
}

// dropExcessCounts searches a part of the Counts for those in excess and drops them.
func (c *maintenance) dropExcessCounts(d *database) (more bool, err error) {
	oldest := c.oldest.Load()
	if oldest == 0 {
		return false, nil
	}
	var site, key string
	err = d.row("SELECT site, key FROM counts WHERE (site, key) > (?, ?) ORDER BY site, key LIMIT 1 OFFSET ?", []any{c.site, c.key, 2*maxRowsPerStep - 1}, &site, &key)
	switch {
	case err == nil:
		err = d.run("DELETE FROM counts WHERE (site, key) > (?, ?) AND (site, key) <= (?, ?) AND at < ?", c.site, c.key, site, key, oldest)
		c.site, c.key = site, key
		return true, err
	case noRows(err):
		err = d.run("DELETE FROM counts WHERE (site, key) > (?, ?) AND at < ?", c.site, c.key, oldest)
		c.site, c.key = "", ""
		c.oldest.CompareAndSwap(oldest, 0)
		return false, err
	}
	return false, err
}

// oldest returns the save time of the nth latest Count, or 0 if there are no more than n, and
// about how many are later. Sorting in SQLite would take much longer.
func (d *database) oldest(ctx context.Context, n int) (at int64, since int, err error) {
	var there int
	if err := d.readers.QueryRowContext(ctx, "SELECT count(*) FROM counts").Scan(&there); err != nil || there <= n {
		return 0, there, err
	}
	said := make([]int64, 0, there)
	err = sqlite.Each(func(rows *sql.Rows) error {
		var at int64
		err := rows.Scan(&at)
		said = append(said, at)
		return asDamage(err)
	})(d.readers.QueryContext(ctx, "SELECT at FROM counts"))
	slices.Sort(said)
	if len(said) <= n {
		return 0, len(said), err
	}
	return said[len(said)-n], n, err
}

// documents counts the changes of documents by all processes, as far as it can be read.
func (d *database) documents(ctx context.Context) uint64 {
	ctx, release, ok := d.acquire(ctx)
	if !ok {
		return 0
	}
	defer release()
	var n int64
	_ = d.readers.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'documents'").Scan(&n)
	return uint64(n)
}
