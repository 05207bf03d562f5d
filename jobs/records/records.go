// Package records takes the records out of an answer.
//
//	x, err := records.New(job)
//	value, err := records.Read(header.Get("Content-Type"), body)
//	page, err := x.Records(value, 7)
//
// What paths, IDs and columns are is in docs/jobs.md, section Records. In the paths of IDs and columns ^ begins at the parent of
// a record, what its list stands in.
//
// A record without its ID, or with bytes that are no UTF-8, comes as one that is Rejected, with the
// reason; a page of such records alone is an error while the job has had no other. A path of records that leads nowhere is an
// error, unless the answer is empty or null, since nobody knows whether records are missing. A
// record is kept as it came, without the white space: numbers keep each digit, members their
// order. Its hash is that of its members in the order of their names; equal records of one page are told apart by a number.
//
// A column without a type has an int64 or a float64 if nothing of the number is lost, otherwise its digits as a text. null and
// what is missing are nil.
package records

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// Extractor takes the records of a job out of answers. It is safe for concurrent use.
type Extractor struct {
	records Path
	id      []Path
	columns []Path
	of      []jobfile.Column
	up      bool // a path begins at the parent of a record

	accepted atomic.Bool // a record was good
}

// New is the Extractor of a job, all of whose paths it reads.
func New(job *jobfile.Job) (*Extractor, error) {
	var faults []error
	parse := func(key, text string) Path {
		p, err := ParsePath(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
		}
		return p
	}
	ofRecord := func(key, text string) Path {
		if jobfile.HasPlaceholder(text) {
			return Path{}
		}
		return parse(key, text)
	}
	x := &Extractor{records: parse("records", job.Records), of: job.Columns}
	x.id = lists.Map(job.ID, func(text string) Path { return ofRecord("id", text) })
	x.columns = lists.Map(job.Columns, func(c jobfile.Column) Path { return ofRecord("columns: "+c.Name, c.Path) })
	pages := job.Paginate
	for _, one := range [][2]string{{"next", pages.Next}, {"more", pages.More}, {"total", pages.Total}} {
		parse("paginate: "+one[0], one[1])
	}
	for _, rule := range job.Errors {
		parse("errors", rule.Path)
	}
	x.up = slices.ContainsFunc(slices.Concat(x.id, x.columns), func(p Path) bool { return p.up > 0 })
	return x, errors.Join(faults...)
}

// Columns returns the columns of a record and its parents, nil for those that are texts about the unit, or of a parent that it
// has not. The error follows "record 1".
func (x *Extractor) Columns(v Value, parents []Value) (list []any, err error) {
	for i, path := range x.columns {
		part, ok := path.of(v, parents)
		if path.text == "" || !ok || part.Null() {
			list = append(list, nil)
			continue
		}
		value, fits := typed(part, x.of[i].Type)
		if list = append(list, value); !fits {
			err = fmt.Errorf("has %s at %q, which is no %s", shorten.To(mostInError, string(part)), path, x.of[i].Type)
		}
	}
	return list, err
}

// ErrNoList is for an answer without records where the job says that they are.
var ErrNoList = errors.New("no")

// Records returns the records of an answer, without Unit and Fetched. The page is the number
// of the answer in its unit, from 1: errors name it. parts are those of IDs that are about the unit: see units.Request.
func (x *Extractor) Records(answer Value, page int, parts []any) ([]output.Record, error) {
	v, ok := x.records.of(answer, nil)
	if !ok && !answer.Null() {
		return nil, fmt.Errorf("page %d has %w %q%s: write the path of the records as \"records\"", page, ErrNoList, x.records, thereIs(answer))
	}
	switch v.kind() {
	case 0, 'n':
		return nil, nil
	case '{', '[':
	default:
		return nil, fmt.Errorf("page %d has no array or object of records at %q, but %s: write the path of the records as \"records\"", page, x.records, shorten.To(mostInError, string(v)))
	}
	elements := v.elements()
	list := make([]output.Record, 0, len(elements))
	rejected, equal := 0, map[string]int{}
	add := func(part Value, parents []Value) {
		r := x.record(part, parents, parts, len(list)+1, page)
		switch {
		case r.Rejected != "":
			rejected++
		case len(x.id) == 0: // lines of several orders, or of a report, may be equal
			if equal[r.ID]++; equal[r.ID] > 1 {
				r.ID += "-" + strconv.Itoa(equal[r.ID])
			}
		}
		list = append(list, r)
	}
	if x.up {
		each(x.records.steps, []Value{answer}, add)
	} else {
		for _, part := range elements {
			add(part, nil)
		}
	}
	if rejected < len(list) {
		x.accepted.Store(true)
	} else if rejected > 0 && !x.accepted.Load() { // "id" is wrong rather than all records
		return nil, errors.New(list[0].Rejected)
	}
	return list, nil
}

