// Package units makes the units of a job from its range or its items, and the request of each.
//
//	for u, err := range units.Of(ctx, job, database, false) {
//		r, err := units.Fill(job, u) // the request with its placeholders replaced
//	}
//
// A unit is known by its key: the start of a step of the range, or the item, or both.
package units

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// Most bounds the number of units of a job.
const Most = 10_000_000

// single is the key of the only unit of a job without range and items.
const single = "all"

// Of yields the units of a job, each once. An error ends them. database has its records, nil before the
// first run. all has each fetched again.
func Of(ctx context.Context, job *jobfile.Job, database *output.Output, all bool) iter.Seq2[output.Unit, error] {
	return func(yield func(output.Unit, error) bool) {
		n, ended := int64(0), false
		names := job.ItemValues()
		err := each(ctx, job, database, func(key string, values ...string) bool {
			var err error
			switch {
			case !utf8.ValidString(key):
				err = fmt.Errorf("item %d, %q, is not UTF-8", n+1, key)
			case n == Most:
				err = fmt.Errorf("the job has more than %d units; use a longer step, or several jobs", Most)
			}
			u := output.Unit{Key: key, Place: n, Again: all || isAgain(job, key)}
			if len(values) > 0 {
				u.Values = make(map[string]string, len(values))
			}
			for i, value := range values {
				u.Values[names[i]] = value
			}
			ended = !yield(u, err) || err != nil
			n++
			return !ended
		})
		if err != nil && !ended {
			yield(output.Unit{}, err)
		}
	}
}

// each yields the keys of the units of a job with the values of job.ItemValues, until yield returns false. With since a
// key ends with the value of {since}.
func each(ctx context.Context, job *jobfile.Job, database *output.Output, yield func(string, ...string) bool) error {
	if job.Since == nil {
		return eachItem(ctx, job, yield)
	}
	since, err := sinceOf(ctx, job, database)
	if err != nil {
		return err
	}
	return eachItem(ctx, job, func(item string, values ...string) bool {
		if job.Items == nil {
			return yield(cmp.Or(since[""], job.Since.From))
		}
		return yield(item+sinceMark+cmp.Or(since[item], job.Since.From), values...)
	})
}

// sinceMark stands between an item and the value of {since} in the key of a unit.
const sinceMark = " since "

// itemOf takes the key of a unit apart.
func itemOf(key string) (item, since string) {
	if i := strings.LastIndex(key, sinceMark); i >= 0 {
		return key[:i], key[i+len(sinceMark):]
	}
	return "", key
}

// About returns what a job names of the key of a unit: with since the item alone.
func About(job *jobfile.Job) func(key string) string {
	return func(key string) string {
		if job.Since == nil {
			return key
		}
		item, _ := itemOf(key)
		return item
	}
}

// sinceOf returns, for each item of a job, the value of {since}: that of a unit that is not done, so that nothing is asked for
// twice, or the greatest value of the column of since less the lag. A time after now is wrong, and would hide what comes.
func sinceOf(ctx context.Context, job *jobfile.Job, database *output.Output) (map[string]string, error) {
	greatest := map[string]string{}
	if database == nil {
		return greatest, nil
	}
	of := lists.Find(job.Columns, func(c *jobfile.Column) bool { return c.Name == job.Since.Column })
	for row, err := range database.Greatest(ctx, job.Name, *of, job.Since.IsNumber(), time.Now().UTC().Format(time.RFC3339)) {
		text := ""
		if err == nil {
			text, err = lessLag(job.Since, row[0])
		}
		if err != nil {
			return nil, fmt.Errorf("since: the column %s: %w", job.Since.Column, err)
		}
		item, _ := itemOf(row[1])
		if was, ok := greatest[item]; !ok || isLess(job.Since, was, text) {
			greatest[item] = text
		}
	}
	for row, err := range database.Query(ctx, "SELECT key FROM "+output.Quote(job.Name+"_units")+" WHERE state <> 'done'") {
		if err != nil {
			return nil, err
		}
		item, since := itemOf(row[0])
		greatest[item] = since
	}
	return greatest, nil
}

