package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"
)

// A row of counts, documents and notes has a checksum of all its fields, since
// SQLite has none: a bit that the disk has changed would be an amount or a time like any
// other. A row without one is of version 1 and is believed; it gets one when it is
// written the next time. A row whose checksum is wrong is moved into the table aside.

// mostAside is how many damaged rows are kept for whoever looks into it.
const mostAside = 1000

// mostSaid is how many of them the log names. All are counted.
const mostSaid = 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// scratches are buffers for sumOf: at a start it is called for each of very many rows.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// sumOf is the checksum of a row: texts, bytes and numbers in order.
func sumOf(fields ...any) int64 {
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	b := (*scratch)[:0]
	for _, one := range fields {
		switch v := one.(type) {
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		case []byte:
			b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
		case int64:
			b = binary.AppendVarint(b, v)
		default:
			panic(fmt.Sprintf("the checksum of a %T", one))
		}
	}
	*scratch = b
	return int64(crc32.Checksum(b, castagnoli))
}

// countSum is the checksum of a Count.
func countSum(site, key, instance string, seq, ahead, at int64, state []byte) int64 {
	return sumOf("count", site, key, instance, seq, ahead, at, state)
}

// documentSum is the checksum of a document. A clock that is set back moves both times.
func documentSum(kind, key string, value []byte, at, until int64) int64 {
	return sumOf("document", kind, key, value, lasting(at, until))
}

// noteSum is the checksum of a note.
func noteSum(site, key string, at, until, n int64, text string) int64 {
	return sumOf("note", site, key, lasting(at, until), n, text)
}

// lasting is how long a row counts, -1 for good.
func lasting(at, until int64) int64 {
	if until == 0 {
		return -1
	}
	return until - at
}

// bad is a damaged row.
type bad struct {
	table, columns string // and which columns name it
	names          []any  // their values
	sum            int64  // the checksum that it has
	row            []any
}

// setRowAside moves a damaged row away, in the transaction that is under way.
func (f *File) setRowAside(d *disk, b bad, now int64) error {
	text, err := json.Marshal(b.row)
	if err != nil {
		return err
	}
	where := strings.ReplaceAll(b.columns, ", ", " = ? AND ") + " = ? AND sum = ?"
	n, err := d.change("DELETE FROM "+b.table+" WHERE "+where, append(slices.Clone(b.names), b.sum)...)
	if err != nil || n == 0 {
		return err // it was written anew meanwhile, or another process has done it
	}
	if err := d.run("INSERT INTO aside (at, origin, value) VALUES (?, ?, ?)", now, b.table, text); err != nil {
		return err
	}
	if err := d.run("DELETE FROM aside WHERE id <= (SELECT max(id) FROM aside) - ?", mostAside); err != nil {
		return err
	}
	f.mu.Lock()
	f.damage.At = time.UnixMicro(now)
	f.damage.Rows++
	n = int64(f.damage.Rows)
	f.mu.Unlock()
	if n <= mostSaid {
		f.find("state file %s: a row of %s (%v) is damaged: it was set aside, and what it kept is forgotten", f.path, b.table, b.names)
	}
	return nil
}

// setRowsAside is setRowAside for rows that were met by a reader. With Strict the first
// of them is an error.
func (f *File) setRowsAside(ctx context.Context, list []bad) error {
	if len(list) == 0 {
		return nil
	}
	if f.o.Strict {
		return advise(f.path, damage("a row of %s (%v) is damaged", list[0].table, list[0].names))
	}
	for some := range slices.Chunk(list, atOnce) {
		// That it cannot be written is said by itself. The rows do not count all the same.
		_ = f.write(ctx, func(d *disk, now time.Time) error {
			for _, one := range some {
				if err := f.setRowAside(d, one, now.UnixMicro()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return nil
}
