package status

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxReport bounds the rows of a report.
const MaxReport = 100_000

// ReportKeys lists what a report can be by.
var ReportKeys = []string{"site", "client", "token", "priority"}

// Report is the answer of /api/v1/report: what became of requests, by site, client, token or
// priority, and which limits held them. More tells that not all is listed.
type Report struct {
	Since  time.Time       `json:"since"`
	Until  time.Time       `json:"until"`
	By     string          `json:"by"`
	Step   string          `json:"step,omitempty"` // "": the whole time is one
	Rows   []ReportRow     `json:"rows"`
	Limits []ReportBlocked `json:"limits"`
	Failures
	Denied []DeniedToken `json:"denied"` // at the time of the report
	More   bool          `json:"more"`
}

// ReportRow tells what became of the requests of one site, client, token or priority from Start
// on, for one step. Bytes are those of bodies, and of https that passed unread.
type ReportRow struct {
	Start    time.Time `json:"start"`
	Name     string    `json:"name"`
	Pool     string    `json:"pool,omitempty"` // of a token
	Requests int64     `json:"requests"`
	Refusals int64     `json:"refusals"` // answers that refused a request because of a limit
	Waited   float64   `json:"waited_seconds"`
	In       int64     `json:"bytes_received"`
	Out      int64     `json:"bytes_sent"`
}

// Title names the row for people.
func (r ReportRow) Title() string {
	if r.Pool != "" {
		return r.Name + " of " + r.Pool
	}
	return cmp.Or(r.Name, "-")
}

// ReportBlocked tells how long a limit of a site held requests from Start on, for one step.
type ReportBlocked struct {
	Start time.Time `json:"start"`
	Site  string    `json:"site"`
	Limit string    `json:"limit"`
	Held  float64   `json:"held_seconds"` // times requests: three for two seconds are six
	Busy  float64   `json:"busy_seconds"` // in which any request was held
}

// Normalize has its bounds, an order, no null lists, and times in UTC.
func (r *Report) Normalize() {
	r.Add("", "", 0) // no null maps
	r.More = r.More || max(len(r.Rows), len(r.Limits), len(r.Denied)) > MaxReport
	r.Rows = listed(r.Rows, MaxReport, func(a, b ReportRow) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(b.Waited, a.Waited), cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.In+b.Out, a.In+a.Out), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Pool, b.Pool))
	})
	r.Limits = listed(r.Limits, MaxReport, func(a, b ReportBlocked) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(b.Held, a.Held), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Limit, b.Limit))
	})
	r.Denied = listed(r.Denied, MaxReport, func(DeniedToken, DeniedToken) int { return 0 }) // as the pools have them
	for i := range r.Rows {
		r.Rows[i].Start = r.Rows[i].Start.UTC()
	}
	for i := range r.Limits {
		r.Limits[i].Start = r.Limits[i].Start.UTC()
		if of, unknown := strings.CutPrefix(r.Limits[i].Limit, HiddenTitle); unknown {
			r.Limits[i].Limit = "refusals" + of + ", by an unknown limit or at random"
		}
	}
}

const (
	maxReportLines = 50 // the most rows, and the most limits, that Describe prints
	shortReport    = 20 // the most rows that stand before the limits
	reportTime     = "2006-01-02 15:04"
)

// Period names the time of the report.
func (r Report) Period() string {
	return r.Since.UTC().Format(reportTime) + " to " + r.Until.UTC().Format(reportTime) + " UTC"
}

// Describe prints the report for people.
func (r Report) Describe(w io.Writer) {
	say(w, "%s", r.Period())
	for _, one := range r.Tables() {
		say(w, "")
		t := Table{}
		t.Add(one.Head...)
		for column := one.Words; column < len(one.Head); column++ {
			t.Numbers = append(t.Numbers, column)
		}
		for _, cells := range one.Rows {
			t.Add(cells...)
		}
		t.Write(w)
		for _, note := range one.Notes {
			say(w, "%s", note)
		}
	}
	DescribeList(w, "failed", r.Sentences("clients"))
	DescribeList(w, "denied", r.Denied)
}

// DescribeList prints a line for each of a list under a heading, if there is any.
func DescribeList[T any](w io.Writer, title string, list []T) {
	if len(list) == 0 {
		return
	}
	heading(w, title)
	for _, one := range list[:min(len(list), maxReportLines)] {
		say(w, "%v", one)
	}
	rest(w, len(list)-maxReportLines, "; --json lists all")
}

