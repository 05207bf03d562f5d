package store

import (
	"bytes"
	"context"
	"database/sql"
	"time"

	"github.com/abide-proxy/abide/internal/sqlite"
)

// Document is a small value that is read as a whole.
type Document struct {
	Value []byte    // nil: removed
	Until time.Time // zero: for ever
}

// Put saves a document, or removes it if value is nil. It returns when the data is on the
// disk.
func (f *File) Put(ctx context.Context, kind, key string, value []byte, until time.Time) error {
	return f.PutAll(ctx, kind, map[string]Document{key: {value, until}})
}

// PutAll saves and removes documents of a kind: all of them, or none on an error.
func (f *File) PutAll(ctx context.Context, kind string, documents map[string]Document) error {
	copies := make(map[string]Document, len(documents))
	for key, one := range documents {
		copies[key] = Document{bytes.Clone(one.Value), one.Until}
	}
	return f.write(ctx, func(d *database, now time.Time) error {
		for key, one := range copies {
			if one.Value == nil {
				if err := d.run("DELETE FROM documents WHERE kind = ? AND key = ?", kind, key); err != nil {
					return err
				}
				continue
			}
			until := int64(0)
			if !one.Until.IsZero() {
				until = one.Until.UnixMicro()
			}
			err := d.run(`INSERT INTO documents (kind, key, at, until, value, sum) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET at = excluded.at, until = excluded.until, value = excluded.value, sum = excluded.sum`,
				kind, key, now.UnixMicro(), until, one.Value, documentSum(kind, key, one.Value, now.UnixMicro(), until))
			if err != nil {
				return err
			}
		}
		return d.run("INSERT INTO meta VALUES ('documents', 1) ON CONFLICT DO UPDATE SET value = value + 1")
	})
}

// All returns the valid documents of a kind.
func (f *File) All(ctx context.Context, kind string) (map[string][]byte, error) {
	all, now := map[string][]byte{}, f.o.Now().UnixMicro()
	var aside []damagedRow
	err := f.reading(ctx, func(ctx context.Context, d *database) error {
		return sqlite.Each(func(rows *sql.Rows) error {
			var key string
			var value []byte
			var at, until int64
			var sum *int64
			if err := rows.Scan(&key, &value, &at, &until, &sum); err != nil {
				return asDamage(err)
			}
			if sum != nil && *sum != documentSum(kind, key, value, at, until) {
				aside = append(aside, damagedRow{"documents", "kind, key", []any{kind, key}, *sum, []any{kind, key, at, until, value}})
				return nil
			}
			if value == nil {
				value = []byte{}
			}
			all[key] = value
			return nil
		})(d.readers.QueryContext(ctx, "SELECT key, value, at, until, sum FROM documents WHERE kind = ? AND (until = 0 OR until > ?)", kind, now))
	})
	if err == nil {
		err = f.setRowsAside(ctx, aside)
	}
	return all, err
}
