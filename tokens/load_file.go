package tokens

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// fileSource reads a file: a CSV table if the pool names a column, otherwise one secret per
// line. The value is the path.
type fileSource string

func (f fileSource) read(_ context.Context, l *loader) {
	path := string(f)
	l.source = path
	data, open, err := readFile(path, maxFileBytes)
	if err != nil {
		l.fail(0, "%v", err)
		return
	}
	if open != "" {
		l.warn(0, "%s may read the secrets in it; chmod 600 is for you alone", open)
	}
	l.text(data)
}

// text reads the content of a file.
func (l *loader) text(data []byte) {
	if l.pool.Column == "" {
		if fault, ok := tableFault(data); !ok {
			l.fail(fault.line, "%s", fault.text)
			return
		}
		for _, r := range parseLines(data) {
			l.add(r)
		}
		return
	}
	table := parseCSV(data, l.pool.Column, l.pool.Label, l.pool.Account)
	for _, r := range table.rows {
		l.add(r)
	}
	for _, f := range table.faults {
		l.fail(f.line, "%s", f.text)
	}
	for _, f := range table.warnings {
		l.warn(f.line, "%s", f.text)
	}
}

// parseLines reads one secret per line. Blank lines and lines that begin with # are
// skipped.
func parseLines(data []byte) []rawToken {
	var rows []rawToken
	line := 0
	for s := range strings.SplitSeq(strings.TrimPrefix(string(data), bom), "\n") {
		line++
		if s = trim(s); s == "" || s[0] == '#' {
			continue
		}
		rows = append(rows, rawToken{secret: s, line: line})
	}
	return rows
}

// lineFault is a fault in one line of a file.
type lineFault struct {
	line int
	text string
}

func lineFaultf(line int, format string, args ...any) lineFault {
	return lineFault{line, fmt.Sprintf(format, args...)}
}

// dirSource reads a directory with one secret per file, as Kubernetes and Docker make it.
// The value is the path.
type dirSource string

func (d dirSource) read(ctx context.Context, l *loader) {
	path := string(d)
	l.source = path
	files, err := os.ReadDir(path)
	if err != nil {
		l.fail(0, "%v", withoutPath(err))
		return
	}
	var readable, by string
	count := 0
	for _, f := range files {
		if ctx.Err() != nil { // Load reports it
			return
		}
		name := f.Name()
		if strings.HasPrefix(name, ".") { // also skips ..data, the directory behind Kubernetes' links
			continue
		}
		l.source = filepath.Join(path, name)
		if info, err := os.Stat(l.source); err == nil && info.IsDir() {
			continue
		}
		data, open, err := readFile(l.source, maxSecretBytes+64)
		if err != nil {
			l.fail(0, "%v", err)
			continue
		}
		if open != "" {
			readable, by = name, open
			count++
		}
		l.add(rawToken{label: name, secret: trim(string(data))})
	}
	l.source = path
	switch {
	case count == 1:
		l.warn(0, "%s may read the secret in %s; mode 0400 is for you alone", by, readable)
	case count > 1:
		l.warn(0, "%s may read the secrets in %d files, such as %s; mode 0400 (defaultMode in Kubernetes) is for you alone", by, count, readable)
	}
}

// readFile reads a file of at most the given size. others names the users beside the owner
// who may read the file; "" is none.
func readFile(path string, most int64) (data []byte, others string, err error) {
	info, err := os.Stat(path) // before opening: opening a pipe would block
	if err != nil {
		return nil, "", withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, "", errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", withoutPath(err)
	}
	defer f.Close()
	if data, err = io.ReadAll(io.LimitReader(f, most+1)); err != nil {
		return nil, "", withoutPath(err)
	}
	if int64(len(data)) > most {
		return nil, "", fmt.Errorf("is larger than %d bytes", most)
	}
	if len(data) >= 2 && (data[0] == 0xff && data[1] == 0xfe || data[0] == 0xfe && data[1] == 0xff) {
		return nil, "", errors.New("is UTF-16; save it as UTF-8")
	}
	return data, otherReaders(info.Mode()), nil
}

// otherReaders names the users beside the owner who may read a file with this mode.
func otherReaders(mode fs.FileMode) string {
	switch {
	case runtime.GOOS == "windows": // its file modes do not tell it
		return ""
	case mode&0o004 != 0:
		return "everybody on this machine"
	case mode&0o040 != 0:
		return "its group"
	}
	return ""
}

// withoutPath returns an error without its path, which the fault already has.
func withoutPath(err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist")
	case errors.As(err, &at):
		return fmt.Errorf("cannot be read: %w", at.Err)
	}
	return err
}

// table is the content of a CSV file.
type table struct {
	rows     []rawToken
	faults   []lineFault
	warnings []lineFault
}

