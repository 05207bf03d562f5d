package store

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// Damage is what was moved aside since the process began, because it was damaged: the file,
// or rows of it. The zero value is nothing.
type Damage struct {
	At    time.Time // last time that damage was found
	File  string    // path of the last file that was moved aside; "": none
	Why   string    // the cause
	Files int       // number of files moved aside
	Rows  int       // number of rows moved aside
}

// fileLog collects the messages about a file for its owner. It is safe for concurrent use.
type fileLog struct {
	path string
	now  func() time.Time
	logf func(format string, args ...any)

	mu     sync.Mutex
	damage Damage
}

// damaged returns what was moved aside.
func (l *fileLog) damaged() Damage {
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

// maxDamagedRows bounds the damaged rows that are kept for inspection.
const maxDamagedRows = 1000

// maxLoggedRows bounds the damaged rows that are logged. All are counted.
const maxLoggedRows = 10

// damagedRow is a row with a wrong checksum.
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
