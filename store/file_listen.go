package store

import (
	"context"
	"database/sql"
	"time"

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
	ticker := time.NewTicker(membersInterval)
	defer ticker.Stop()
	members, documents, read := "nobody looked", uint64(0), time.Time{}
	told := map[string]int64{} // :: site → time of the latest reported note, in microseconds since 1970
	for site, one := range f.recentNotes(ctx, f.o.Now(), nil) {
		told[site] = one.at
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
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
		latest := map[string]int64{}
		for site, one := range f.recentNotes(ctx, f.o.Now(), told) {
			if latest[site] = one.at; len(one.notes) > 0 {
				heard(News{Site: site, Notes: one.notes})
			}
		}
		told = latest
	}
}

// noteMaxAge is the maximum age of notes that are reported.
const noteMaxAge = 10 * time.Second

// newNotes are a site's notes that were not reported yet.
type newNotes struct {
	at    int64  // time of the latest, in microseconds since 1970
	notes []Note // not reported yet
}

// recentNotes lists the recently written notes by site, without those up to the time of the
// last report in told.
func (f *File) recentNotes(ctx context.Context, now time.Time, told map[string]int64) map[string]newNotes {
	d := f.disk.Load()
	if d == nil {
		return nil
	}
	ctx, release, ok := d.acquire(ctx)
	if !ok {
		return nil
	}
	defer release()
	sites := map[string]newNotes{}
	err := sqlite.Each(func(rows *sql.Rows) error {
		var site string
		var at, until int64
		var sum *int64
		var n Note
		err := rows.Scan(&site, &n.Key, &at, &until, &n.N, &n.Text, &sum)
		if err != nil || sum != nil && *sum != noteSum(site, n.Key, at, until, n.N, n.Text) {
			return err
		}
		notes := sites[site]
		if n.Until = time.UnixMicro(until); at > told[site] {
			notes.notes = append(notes.notes, n)
		}
		notes.at = max(notes.at, at)
		sites[site] = notes
		return nil
	})(d.readers.QueryContext(ctx, "SELECT site, key, at, until, n, text, sum FROM notes WHERE at > ?", now.Add(-noteMaxAge).UnixMicro()))
	if err != nil {
		return nil
	}
	return sites
}
