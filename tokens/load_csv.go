package tokens

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
)

// table is what a CSV has.
type table struct {
	rows   []row
	flaws  []flaw
	doubts []flaw
}

// parseCSV reads a table with a header row, which also says what separates the fields.
// What it says is wrong has nothing of the file but the names of columns: where there
// is no header row, the first row has secrets.
func parseCSV(data []byte, column, label string) table {
	text := strings.TrimPrefix(string(data), bom)
	r := reader(text, separatorOf(text, column))
	header, err := r.Read()
	if err != nil {
		return table{flaws: []flaw{broken(err)}}
	}
	line, _ := r.FieldPos(0)
	header = trimmed(slices.Clone(header))
	var t table
	secretAt := t.find(header, column, line)
	labelAt := -1
	if label != "" {
		labelAt = t.find(header, label, line)
	}
	if label == column {
		t.flaws = append(t.flaws, flawf(line, "the label is the column of the secrets, and labels are printed everywhere"))
	}
	if len(t.flaws) > 0 {
		return t
	}
	for {
		fields, err := r.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.flaws = append(t.flaws, broken(err))
			}
			return t
		}
		line, _ := r.FieldPos(0)
		fields = trimmed(fields)
		switch {
		case !slices.ContainsFunc(fields, func(s string) bool { return s != "" }):
		case slices.Equal(fields, header):
			t.doubts = append(t.doubts, flawf(line, "is the header row again, which is skipped"))
		case len(fields) != len(header):
			t.flaws = append(t.flaws, flawf(line, "has %d fields where the header row has %d", len(fields), len(header)))
		default:
			one := row{secret: fields[secretAt], line: line}
			if labelAt >= 0 {
				one.label = fields[labelAt]
			}
			t.rows = append(t.rows, one)
		}
	}
}

func reader(text string, comma rune) *csv.Reader {
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = comma, -1, true
	return r
}

// find is where a column is.
func (t *table) find(header []string, name string, line int) int {
	at := slices.Index(header, name)
	switch {
	case at < 0:
		fault := flawf(line, "the header row has no column %q", name)
		if i := slices.IndexFunc(header, func(s string) bool { return strings.EqualFold(s, name) }); i >= 0 {
			fault.text += ", but " + header[i]
		} else if namesColumns(header) {
			fault.text += "; there are " + strings.Join(header, ", ")
		}
		t.flaws = append(t.flaws, fault)
	case slices.Contains(header[at+1:], name):
		t.flaws = append(t.flaws, flawf(line, "the header row has the column %q twice", name))
	}
	return at
}

func trimmed(fields []string) []string {
	for i, s := range fields {
		fields[i] = trim(s)
	}
	return fields
}

// broken is why a CSV cannot be read.
func broken(err error) flaw {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return flaw{0, "is empty, and should have a header row"}
	case errors.As(err, &parse) && errors.Is(parse.Err, csv.ErrQuote):
		return flawf(parse.Line, `has a " in the wrong place at column %d; a field with a " in it is quoted, and the " doubled`, parse.Column)
	case errors.As(err, &parse) && errors.Is(parse.Err, csv.ErrBareQuote):
		return flawf(parse.Line, `has a " inside of a field that is not quoted, at column %d`, parse.Column)
	case errors.As(err, &parse):
		return flawf(parse.Line, "is not CSV")
	}
	return flaw{0, "is not CSV"}
}
