// Package export writes the records of a job as JSON lines, CSV or Parquet.
//
//	err := export.Write(w, export.CSV, job.Description(), job.Read(ctx, since))
//
// Memory does not grow with the number of records.
package export

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// Format is a form of an export.
type Format string

// Formats.
const (
	JSONLines Format = "jsonl"
	CSV       Format = "csv"
	Parquet   Format = "parquet"
)

// Formats are all formats.
var Formats = []Format{JSONLines, CSV, Parquet}

// Write writes records to w, and returns how many there were.
func Write(w io.Writer, f Format, about output.Description, records iter.Seq2[output.Record, error]) (n int64, err error) {
	buffered := bufio.NewWriterSize(w, 256<<10)
	add, end := NewLines(buffered, about.Columns).Add, func() error { return nil }
	switch f {
	case CSV:
		t := &table{writer: csv.NewWriter(buffered)}
		add, end, err = t.Add, t.close, t.writer.Write(slices.Concat([]string{"id", "unit", "fetched_at"}, about.Names()[4:], []string{"body"}))
	case Parquet:
		c := newColumns(buffered, about)
		add, end = c.Add, c.writer.Close
	}
	if err != nil {
		return 0, err
	}
	for r, err := range records {
		if err == nil {
			err = add(&r)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	if err := end(); err != nil {
		return n, err
	}
	return n, buffered.Flush()
}

// Lines writes a JSON object a line.
type Lines struct {
	encoder *json.Encoder
	columns []jobfile.Column
}

// NewLines writes to w, without a buffer.
func NewLines(w io.Writer, columns []jobfile.Column) *Lines {
	l := &Lines{json.NewEncoder(w), columns}
	l.encoder.SetEscapeHTML(false) // a body stays as it came
	return l
}

// line is a record as a JSON object.
type line struct {
	ID      string          `json:"id"`
	Unit    string          `json:"unit"`
	Fetched time.Time       `json:"fetched_at"`
	Columns map[string]any  `json:"columns,omitempty"`
	Body    json.RawMessage `json:"body"`
}

// Add writes a record.
func (l *Lines) Add(r *output.Record) error {
	next := line{ID: r.ID, Unit: r.Unit, Fetched: r.Fetched.UTC(), Columns: map[string]any{}, Body: r.Body}
	for i, c := range l.columns {
		v := r.Columns[i]
		switch {
		case v != nil && c.Type == "json":
			v = json.RawMessage(output.TextOf(v))
		case v != nil && c.Type == "number":
			v = json.Number(output.TextOf(v))
		}
		next.Columns[c.Name] = v
	}
	if err := l.encoder.Encode(next); err != nil {
		return fmt.Errorf("writing the record %q: %w", r.ID, err)
	}
	return nil
}

// table writes CSV.
type table struct {
	writer *csv.Writer
	row    []string
}

// Add writes a record.
func (t *table) Add(r *output.Record) error {
	t.row = append(t.row[:0], r.ID, r.Unit, r.Fetched.UTC().Format(time.RFC3339Nano))
	for _, v := range r.Columns {
		t.row = append(t.row, output.TextOf(cmp.Or(v, any(""))))
	}
	return t.writer.Write(append(t.row, string(r.Body)))
}

func (t *table) close() error {
	t.writer.Flush()
	return t.writer.Error()
}

// rowGroup bounds the rows in memory before Parquet writes them, and rowBytes their bytes.
const (
	rowGroup = 50_000
	rowBytes = 32 << 20
)

// columns writes Parquet. The columns of a job are optional.
type columns struct {
	writer *parquet.GenericWriter[any]
	of     []jobfile.Column
	order  []int // place of each column in a row: id, unit, fetched_at, body, then those of the job
	rows   int
	bytes  int
}

func newColumns(w io.Writer, about output.Description) *columns {
	group := parquet.Group{
		"id": parquet.String(), "unit": parquet.String(), "fetched_at": parquet.Timestamp(parquet.Microsecond), "body": parquet.JSON(),
	}
	of := map[string]func() parquet.Node{
		"integer": func() parquet.Node { return parquet.Int(64) }, "number": func() parquet.Node { return parquet.Leaf(parquet.DoubleType) },
		"boolean": func() parquet.Node { return parquet.Leaf(parquet.BooleanType) }, "json": parquet.JSON,
		"time": func() parquet.Node { return parquet.Timestamp(parquet.Microsecond) }, "text": parquet.String, "": parquet.String,
	}
	for _, column := range about.Columns {
		group[column.Name] = parquet.Optional(of[column.Type]())
	}
	schema := parquet.NewSchema(about.Name, group)
	place := map[string]int{}
	for i, path := range schema.Columns() {
		place[path[0]] = i
	}
	c := &columns{of: about.Columns, writer: parquet.NewGenericWriter[any](w, schema, parquet.Compression(&parquet.Snappy))}
	for _, name := range about.Names() {
		c.order = append(c.order, place[name])
	}
	return c
}

// Add writes a record.
func (c *columns) Add(r *output.Record) error {
	row := make(parquet.Row, len(c.order))
	put := func(i int, v parquet.Value, level int) { row[c.order[i]] = v.Level(0, level, c.order[i]) }
	for i, v := range []any{r.ID, r.Unit, r.Fetched.UnixMicro(), r.Body} {
		put(i, parquet.ValueOf(v), 0)
	}
	for i, v := range r.Columns {
		if v == nil {
			put(4+i, parquet.NullValue(), 0)
			continue
		}
		put(4+i, valueOf(output.TextOf(v), c.of[i].Type), 1)
	}
	if _, err := c.writer.WriteRows([]parquet.Row{row}); err != nil {
		return fmt.Errorf("writing the record %q: %w", r.ID, err)
	}
	c.rows++
	if c.bytes += len(r.Body); c.rows >= rowGroup || c.bytes >= rowBytes {
		c.rows, c.bytes = 0, 0
		return c.writer.Flush()
	}
	return nil
}

// valueOf is a value of a column with a type, which the text is in the output.
func valueOf(text, kind string) parquet.Value {
	switch kind {
	case "integer":
		n, _ := strconv.ParseInt(text, 10, 64)
		return parquet.ValueOf(n)
	case "number":
		n, _ := strconv.ParseFloat(text, 64)
		return parquet.ValueOf(n)
	case "boolean":
		return parquet.ValueOf(text == "true" || text == "1")
	case "time":
		at, _ := time.Parse(output.TimeForm, text)
		return parquet.ValueOf(at.UnixMicro())
	}
	return parquet.ValueOf(text)
}