// isLess tells whether a value of the column of since is less than another.
func isLess(s *jobfile.Since, a, b string) bool {
	if !s.IsNumber() {
		return a < b
	}
	x, _ := new(big.Rat).SetString(a) // the database gave numbers
	y, _ := new(big.Rat).SetString(b)
	return x.Cmp(y) < 0
}

// lessLag is a value of the column of since less the lag, in the form that it has.
func lessLag(s *jobfile.Since, text string) (string, error) {
	if n, ok := new(big.Rat).SetString(text); ok && s.IsNumber() {
		digits, _ := n.Sub(n, big.NewRat(int64(s.Lag.N), 1)).FloatPrec()
		return n.FloatString(digits), nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04:05", time.DateTime} {
		if at, err := time.Parse(form, text); err == nil {
			return s.Lag.Before(at).Format(form), nil
		}
	}
	return "", fmt.Errorf("%q is no number, or no time such as 2025-01-31T10:00:00Z", text)
}

// isAgain tells whether a run fetches the unit of a key again: with since it does, as nothing may have come since the run before.
func isAgain(job *jobfile.Job, key string) bool {
	r := job.Range
	if r == nil || r.Again.N == 0 {
		return job.Since != nil
	}
	from, _, err := stepOf(r, key[strings.LastIndex(key, stepMark)+1:])
	return err == nil && from.After(r.Again.Before(r.To))
}

// starts are the starts of the steps of a range.
func starts(r *jobfile.Range) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for i, at := 0, step(r, 0); !at.After(r.To); i++ {
			next := step(r, i+1)
			if next.After(at) && !yield(at) { // a zone left a day out when it crossed the date line
				return
			}
			at = next
		}
	}
}

// step is the start of step i of a range.
func step(r *jobfile.Range, i int) time.Time {
	n := i * r.Step.N
	switch r.Step.Unit {
	case "min", "h":
		return r.From.Add(time.Duration(i) * r.Step.Clock())
	case "mo": // the last day of a month stays the last day
		y, m, d := r.From.Date()
		last := time.Date(y, m+time.Month(n)+1, 0, 0, 0, 0, 0, time.UTC).Day()
		return onDay(r, y, m+time.Month(n), min(d, last))
	}
	y, m, d := r.From.Date()
	return onDay(r, y, m, d+n)
}

// onDay is the time of day of the start of a range, on another day. Where clocks skip that time,
// it is the moment at which they do, which belongs to the day and not to the one before.
func onDay(r *jobfile.Range, y int, m time.Month, d int) time.Time {
	hour, minute, second := r.From.Clock()
	at := time.Date(y, m, d, hour, minute, second, 0, r.Zone)
	_, offset := at.Zone()
	if at.Add(time.Duration(offset) * time.Second).Before(time.Date(y, m, d, hour, minute, second, 0, time.UTC)) {
		_, at = at.ZoneBounds()
	}
	return at
}

// keyOf is the key of a step.
func keyOf(r *jobfile.Range, at time.Time) string { return at.Format(formOf(r)) }

// formOf is the form of the keys of steps.
func formOf(r *jobfile.Range) string {
	if r.Step.Clock() > 0 {
		return time.RFC3339
	}
	return time.DateOnly
}

// stepOf is the start of the step with a key, and that of the next one. The range may have begun elsewhere when the unit was made.
func stepOf(r *jobfile.Range, key string) (from, next time.Time, err error) {
	at, err := time.ParseInLocation(formOf(r), key, r.Zone)
	if err != nil {
		return at, at, err
	}
	most := int(at.Sub(r.From) / cmp.Or(r.Step.Clock(), shortestDay))
	least := min(most, 0) - 1
	i := least + sort.Search(max(most, 0)+2-least, func(n int) bool { return !step(r, least+n).Before(at) }) // where clocks skip a midnight, at is of the day before
	if from = step(r, i); keyOf(r, from) == key {
		return from, step(r, i+1), nil
	}
	began := *r
	began.From = at
	return at, step(&began, 1), nil
}

// shortestDay is less than any day has, also where clocks change.
const shortestDay = 20 * time.Hour

