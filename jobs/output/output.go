// Package output keeps what jobs have fetched: the records, and with them how far each unit of
// a job is. A page and the checkpoint behind it are one transaction, so a job that ends at any
// moment goes on where its records end.
//
//	o, err := output.Open(ctx, job.Output, output.Options{})
//	j, err := o.Job(ctx, output.Description{Name: "orders", Fingerprint: "…"})
//	n, err := j.AddUnits(ctx, units, false)
//	claim, err := j.Claim(ctx)
//	err = j.Commit(ctx, claim, output.Page{Records: records, Checkpoint: next})
//
// SQLite and PostgreSQL have the same tables, which docs/jobs.md describes. Times of units are milliseconds since 1970, those of
// records UTC, which is a text in SQLite. Rejected records of a unit go when it is fetched again.
//
// PostgreSQL has no texts with NUL, so texts other than a body have "␀0" in its place, and
// "␀␀" in place of "␀". Bytes that are not UTF-8 become U+FFFD.
package output

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// LeaseTime is the time for which a claimed unit belongs to a process that does not renew its
// claim.
const LeaseTime = 30 * time.Second

var (
	// ErrLost is for a claim that was not renewed in time and belongs to another process now.
	// Nothing was written.
	ErrLost = errors.New("another process has this unit now, because the lease was not renewed in time")
	// ErrEmptied is for the last page of a unit that had records and would have none. Nothing was written.
	ErrEmptied = errors.New("it has no records now")
	// ErrOwned is for a collection that another process has.
	ErrOwned = errors.New("another process collects this job: end that one, or give this job another name")
	// ErrAway is for a database that cannot be reached or is full at present: the same call
	// may succeed later.
	ErrAway = errors.New("the output cannot be written at present")
)

// Options of Open.
type Options struct {
	// ReadOnly opens an output that exists, and changes nothing.
	ReadOnly bool
	// Lease is the time for which a claim lasts that is not renewed. 0: LeaseTime.
	Lease time.Duration
	// Now is the clock of leases. nil: the clock of this machine for SQLite, and the clock
	// of the server for PostgreSQL.
	Now func() time.Time
}

// Description identifies a job in an output.
type Description struct {
	Name        string
	Kind        string // "backfill", or "collect": then an ID may have several records, of different times
	Moves       bool   // records may move between units
	Replace     bool   // the records of a unit that is done are those of its last walk
	Empties     bool   // with Replace, a unit that had records may have none
	Hashed      bool   // an ID is the hash of its record, so equal records of several pages of a unit are one
	Fingerprint string // of what must not change while records are kept
	Request     string // what Fingerprint is about, a line each, for messages
	Columns     []jobfile.Column

	// Of returns the columns of a record with that body, nil for those that are not taken out of it. It fills those
	// that are new. nil: they stay empty.
	Of func(body []byte) []any
	// About returns what of the key of a unit the job names, such as an item without the time from which it is asked for. nil: all.
	About func(key string) string
}

// columnOf reads what columnText has written. A column has no path where an older release did not know it.
func columnOf(text string) jobfile.Column {
	parts := append(strings.SplitN(text, ":", 3), "", "")
	return jobfile.Column{Name: parts[0], Type: parts[1], Path: parts[2]}
}

// columnText is a column as the table of jobs has it.
func columnText(c jobfile.Column) string { return c.Name + ":" + c.Type + ":" + c.Path }

// isFilledAs tells whether a column has what it would have as another one: what is not taken out of records stays.
func isFilledAs(c, other jobfile.Column) bool {
	return c.Type == other.Type && (c.Path == other.Path || !c.OfRecord() || !other.OfRecord())
}

// Names are the names of all columns of the table of records.
func (d *Description) Names() []string {
	return append([]string{"id", "unit", "fetched_at", "body"}, lists.Map(d.Columns, func(c jobfile.Column) string { return c.Name })...)
}

// collects tells whether the job is a collection.
func (d *Description) collects() bool { return d.Kind == "collect" }

// Unit is one part of a job: a step of its range, or an item.
type Unit struct {
	Key    string            // unique in the job
	Place  int64             // units are handed out in this order; negative in the table: the job no longer has the unit
	Values map[string]string // of an item, besides itself
	Again  bool              // a run fetches it again, if it is done
}

// Claim is a unit that a process works on.
type Claim struct {
	Unit
	Lease      int64  // a later claim of the same unit has a higher number
	Checkpoint []byte // behind the last page that was committed; nil: no page was
	Pages      int64  // that were committed; 0 where the unit begins again
	kept       int64  // Pages in the table
	Records    int64  // of these pages
	Begun      int64  // the records that the unit had before its first page are older, in microseconds since 1970; 0: it had none
	Tries      int    // how often the unit was put back since its last page
	Rejected   int64  // records that this claim has rejected
	Replaced   int64  // records of this claim that took the place of others with the same ID, of the page or of another unit; hashed, of an earlier page, too
}

// Record is a record of a page.
type Record struct {
	ID      string
	Unit    string
	Fetched time.Time
	Body    []byte // JSON
	Columns []any  // nil, bool, int64, float64 or string, in the order of Description.Columns; a time as TimeForm

	Rejected string // why it is no record; "": it is one
}

// Page holds what one answer adds.
type Page struct {
	Records    []Record
	Checkpoint []byte // where the next page begins
	Ends       State  // of the unit, which ends with this page: Done, Incomplete or NotOver; "": it goes on
	Reason     string // why it is not done
	Unchanged  bool   // the unit, which begins anew, still has the records that it had
}

// State of a unit.
type State string

// States of units.
const (
	Waiting    State = "waiting"
	Running    State = "running"
	Done       State = "done"
	Failed     State = "failed"
	Incomplete State = "incomplete" // its walk was cut short; what was fetched is kept
	NotOver    State = "open"       // all was fetched, and its time ends in the future; what was fetched is kept
)

// Counts sum up a job.
type Counts struct {
	status.Job           // its units, pages, records and rejects: records are rows in the table, as far as they are counted
	Earlier    time.Time // when a unit that was put back may be claimed first; zero: none is put back
}

// Problem is a unit that failed or is incomplete.
type Problem struct {
	Unit   string
	State  State
	Reason string
	Pages  int64
	At     time.Time
}

// Target holds what a collection remembers of one item.
type Target struct {
	Key          string
	ETag         string
	LastModified string
	Hash         string // of the last stored body
	Failures     int    // in a row
	Reason       string // of the last failure; "": the last answer was good
	Asked        time.Time
}

// Patience writes to an output again and again while that is away. The log says once that the output
// is away, and once that it is back. It is safe for concurrent use.
type Patience struct {
	Log, Warn func(format string, args ...any)
	Waits     string // what the log says, before the reason, of an output that is away
	away      atomic.Bool
}

// Pauses between two tries to write.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 10 * time.Second
)

// Away tells whether the output was away at the last try.
func (p *Patience) Away() bool { return p.away.Load() }

// Write calls write until the output is not away. When ctx ends, it calls write once more.
func (p *Patience) Write(ctx context.Context, write func(ctx context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := write(ctx)
		if errors.Is(err, context.DeadlineExceeded) { // such as after this process was frozen
			err = errors.Join(ErrAway, err)
		}
		away := errors.Is(err, ErrAway)
		if (away || err == nil) && p.away.Swap(away) != away {
			if away {
				p.Warn("%s: %v", p.Waits, err)
			} else {
				p.Log("the output can be written again")
			}
		}
		if !away || ctx.Err() != nil {
			return err
		}
		_ = clock.Sleep(ctx, pause) // when ctx ends, for one last try
	}
}
