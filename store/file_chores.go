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
	more, err := rollUp(d, now, f.o.Roll)
	if err != nil {
		return err
	}
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
	if more || some {
		f.chores.next = now
	}
	if since := now.Sub(f.chores.counted); err == nil && (since < 0 || since >= time.Hour) {
		f.chores.counted = now
		f.done.Go(func() { f.countCounts(d) })
	}
	return err
}

// countCounts finds out whether there are too many Counts, which takes a moment when
// there are, so nobody waits for it.
func (f *File) countCounts(d *disk) {
	ctx := context.Background()
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