// Request is the request of a unit.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte
	Ends   time.Time // of the step of a range; zero: it is none

	Parts   []any // of the ID of a record: texts about the unit; nil: of the record itself. Without paths, the unit
	columns []any // of the records: texts about the unit; nil: of the record itself

	key string // of idempotency, of the unit; "": none, or the job's own
}

// formType is the content type of a form.
const formType = "application/x-www-form-urlencoded"

// Fill is the request of a unit, with its placeholders replaced.
func Fill(job *jobfile.Job, u output.Unit) (*Request, error) {
	value, ends, err := values(job, u)
	if err != nil {
		return nil, err
	}
	r := &Request{Method: job.Request.Method, Header: http.Header{}, Ends: ends}
	path, query, hasQuery := strings.Cut(job.Request.URL, "?")
	text := jobfile.ReplacePlaceholders(path, func(name, form string) string {
		escaped := url.PathEscape(value(name, form))
		if escaped == "" {
			err = fmt.Errorf("the unit %s has no value {%s} for the path of its URL", u.Key, name)
		}
		if form == jobfile.AsPath {
			escaped = strings.ReplaceAll(escaped, "%2F", "/")
		}
		return escaped
	})
	if err == nil && dotSegments(text) > dotSegments(path) {
		err = fmt.Errorf("the unit %s cannot stand in a path, where . and .. mean other directories: put it in the query", u.Key)
	}
	if err != nil {
		return nil, err
	}
	if hasQuery {
		text += "?" + jobfile.ReplacePlaceholders(query, func(name, form string) string { return url.QueryEscape(value(name, form)) })
	}
	if r.URL, err = url.Parse(text); err != nil {
		return nil, fmt.Errorf("the URL of the unit %s cannot be read: %w", u.Key, err)
	}
	for _, h := range job.Request.Headers {
		filled := jobfile.ReplacePlaceholders(h.Value.Reveal(), value)
		if strings.ContainsAny(filled, "\r\n\x00") {
			return nil, fmt.Errorf("the header %s of the unit %s would have a line break", h.Name, u.Key)
		}
		r.Header.Set(h.Name, filled)
	}
	if job.Request.Body != "" {
		isJSON := json.Valid([]byte(jobfile.ReplacePlaceholders(job.Request.Body, func(string, string) string { return "1" })))
		isForm := !isJSON && (job.Paginate.In == jobfile.InBody || strings.HasPrefix(r.Header.Get("Content-Type"), formType))
		r.Body = []byte(jobfile.ReplacePlaceholders(job.Request.Body, func(name, form string) string {
			if isJSON {
				text, _ := json.Marshal(value(name, form)) // texts have no error
				return string(text[1 : len(text)-1])
			}
			if isForm {
				return url.QueryEscape(value(name, form))
			}
			return value(name, form)
		}))
		if r.Header.Get("Content-Type") == "" && (isJSON || isForm) {
			r.Header.Set("Content-Type", map[bool]string{true: "application/json", false: formType}[isJSON])
		}
	}
	if job.Request.Idempotency && r.Header.Get("Idempotency-Key") == "" {
		// The same for every attempt of the unit, after a restart too. HTTP adds the page.
		r.key = shorten.Hash(16, Fingerprint(job)+"\x00"+job.Name+"\x00"+u.Key)
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "abide")
	}
	ofUnit := func(text string) any {
		if !jobfile.HasPlaceholder(text) {
			return nil
		}
		return jobfile.ReplacePlaceholders(text, value)
	}
	r.columns = lists.Map(job.Columns, func(c jobfile.Column) any { return ofUnit(c.Path) })
	if r.Parts = lists.Map(job.ID, ofUnit); job.HashesUnit() {
		r.Parts = []any{About(job)(u.Key)}
	}
	return r, nil
}

// Complete sets the columns of a record that are texts about its unit.
func (r *Request) Complete(record *output.Record) {
	for i, text := range r.columns {
		if text != nil && text != "" {
			record.Columns[i] = text
		}
	}
}

// dotSegments counts the parts . and .. of a path, which clients and servers remove.
func dotSegments(path string) int {
	return len(lists.Only(strings.Split(path, "/"), func(part string) bool { return part == "." || part == ".." }))
}

