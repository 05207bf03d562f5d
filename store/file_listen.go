package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/sqlite"
)

const (
	// membersInterval is the time between two searches for other processes.
	membersInterval = 100 * time.Millisecond
	// newsInterval is the time between two readings of the news of other processes, while
	// there are some.
	newsInterval = 250 * time.Millisecond
)

// Listen calls heard with the notes that other processes have written, by site, and with
// site "" when a process came or ended or a document was changed. While no other process
// uses the file, it only checks the directory. A file that could not be opened for writing
// is tried again once a second, and one that could not be written once more when it settles.
func (f *File) Listen(ctx context.Context, heard func(News)) error {
	members, documents, read := "nobody looked", uint64(0), time.Time{}
	_, told := f.recentNotes(ctx, 0)
	for range clock.Ticks(ctx, membersInterval) {
		if h := f.Health(); !f.openedForWriting.Load() || h.settles(f.o.Now()) {
			f.retryOpen(ctx)
		}
		others, now := f.others(), time.Now()
		ids := ""
		for _, one := range others {
			ids += one.ID + " "
		}
		if ids != members {
			members = ids
			heard(News{})
		}
		d := f.disk.Load()
		if d == nil || len(others) == 0 || now.Sub(read) < newsInterval {
			continue
		}
		read = now
		if n := d.documents(ctx); n != documents {
			documents = n
			heard(News{})
		}
		var sites map[string][]Note
		sites, told = f.recentNotes(ctx, told)
		for site, notes := range sites {
			heard(News{Site: site, Notes: notes})
		}
	}
	return ctx.Err()
}

// noteMaxAge is the maximum age of notes that are reported.
const noteMaxAge = 10 * time.Second

// recentNotes lists by site the notes that were lately written, after a time in microseconds since 1970, and
// returns the time of the latest. Writes have the order of their times, unless the clock is set back.
func (f *File) recentNotes(ctx context.Context, after int64) (sites map[string][]Note, latest int64) {
	now := f.o.Now()
	after = min(after, now.UnixMicro())
	d := f.disk.Load()
	if d == nil {
		return nil, after
	}
	ctx, release, ok := d.acquire(ctx)
	if !ok {
		return nil, after
	}
	defer release()
	sites, latest = map[string][]Note{}, after
	err := sqlite.Each(func(rows *sql.Rows) error {
		var site string
		var at, until int64
		var sum *int64
		var n Note
		err := rows.Scan(&site, &n.Key, &at, &until, &n.N, &n.Text, &sum)
		if err != nil || sum != nil && *sum != noteSum(site, n.Key, at, until, n.N, n.Text) {
			return err
		}
		n.Until = time.UnixMicro(until)
		sites[site], latest = append(sites[site], n), max(latest, at)
		return nil
	})(d.readers.QueryContext(ctx, "SELECT site, key, at, until, n, text, sum FROM notes WHERE at > ?", max(after, now.Add(-noteMaxAge).UnixMicro())))
	if err != nil {
		return nil, after
	}
	return sites, latest
}