// parseCSV reads a table with a header row. The header row also determines the separator.
// Faults quote only column names: in a file without a header row, the first row has
// secrets.
func parseCSV(data []byte, column, label, account string) table {
	text := strings.TrimPrefix(string(data), bom)
	r := csvReader(text, separatorOf(text, column))
	header, err := r.Read()
	if err != nil {
		return table{faults: []lineFault{csvFault(err)}}
	}
	line, _ := r.FieldPos(0)
	header = trimmed(slices.Clone(header))
	var t table
	secretAt := t.find(header, column, line)
	labelAt := -1
	if label != "" {
		labelAt = t.find(header, label, line)
	}
	accountAt := -1
	if account != "" {
		accountAt = t.find(header, account, line)
	}
	if label == column {
		t.faults = append(t.faults, lineFaultf(line, "the label is the column of the secrets, and labels are printed everywhere"))
	}
	if len(t.faults) > 0 {
		return t
	}
	for {
		fields, err := r.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.faults = append(t.faults, csvFault(err))
			}
			return t
		}
		line, _ := r.FieldPos(0)
		fields = trimmed(fields)
		switch {
		case !slices.ContainsFunc(fields, func(s string) bool { return s != "" }):
		case slices.Equal(fields, header):
			t.warnings = append(t.warnings, lineFaultf(line, "is the header row again, which is skipped"))
		case len(fields) != len(header):
			t.faults = append(t.faults, lineFaultf(line, "has %d fields where the header row has %d", len(fields), len(header)))
		default:
			token := rawToken{secret: fields[secretAt], line: line}
			if labelAt >= 0 {
				token.label = fields[labelAt]
			}
			if accountAt >= 0 {
				token.account = fields[accountAt]
			}
			t.rows = append(t.rows, token)
		}
	}
}

func csvReader(text string, comma rune) *csv.Reader {
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = comma, -1, true
	return r
}

// find returns the index of a column, or -1 and adds a fault.
func (t *table) find(header []string, name string, line int) int {
	at := slices.Index(header, name)
	switch {
	case at < 0:
		fault := lineFaultf(line, "the header row has no column %q", name)
		if i := slices.IndexFunc(header, func(s string) bool { return strings.EqualFold(s, name) }); i >= 0 {
			fault.text += ", but " + header[i]
		} else if namesColumns(header) {
			fault.text += "; there are " + strings.Join(header, ", ")
		}
		t.faults = append(t.faults, fault)
	case slices.Contains(header[at+1:], name):
		t.faults = append(t.faults, lineFaultf(line, "the header row has the column %q twice", name))
	}
	return at
}

func trimmed(fields []string) []string {
	for i, s := range fields {
		fields[i] = trim(s)
	}
	return fields
}

// csvFault tells why a CSV file cannot be read.
func csvFault(err error) lineFault {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return lineFault{0, "is empty, and should have a header row"}
	case errors.As(err, &parse) && errors.Is(parse.Err, csv.ErrQuote):
		return lineFaultf(parse.Line, `has a " in the wrong place at column %d; a field with a " in it is quoted, and the " doubled`, parse.Column)
	case errors.As(err, &parse) && errors.Is(parse.Err, csv.ErrBareQuote):
		return lineFaultf(parse.Line, `has a " inside of a field that is not quoted, at column %d`, parse.Column)
	case errors.As(err, &parse):
		return lineFaultf(parse.Line, "is not CSV")
	}
	return lineFault{0, "is not CSV"}
}

// separators are the possible field separators of a table.
var separators = []rune{',', ';', '\t', '|'}

// separatorOf returns the separator of a table: the one with which the header row has the
// wanted column, otherwise the one with which the header row has most fields.
func separatorOf(text, column string) rune {
	best, most := separators[0], 0
	for _, one := range separators {
		header, _ := csvReader(text, one).Read()
		if column != "" && slices.Contains(trimmed(header), column) {
			return one
		}
		if len(header) > most {
			best, most = one, len(header)
		}
	}
	return best
}

var (
	// columnName matches a possible name of a column. A secret may match, too.
	columnName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9 _.-]{0,39}$`)
	// columnWord matches words that are usual in names of columns.
	columnWord = regexp.MustCompile(`(?i)(^|[ _.-])(access|account|api|app|auth|bearer|client|comment|consumer|created|credentials?|email|enabled|handle|id|key|label|login|name|note|owner|password|pass|screen|secret|status|tokens?|user|username)([ _.-]|$)`)
)

// namesColumns tells whether a row is certainly a header row, which may be quoted: all
// names differ, and at least one has a usual word.
func namesColumns(row []string) bool {
	for i, one := range row {
		if !columnName.MatchString(one) || slices.Contains(row[:i], one) {
			return false
		}
	}
	return slices.ContainsFunc(row, columnWord.MatchString)
}

// tableFault tells why a file cannot be read as one secret per line, because it is a table.
// ok is true for a list.
func tableFault(data []byte) (fault lineFault, ok bool) {
	rows := parseLines(data)
	if len(rows) < 2 {
		return lineFault{}, true
	}
	header, _ := csvReader(rows[0].secret, separatorOf(rows[0].secret, "")).Read()
	header = trimmed(header)
	if namesColumns(header) {
		return lineFaultf(rows[0].line, "is a header row: name the column that has the secrets, such as column: %s; there are %s", likelySecretColumn(header), strings.Join(header, ", ")), false
	}
	for _, separator := range []string{",", ";"} {
		count := strings.Count(rows[0].secret, separator)
		if count > 0 && !slices.ContainsFunc(rows, func(r rawToken) bool { return strings.Count(r.secret, separator) != count }) {
			return lineFaultf(rows[0].line, "is the first row of a table with %d columns; write a header row above it, and column: NAME into the pool", count+1), false
		}
	}
	return lineFault{}, true
}

// likelySecretColumn guesses which column has the secrets.
func likelySecretColumn(header []string) string {
	for _, word := range []string{"token", "secret", "key", "password", "credential", "pass"} {
		if i := slices.IndexFunc(header, func(s string) bool { return strings.Contains(strings.ToLower(s), word) }); i >= 0 {
			return header[i]
		}
	}
	return header[len(header)-1]
}
