package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/status"
)

// fileLog collects the messages about a file for its owner. It is safe for concurrent use.
type fileLog struct {
	path string
	now  func() time.Time
	logf func(format string, args ...any)

	mu     sync.Mutex
	damage status.Damage
}

// damaged returns the damage until now.
func (l *fileLog) damaged() status.Damage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damage
}

// addDamagedFile records that a whole file was moved aside.
func (l *fileLog) addDamagedFile(name string, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.damage.At, l.damage.File, l.damage.Why = l.now(), name, why.Error()
	l.damage.Files++
}

// maxDamagedRows bounds the damaged rows that are saved for inspection.
const maxDamagedRows = 1000

// maxLoggedRows bounds the damaged rows that are logged. All are counted.
const maxLoggedRows = 10

// damagedRow is a row of counts, documents or notes with a wrong checksum. SQLite has none: a flipped bit would make a
// wrong amount or time. A row without one is of version 1 and accepted; its next write adds one.
type damagedRow struct {
	table, columns string // the table, and the columns that identify the row
	names          []any  // values of these columns
	sum            int64  // the row's checksum
	row            []any
}

// setRowAside moves a damaged row to the table aside, in the current transaction.
func (l *fileLog) setRowAside(d *database, b damagedRow, now int64) error {
	text, err := json.Marshal(b.row)
	if err != nil {
		return err
	}
	where := strings.ReplaceAll(b.columns, ", ", " = ? AND ") + " = ? AND sum = ?"
	n, err := d.change("DELETE FROM "+b.table+" WHERE "+where, append(slices.Clone(b.names), b.sum)...)
	if err != nil || n == 0 {
		return err // it was overwritten, or another process has moved it
	}
	if err := d.run("INSERT INTO aside (at, origin, value) VALUES (?, ?, ?)", now, b.table, text); err != nil {
		return err
	}
	if err := d.run("DELETE FROM aside WHERE id <= (SELECT max(id) FROM aside) - ?", maxDamagedRows); err != nil {
		return err
	}
	l.mu.Lock()
	l.damage.At = time.UnixMicro(now)
	l.damage.Rows++
	n = int64(l.damage.Rows)
	l.mu.Unlock()
	if n <= maxLoggedRows {
		l.logf("state file %s: a row of %s (%v) is damaged: it was set aside, and what it kept is forgotten", l.path, b.table, b.names)
	}
	return nil
}

var castagnoliTable = crc32.MakeTable(crc32.Castagnoli)

// checksumBuffers are buffers for checksum, which is called for very many rows at a start.
var checksumBuffers = sync.Pool{New: func() any { return new([]byte) }}

// checksum is the checksum of a row's fields in order: texts, bytes and numbers.
func checksum(fields ...any) int64 {
	scratch := checksumBuffers.Get().(*[]byte)
	defer checksumBuffers.Put(scratch)
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
	return int64(crc32.Checksum(b, castagnoliTable))
}

// documentSum is the checksum of a row of documents. It stays valid when both times are
// moved because the clock was set back.
func documentSum(kind, key string, value []byte, at, until int64) int64 {
	return checksum("document", kind, key, value, lifetimeOf(at, until))
}

// noteSum is the checksum of a row of notes.
func noteSum(site, key string, at, until, n int64, text string) int64 {
	return checksum("note", site, key, lifetimeOf(at, until), n, text)
}

// lifetimeOf returns the time for which a row is valid in microseconds, -1 for ever.
func lifetimeOf(at, until int64) int64 {
	if until == 0 {
		return -1
	}
	return until - at
}
