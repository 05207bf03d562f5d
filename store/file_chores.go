package store

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"
)

// atOnce is how many rows a chore changes at most, so that nobody waits long for it.
const atOnce = 1000

// chores are what is done besides, after commits. Nothing is dropped while nothing is
// written.
type chores struct {
	looked  time.Time // when it was last looked whether the file is still there
	lost    bool      // something may be lost since this generation began
	next    time.Time // when there is something to do again
	counted time.Time // when Counts were counted last
	halved  int       // how often the times are halved for which traffic is kept
	changed time.Time // when that was changed
	rolled  bool      // all is rolled up that was to be

	excess map[string]int // :: kind → documents that are still to be dropped; nil: they were not counted

	oldest atomic.Int64 // Counts that were said before are too many, in microseconds since 1970
	site   string       // up to where they were looked through
	key    string
}

func (c *chores) due(now time.Time) bool {
	return !now.Before(c.next) || c.next.Sub(now) > time.Minute
}

// chore drops a part of what is over, and rolls up what is old.
func (f *File) chore(d *disk, now time.Time) error {
	f.chores.next = now.Add(time.Minute)
	if err := f.fit(d, now); err != nil {
		return err
	}
	more, err := rollUp(d, now, f.o.Roll.halved(f.chores.halved))
	if err != nil {
		return err
	}
	f.chores.rolled = !more
	for _, over := range []string{
		"DELETE FROM documents WHERE id IN (SELECT id FROM documents WHERE until BETWEEN 1 AND ? LIMIT ?)",
		"DELETE FROM notes WHERE (site, key) IN (SELECT site, key FROM notes WHERE until <= ? LIMIT ?)",
		"DELETE FROM budgets WHERE (site, name) IN (SELECT site, name FROM budgets WHERE until <= ? LIMIT ?)",
	} {
		n, err := d.change(over, now.UnixMicro(), atOnce)
		if err != nil {
			return err
		}
		more = more || n == atOnce
	}
	some, err := f.prune(d)
	if err == nil {
		var crowded bool
		crowded, err = f.thin(d)
		some = some || crowded
	}
	if more || some {
		f.chores.next = now
	}
	if since := now.Sub(f.chores.counted); err == nil && (since < 0 || since >= time.Hour) {
		f.chores.counted = now
		f.done.Go(func() { f.countCounts(d) })
	}
	return err
}

// fit has traffic be kept for less long while the file is larger than it should be, and for
// longer again when it is much smaller.
func (f *File) fit(d *disk, now time.Time) error {
	var pages, unused, size int64
	for query, to := range map[string]*int64{"PRAGMA page_count": &pages, "PRAGMA freelist_count": &unused, "PRAGMA page_size": &size} {
		if err := d.row(query, nil, to); err != nil {
			return err
		}
	}
	c, used := &f.chores, (pages-unused)*size
	since := now.Sub(c.changed)
	switch {
	case used > f.o.Roll.Bytes && c.halved < tightest && (c.rolled || c.halved == 0):
		c.halved++
	case used < f.o.Roll.Bytes/2 && c.halved > 0 && (since < 0 || since > 24*time.Hour):
		c.halved--
	default:
		return nil
	}
	c.changed, c.rolled = now, false
	keep := f.o.Roll.halved(c.halved)
	f.find("state file %s: it has %d MB in use, of %d MB that it may have, so bandwidth is kept by the minute for %v, by the hour for %v and by the day for %v",
		f.path, used>>20, f.o.Roll.Bytes>>20, keep.Minutes, keep.Hours, keep.Days)
	return nil
}

// thin drops a part of the documents of which there are too many, those first that count
// for less long. What counts does so for as long from when it was written, or until a
// time of its own.
func (f *File) thin(d *disk) (more bool, err error) {
	c := &f.chores
	if c.excess == nil {
		c.excess = map[string]int{}
		for kind, most := range f.o.Most {
			n := 0
			if err := d.row("SELECT count(*) FROM documents WHERE kind = ?", []any{kind}, &n); err != nil {
				return false, err
			}
			if n > most {
				c.excess[kind] = n - most
			}
		}
	}
	for kind, n := range c.excess {
		gone, err := d.change("DELETE FROM documents WHERE id IN (SELECT id FROM documents WHERE until > 0 AND kind = ? ORDER BY until LIMIT ?)", kind, min(n, atOnce))
		if err != nil {
			return false, err
		}
		if c.excess[kind] -= int(gone); c.excess[kind] <= 0 || gone == 0 {
			delete(c.excess, kind)
		}
	}
	if len(c.excess) > 0 {
		return true, nil
	}
	c.excess = nil
	return false, nil
}

// countCounts finds out whether there are too many Counts, which takes a moment when
// there are, so nobody waits for it.
func (f *File) countCounts(d *disk) {
	ctx, release, ok := d.hold(context.Background())
	if !ok {
		return
	}
	defer release()
	if at, _, err := d.oldest(ctx, f.o.Counts*5/4); err != nil || at == 0 {
		return
	}
	if at, _, err := d.oldest(ctx, f.o.Counts); err == nil {
		f.chores.oldest.Store(at)
	}
}

// prune looks through a part of the Counts for those that are too many.
func (f *File) prune(d *disk) (more bool, err error) {
	c := &f.chores
	oldest := c.oldest.Load()
	if oldest == 0 {
		return false, nil
	}
	var site, key string
	err = d.row("SELECT site, key FROM counts WHERE (site, key) > (?, ?) ORDER BY site, key LIMIT 1 OFFSET ?", []any{c.site, c.key, 2*atOnce - 1}, &site, &key)
	switch {
	case err == nil:
		err = d.run("DELETE FROM counts WHERE (site, key) > (?, ?) AND (site, key) <= (?, ?) AND at < ?", c.site, c.key, site, key, oldest)
		c.site, c.key = site, key
		return true, err
	case none(err):
		err = d.run("DELETE FROM counts WHERE (site, key) > (?, ?) AND at < ?", c.site, c.key, oldest)
		c.site, c.key = "", ""
		c.oldest.CompareAndSwap(oldest, 0)
		return false, err
	}
	return false, err
}

func none(err error) bool { return errors.Is(err, sql.ErrNoRows) }
