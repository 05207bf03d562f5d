// Package jobfile reads the file of a job: which requests abide sends by itself, and where their
// records go. It is pure, as package policy is, whose reader of documents it uses.
//
// The usual call:
//
//	job, err := jobfile.Load(policy.Source{Path: "orders.yaml", Data: data, Environ: os.Environ()})
package jobfile

import (
	"fmt"
	"net/url"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
)

// Job is a job file as Load reads it. A backfill asks once for each unit of Range or Items; a
// collection asks every Every.
type Job struct {
	Name     string
	File     string // absolute path of the job file
	Request  Request
	Range    *Range     // nil: the job has Items
	Items    *Items     // nil: the job has a Range, or is a single request
	Paginate Pagination // the zero value: answers have one page
	Records  string     // path of the records in a body, such as data.items; "": the body itself
	ID       []string   // paths in a record that identify it; empty: the hash of the record
	Columns  []Column
	Workers  int
	Tries    int // how often a page is asked for before its unit fails
	Output   Output
	Collect  Collection // zero unless the job says every
}

// ColumnNames returns the names of the job's columns.
func (j *Job) ColumnNames() []string {
	return lists.Map(j.Columns, func(c Column) string { return c.Name })
}

// Request is the request of a unit. URL, Body and the values of Headers may have the
// placeholders {date}, {from}, {to} and {item}.
type Request struct {
	Method      string // in capitals
	URL         string
	Headers     []Header
	Body        string
	Idempotency bool // each unit gets an Idempotency-Key
	Priority    int  // 0, the most urgent, to 7
}

// Header is a header of a job's request. Its value may be a secret.
type Header struct {
	Name  string
	Value policy.Secret
}

// Range is a range of time in steps. Each step is a unit.
type Range struct {
	From, To time.Time // in Zone. To is the start of the last step
	Step     Step
	Zone     *time.Location
}

// Step is the length of a unit of a range: so many hours, days, or months of the calendar.
type Step struct {
	N    int
	Unit string // "h", "d" or "mo"
}

// String returns the step as it is written, such as "1d".
func (s Step) String() string { return fmt.Sprintf("%d%s", s.N, s.Unit) }

// Items are the items of a job. Each item is a unit. One of List, File and Job is set.
type Items struct {
	List   []string
	File   string // an absolute path: a line an item, or a CSV file if Column is set
	Job    Output // the output of another job
	Name   string // of the other job; "": the only job in its output
	Column string // of the CSV file or of the records of the other job, there also "id"
	Query  string // a SELECT with one column, on the other job's output, in place of Column
}

// Styles of pagination.
const (
	NoPages     = ""
	AutoPages   = "auto"
	OffsetPages = "offset"
	PagePages   = "page"
	CursorPages = "cursor"
	LinkPages   = "link"
	NextPages   = "next_url"
)

// Pagination describes the way from an answer to the next page.
type Pagination struct {
	Style     string // see the constants
	Param     string // query parameter that carries the offset, the number of the page or the cursor
	SizeParam string // query parameter that carries Size; "": none
	Size      int    // records of a full page; 0: unknown
	First     int    // number of the first page or the first offset
	Next      string // path of the cursor or of the URL of the next page in the body
	Header    string // header that has the cursor, in place of Next
	More      string // path of a truth value in the body that says whether there is another page; "": none
	Total     string // path of the number of all records in the body; "": none
	MaxPages  int    // a walk of more pages is incomplete
}

// Column is a column of the table of records: a part of the record.
type Column struct {
	Name string
	Path string
}

// Output names the place that records go to. One of both is set.
type Output struct {
	File string        // absolute path of a SQLite file
	URL  policy.Secret // postgres://…
}

// String returns the output without a password.
func (o Output) String() string {
	if o.File != "" {
		return o.File
	}
	u, err := url.Parse(o.URL.Reveal())
	if err != nil {
		return "postgres://…"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}

// Collection describes the rounds of a job.
type Collection struct {
	Every    time.Duration // 0: the job is no collection
	Batch    Batch
	All      bool          // store: all. Otherwise records that have not changed are not stored again
	Keep     time.Duration // how long records are stored; 0: for ever
	Memory   policy.Size   // of answers and records that are not written yet
	Priority []Priority    // of targets; the first that matches counts
}

// Batch puts several items into one request.
type Batch struct {
	Param string // query parameter with the items; "": one item a request
	Size  int
	Join  string // between items
}

// Priority is the priority of the items that match a pattern.
type Priority struct {
	Items    string // a pattern with *
	Priority int
}