// Whole tells whether an answer is itself the record.
func (x *Extractor) Whole(answer Value) bool {
	return len(x.records.steps) == 0 && answer.kind() == '{'
}

func (x *Extractor) record(v Value, parents []Value, unit []any, n, page int) output.Record {
	id, err := x.idOf(v, parents, unit)
	columns, unfit := x.Columns(v, parents)
	r := output.Record{ID: id, Body: v, Columns: columns}
	switch {
	case unfit != nil:
		r.Rejected = fmt.Sprintf("record %d of page %d %v: write another type of the column, or leave it out", n, page, unfit)
	case err != nil:
		r.Rejected = fmt.Sprintf("record %d of page %d %v: write as \"id\" what identifies each record, or leave \"id\" out, so that the hash of a record does", n, page, err)
	case !utf8.Valid(v):
		r.Rejected = fmt.Sprintf("record %d of page %d is not UTF-8", n, page)
	}
	if r.Rejected != "" {
		r.ID = shorten.Hash(sha256.Size, v)
	}
	return r
}

// idOf is the ID of a record. The error follows "record 1".
func (x *Extractor) idOf(v Value, parents []Value, unit []any) (string, error) {
	if len(x.id) == 0 {
		return hash(v, unit)
	}
	parts := make([]string, len(x.id))
	for i, path := range x.id {
		if i < len(unit) && unit[i] != nil {
			parts[i] = unit[i].(string)
			continue
		}
		part, ok := path.of(v, parents)
		if !ok {
			return "", fmt.Errorf("has no %q%s", path, thereIs(v))
		}
		text, ok := part.Text()
		if !ok || text == "" && len(x.id) == 1 {
			return "", fmt.Errorf("has %s at %q, which is no text or number", shorten.To(mostInError, string(part)), path)
		}
		parts[i] = text
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	var joined bytes.Buffer
	e := json.NewEncoder(&joined)
	e.SetEscapeHTML(false)
	err := e.Encode(parts)
	return strings.TrimSuffix(joined.String(), "\n"), err
}

// hash is the SHA-256 hash of a record whose members are in the order of their names, and of its unit, if there is one.
func hash(v Value, unit []any) (string, error) {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	var decoded any
	if err := d.Decode(&decoded); err != nil {
		return "", fmt.Errorf("is no JSON (%w)", err)
	}
	canonical, _ := json.Marshal(decoded) // what was decoded has no error
	for _, text := range unit {
		canonical = fmt.Appendf(canonical, "\n%s", text)
	}
	return shorten.Hash(sha256.Size, canonical), nil
}

// typed is a value of a column, which is not null, as a type of a job file. fits is false, and there is none, if it is none
// of that type.
func typed(v Value, kind string) (value any, fits bool) {
	text, isText := v.Text()
	switch value = column(v); kind {
	case "text":
		value, fits = output.TextOf(value), true
	case "json":
		value, fits = string(v), isKept(v)
	case "integer":
		value = number(text)
		if f, isFloat := value.(float64); isFloat && f == math.Trunc(f) && math.Abs(f) < 1<<53 { // as 12.0
			value = int64(f)
		}
		_, fits = value.(int64)
	case "number":
		if fits = isText && json.Valid([]byte(text)) && Value(text).Number() && isKeptNumber(text); fits {
			value = number(text)
		}
	case "boolean":
		value, fits = text == "true" || text == "1", slices.Contains([]string{"true", "false", "1", "0"}, text)
	case "time":
		at, err := timeOf(text, v.Number())
		at = output.Precise(at)
		value, fits = at.Format(output.TimeForm), err == nil && at.Year() >= 1 && at.Year() <= 9999
	default:
		fits = true
	}
	if !fits {
		value = nil
	}
	return value, fits
}

// mostDigits bounds a number of a column in bytes.
const mostDigits = 1000

// isKeptNumber tells whether both databases keep a number as one.
func isKeptNumber(text string) bool {
	n, err := strconv.ParseFloat(text, 64)
	return err == nil && len(text) <= mostDigits && (n != 0 || !strings.ContainsAny(text, "eE"))
}

// The JSON of PostgreSQL that is not kept as a text has no NUL, and no half of a pair of surrogates: what unkept finds, once
// all other escapes are gone that escapes finds.
var (
	escapes = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\[^u]`)
	unkept  = regexp.MustCompile(`\\u(?:0000|[dD][89a-fA-F])`)
)

// isKept tells whether both databases keep a value as JSON.
func isKept(v Value) bool {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	for {
		token, err := d.Token()
		if n, isNumber := token.(json.Number); isNumber && !isKeptNumber(n.String()) {
			return false
		}
		if err != nil {
			return err == io.EOF && !unkept.Match(escapes.ReplaceAll(v, nil))
		}
	}
}

// timeOf reads a time: a text, in UTC where it has no zone, or seconds or milliseconds since 1970. A text of few digits, such as
// 20250131, is no such number.
func timeOf(text string, isNumber bool) (at time.Time, err error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(n) < mostSeconds*1000 && (isNumber || len(text) > len("20250131")) {
		if math.Abs(n) < mostSeconds {
			n *= 1000
		}
		return time.UnixMicro(int64(n * 1000)), nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04:05", time.DateTime, "2006-01-02T15:04:05Z0700", time.RFC1123, time.RFC1123Z} {
		if at, err = time.Parse(form, text); err == nil {
			break
		}
	}
	return at, err
}

// mostSeconds bounds the seconds since 1970 of a time: a larger number is one of milliseconds.
const mostSeconds = 1e11

// column is a value of a column without a type.
func column(v Value) any {
	switch k := v.kind(); {
	case k == 't' || k == 'f':
		return k == 't'
	case v.Number():
		return number(string(v))
	}
	if text, ok := v.Text(); ok {
		return text
	}
	return string(v)
}

// number is an int64 or a float64 that is written with the same digits, or the text itself.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !strings.ContainsAny(text, ".eE") || digits(text) != digits(strconv.FormatFloat(f, 'e', -1, 64)) {
		return text
	}
	return f
}

// digits are the digits of a number that count, without its sign, point and exponent.
func digits(text string) string {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		text = text[:i]
	}
	text = strings.Replace(strings.TrimPrefix(text, "-"), ".", "", 1)
	return strings.Trim(text, "0")
}

// Digest tells the records of a page from those of another page, by their IDs.
func Digest(list []output.Record) string {
	var ids []byte
	for i := range list {
		ids = fmt.Appendf(ids, "%d:%s", len(list[i].ID), list[i].ID)
	}
	return shorten.Hash(16, ids)
}

// mostInError is the longest text of an answer in an error, and mostThere that of a list of paths.
const mostInError, mostThere = 41, 300

// thereIs says which lists and other values a value has, for errors.
func thereIs(v Value) string {
	if v.kind() == '[' {
		return ", but is an array"
	}
	names := append(lists.Map(Lists(v), func(l List) string { return l.Path }), v.Leaves(mostPaths)...)
	if len(names) == 0 {
		return ""
	}
	return " (there is " + shorten.To(mostThere, strings.Join(names, ", ")) + ")"
}
