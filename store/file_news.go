package store

import (
	"context"
	"time"
)

const (
	// lookEvery is how often it is looked whether other processes use the file.
	lookEvery = 100 * time.Millisecond
	// newsEvery is how often it is looked, while other processes do, what they have said.
	newsEvery = 250 * time.Millisecond
)

// Listen tells heard of the notes that other processes have written, by their site, and
// with "" of a process that has come or ended, and of a document that was changed. While
// no other process uses the file that is a look at its directory, and nothing is read or
// written. A file that could not be written at the start is tried again once a second.
func (f *File) Listen(ctx context.Context, heard func(News)) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	members, documents, read := "nobody looked", uint64(0), time.Time{}
	told := map[string]int64{} // :: site → when its latest note was written that was told, in microseconds since 1970
	for site, one := range f.noted(ctx, f.o.Now(), nil) {
		told[site] = one.at
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if !f.ever.Load() {
			f.tryAgain(ctx)
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
		if d == nil || len(others) == 0 || now.Sub(read) < newsEvery {
			continue
		}
		read = now
		if n := d.documents(ctx); n != documents {
			documents = n
			heard(News{})
		}
		latest := map[string]int64{}
		for site, one := range f.noted(ctx, f.o.Now(), told) {
			if latest[site] = one.at; len(one.notes) > 0 {
				heard(News{Site: site, Notes: one.notes})
			}
		}
		told = latest
	}
}

// notedWithin is how long ago a note may have been written that is read only now.
const notedWithin = 10 * time.Second

// notedSite is what was noted of a site lately.
type notedSite struct {
	at    int64  // when the latest of it was written, in microseconds since 1970
	notes []Note // that were not told
}

// noted are the sites of which something was noted lately, without the notes that were
// told: those up to a time of each site.
func (f *File) noted(ctx context.Context, now time.Time, told map[string]int64) map[string]notedSite {
	d := f.disk.Load()
	if d == nil {
		return nil
	}
	ctx, release, ok := d.hold(ctx)
	if !ok {
		return nil
	}
	defer release()
	rows, err := d.readers.QueryContext(ctx, "SELECT site, key, at, until, n, text, sum FROM notes WHERE at > ?", now.Add(-notedWithin).UnixMicro())
	if err != nil {
		return nil
	}
	defer rows.Close()
	sites := map[string]notedSite{}
	for rows.Next() {
		var site string
		var at, until int64
		var sum *int64
		var n Note
		if rows.Scan(&site, &n.Key, &at, &until, &n.N, &n.Text, &sum) != nil {
			return nil
		}
		if sum != nil && *sum != noteSum(site, n.Key, at, until, n.N, n.Text) {
			continue
		}
		one := sites[site]
		if n.Until = time.UnixMicro(until); at > told[site] {
			one.notes = append(one.notes, n)
		}
		one.at = max(one.at, at)
		sites[site] = one
	}
	return sites
}