// ReportTable is a part of a report for people. The first Words columns have words, the others numbers.
type ReportTable struct {
	Title string
	Head  []string
	Words int
	Rows  [][]string
	Notes []string
}

// Tables are the rows and the limits, without those whose numbers all round to nothing: limits are first where there are
// many rows.
func (r Report) Tables() []ReportTable {
	columns := 6 // without SENT, where no request has a body
	if slices.ContainsFunc(r.Rows, func(row ReportRow) bool { return row.Out > 0 }) {
		columns++
	}
	rows := tabled(r, ReportTable{Title: "Requests by " + r.By, Head: []string{strings.ToUpper(r.By), "REQUESTS", "REFUSED", "WAITED", "PER REQUEST", "RECEIVED", "SENT"}[:columns], Words: 1}, "--csv and --json; those that waited longest are above", r.Rows, func(row ReportRow) (time.Time, []string) {
		each := "-"
		if row.Requests > 0 {
			each = seconds(row.Waited / float64(row.Requests))
		}
		if row.Requests+row.Refusals+row.In+row.Out == 0 && seconds(row.Waited) == "0s" {
			return row.Start, nil
		}
		return row.Start, []string{row.Title(), fmt.Sprint(row.Requests), fmt.Sprint(row.Refusals), seconds(row.Waited), each, Size(uint64(max(row.In, 0))), Size(uint64(max(row.Out, 0)))}[:columns]
	})
	if rows.Notes = append(rows.Notes, "bytes of bodies; abide status also counts headers and TLS"); len(rows.Rows) == 0 {
		rows = ReportTable{Title: rows.Title, Notes: []string{"no request was recorded in this time"}}
	}
	limits := tabled(r, ReportTable{Title: "What held requests", Head: []string{"LIMIT", "SITE", "SUM OF WAITS", "TIME WITH WAITS"}, Words: 2}, "--json", r.Limits, func(b ReportBlocked) (time.Time, []string) {
		if seconds(b.Held) == "0s" && seconds(b.Busy) == "0s" {
			return b.Start, nil
		}
		return b.Start, []string{LimitName(b.Limit), b.Site, seconds(b.Held), seconds(b.Busy)}
	})
	switch {
	case len(limits.Rows) == 0:
		return []ReportTable{rows}
	case len(rows.Rows) > shortReport:
		return []ReportTable{limits, rows}
	}
	return []ReportTable{rows, limits}
}

// tabled fills a table with the first of a list, and the start of each where the report has steps. row returns no cells for
// what is left out; all says where all are listed.
func tabled[T any](r Report, t ReportTable, all string, list []T, row func(T) (time.Time, []string)) ReportTable {
	if r.Step != "" {
		t.Head, t.Words = append([]string{"FROM"}, t.Head...), t.Words+1
	}
	more := 0
	for _, one := range list {
		start, cells := row(one)
		switch {
		case len(cells) == 0:
		case len(t.Rows) == maxReportLines:
			more++
		case r.Step != "":
			t.Rows = append(t.Rows, append([]string{start.Format(reportTime)}, cells...))
		default:
			t.Rows = append(t.Rows, cells)
		}
	}
	if more > 0 {
		t.Notes = []string{"and " + Number(more, "other", "others") + ", listed by " + all}
	}
	return t
}

// CSV writes the rows as comma-separated values, with a head.
func (r Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	columns := 7
	if r.By == "token" {
		columns++
	}
	_ = out.Write([]string{"start", r.By, "requests", "refusals", "waited_seconds", "bytes_received", "bytes_sent", "pool"}[:columns]) // Error has it
	for _, one := range r.Rows {
		_ = out.Write([]string{
			one.Start.Format(time.RFC3339), cell(one.Name), strconv.FormatInt(one.Requests, 10), strconv.FormatInt(one.Refusals, 10),
			strconv.FormatFloat(one.Waited, 'f', -1, 64), strconv.FormatInt(one.In, 10), strconv.FormatInt(one.Out, 10), cell(one.Pool),
		}[:columns])
	}
	out.Flush()
	return out.Error()
}

// cell is a text that no spreadsheet takes for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// seconds is a number of seconds for people, of less than 10 seconds with its milliseconds.
func seconds(n float64) string {
	d := DurationOf(n)
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return Span(d)
}
