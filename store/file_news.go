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
// written.
func (f *File) Listen(ctx context.Context, heard func(News)) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	members, documents, read := "nobody looked", uint64(0), time.Time{}
	told := map[string]int64{} // :: site → when its latest note was written that was told, in microseconds since 1970
	for site, at := range f.noted(ctx, f.o.Now()) {
		told[site] = at
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
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
		fresh := f.noted(ctx, f.o.Now())
		for site, at := range fresh {
			if told[site] != at {
				heard(News{Site: site})
			}
		}
		told = fresh
	}
}

// notedWithin is how long ago a note may have been written that is read only now.
const notedWithin = 10 * time.Second

// noted are the sites of which something was noted lately, and when, in microseconds
// since 1970.
func (f *File) noted(ctx context.Context, now time.Time) map[string]int64 {
	d := f.disk.Load()
	if d == nil {
		return nil
	}
	rows, err := d.readers.QueryContext(ctx, "SELECT site, max(at) FROM notes WHERE at > ? GROUP BY site", now.Add(-notedWithin).UnixMicro())
	if err != nil {
		return nil
	}
	defer rows.Close()
	sites := map[string]int64{}
	for rows.Next() {
		var site string
		var at int64
		if rows.Scan(&site, &at) != nil {
			return nil
		}
		sites[site] = at
	}
	return sites
}