// HTTP is the request as net/http has it, for a URL and a body of the unit: its own, or those of a page. It asks whether that has
// changed since an answer with an ETag or a Last-Modified.
func (r *Request) HTTP(u *url.URL, body []byte, etag, modified string) (*http.Request, error) {
	var reader io.Reader
	if len(body) > 0 {
		reader = bytes.NewReader(body)
	}
	sent, err := http.NewRequest(r.Method, u.String(), reader)
	if err != nil {
		return nil, err
	}
	sent.Header = r.Header.Clone()
	for name, value := range map[string]string{"If-None-Match": etag, "If-Modified-Since": modified} {
		if value != "" {
			sent.Header.Set(name, value)
		}
	}
	if r.key != "" { // each page is another request
		page := u.String()
		if !bytes.Equal(body, r.Body) {
			page += " " + string(body)
		}
		sent.Header.Set("Idempotency-Key", shorten.Hash(16, r.key+page))
	}
	return sent, nil
}

// stepMark stands between an item and the step of the range in the key of a unit. No step has it.
const stepMark = " "

// values are the values of the placeholders of a unit, and the end of its step.
func values(job *jobfile.Job, u output.Unit) (value func(name, form string) string, ends time.Time, err error) {
	item, since, date := u.Key, "", u.Key
	switch {
	case job.Since != nil:
		item, since = itemOf(u.Key)
	case job.Range != nil && job.Items != nil:
		i := max(strings.LastIndex(u.Key, stepMark), 0)
		item, date = u.Key[:i], strings.TrimPrefix(u.Key[i:], stepMark)
	}
	texts, times := map[string]string{"item": item, "since": since}, map[string]time.Time{}
	for name, text := range u.Values {
		texts["item."+name] = text
	}
	if job.Range != nil {
		from, next, err := stepOf(job.Range, date)
		if err != nil {
			return nil, next, fmt.Errorf("the unit %s is no step of the range", u.Key)
		}
		times["date"], times["from"], times["to"] = from, from, next
	}
	return func(name, wanted string) string {
		at, isTime := times[name]
		if !isTime {
			return texts[name]
		}
		switch wanted {
		case "":
			return at.Format(formOf(job.Range))
		case "unix":
			return strconv.FormatInt(at.Unix(), 10)
		case "unix_ms":
			return strconv.FormatInt(at.UnixMilli(), 10)
		case "rfc3339":
			return at.Format(time.RFC3339)
		}
		return at.Format(wanted)
	}, times["to"], nil
}

// Described are the parts of a job that Fingerprint is about, a line each.
func Described(job *jobfile.Job) string {
	step := ""
	if r := job.Range; r != nil {
		step = fmt.Sprintf("%s from %s", r.Step, r.From.Format("2006-01-02 15:04 MST"))
	}
	body, _ := json.Marshal(job.Request.Body) // texts have no error
	return fmt.Sprintf("the request %s %s\nthe body %s\nthe records %q\nthe id %q\nthe step %s", job.Request.Method, job.Request.URL, shorten.To(200, string(body)), job.Records, cmp.Or(strings.Join(job.ID, ", "), "hash"), step)
}

// Fingerprint hashes what must not change while records are kept: with another request, step or
// time zone the same unit would have other records, and with another id the same record another
// row.
func Fingerprint(job *jobfile.Job) string {
	parts := []any{job.Request.Method, job.Request.URL, job.Request.Body, job.Records, job.ID, job.Collect.Every > 0}
	if job.HashesUnit() {
		parts = append(parts, "unit")
	}
	if r := job.Range; r != nil {
		parts = append(parts, r.Step.String(), r.Zone.String())
		if r.Step.Clock() == 0 { // the key of a day or a month does not have the time of day
			parts = append(parts, r.From.Format(time.TimeOnly))
		}
		if r.Step.Unit == "mo" {
			parts = append(parts, r.From.Day())
		}
	}
	text, _ := json.Marshal(parts) // texts have no error
	return shorten.Hash(16, text)
}
