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

	"github.com/abide-proxy/abide/internal/disk"
	"github.com/abide-proxy/abide/policy"
)

// file reads a file: a CSV table if the pool names a column, otherwise one secret per line.
func (l *loader) file() {
	data, open, err := readFile(l.source, maxFileBytes)
	if err != nil {
		l.fail(0, "%v", err)
		return
	}
	if open != "" {
		l.warn(0, "%s may read the secrets in it; chmod 600 is for you alone", open)
	}
	l.text(data)
}

// theSecret is the name of a secret in faults that have its line or its file.
const theSecret = "the secret"

// text reads the content of a file.
func (l *loader) text(data []byte) {
	if l.pool.Column != "" {
		l.csv(strings.TrimPrefix(string(data), bom))
		return
	}
	rows := parseLines(data)
	if l.refuseTable(rows) {
		return
	}
	for _, r := range rows {
		l.add(r, theSecret)
	}
}

// parseLines reads one secret per line. Blank lines and lines that begin with # are
// skipped.
func parseLines(data []byte) (rows []policy.Token) {
	line := 0
	for s := range strings.SplitSeq(strings.TrimPrefix(string(data), bom), "\n") {
		line++
		if s = trim(s); s == "" || s[0] == '#' {
			continue
		}
		rows = append(rows, policy.Token{Secret: policy.NewSecret(s), Line: line})
	}
	return rows
}

// dir reads a directory with one secret per file, as Kubernetes and Docker make it.
func (l *loader) dir(ctx context.Context) {
	path := l.source
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
		l.add(policy.Token{Label: name, Secret: policy.NewSecret(trim(string(data)))}, theSecret)
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
	data, mode, err := disk.Read(path, most)
	if err == nil && len(data) >= 2 && (data[0] == 0xff && data[1] == 0xfe || data[0] == 0xfe && data[1] == 0xff) {
		err = errors.New("is UTF-16; save it as UTF-8")
	}
	if err != nil {
		return nil, "", withoutPath(err)
	}
	return data, otherReaders(mode), nil
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
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("does not exist")
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot be read: %w", at.Err)
	}
	return err
}

// csv reads a table with a header row. The header row also determines the separator.
// Faults quote only column names: in a file without a header row, the first row has
// secrets.
func (l *loader) csv(text string) {
	column, label, account := l.pool.Column, l.pool.Label, l.pool.Account
	r := csvReader(text, separatorOf(text, column))
	header, err := r.Read()
	if err != nil {
		l.failCSV(err)
		return
	}
	line, _ := r.FieldPos(0)
	header = trimmed(slices.Clone(header))
	secretAt, labelAt, accountAt := l.find(header, column, line), l.find(header, label, line), l.find(header, account, line)
	if label == column {
		l.fail(line, "the label is the column of the secrets, and labels are printed everywhere")
	}
	if len(l.faults) > 0 {
		return
	}
	for {
		fields, err := r.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				l.failCSV(err)
			}
			return
		}
		line, _ := r.FieldPos(0)
		fields = trimmed(fields)
		switch {
		case !slices.ContainsFunc(fields, func(s string) bool { return s != "" }):
		case slices.Equal(fields, header):
			l.warn(line, "is the header row again, which is skipped")
		case len(fields) != len(header):
			l.fail(line, "has %d fields where the header row has %d", len(fields), len(header))
		default:
			cells := append(fields, "") // the last for what has no column
			l.add(policy.Token{Label: cells[labelAt], Account: cells[accountAt], Secret: policy.NewSecret(cells[secretAt]), Line: line}, theSecret)
		}
	}
}

func csvReader(text string, comma rune) *csv.Reader {
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = comma, -1, true
	return r
}

// find returns the index of a column, or -1 and adds a fault. That of no column is behind the last.
func (l *loader) find(header []string, name string, line int) int {
	at := slices.Index(header, name)
	switch {
	case name == "":
		return len(header)
	case at < 0:
		hint := ""
		if i := slices.IndexFunc(header, func(s string) bool { return strings.EqualFold(s, name) }); i >= 0 {
			hint = ", but " + header[i]
		} else if namesColumns(header) {
			hint = "; there are " + strings.Join(header, ", ")
		}
		l.fail(line, "the header row has no column %q%s", name, hint)
	case slices.Contains(header[at+1:], name):
		l.fail(line, "the header row has the column %q twice", name)
	}
	return at
}

func trimmed(fields []string) []string {
	for i, s := range fields {
		fields[i] = trim(s)
	}
	return fields
}

// failCSV reports why a CSV file cannot be read.
func (l *loader) failCSV(err error) {
	switch parse, ok := errors.AsType[*csv.ParseError](err); {
	case errors.Is(err, io.EOF):
		l.fail(0, "is empty, and should have a header row")
	case !ok:
		l.fail(0, "is not CSV")
	case errors.Is(parse.Err, csv.ErrQuote):
		l.fail(parse.Line, `has a " in the wrong place at column %d; a field with a " in it is quoted, and the " doubled`, parse.Column)
	case errors.Is(parse.Err, csv.ErrBareQuote):
		l.fail(parse.Line, `has a " inside of a field that is not quoted, at column %d`, parse.Column)
	default:
		l.fail(parse.Line, "is not CSV")
	}
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

// refuseTable reports why rows cannot be read as one secret each, because they are a table. It is
// false for a list.
func (l *loader) refuseTable(rows []policy.Token) bool {
	if len(rows) < 2 {
		return false
	}
	line, first := rows[0].Line, rows[0].Secret.Reveal()
	header, _ := csvReader(first, separatorOf(first, "")).Read()
	header = trimmed(header)
	if namesColumns(header) {
		l.fail(line, "is a header row: name the column that has the secrets, such as column: %s; there are %s", likelySecretColumn(header), strings.Join(header, ", "))
		return true
	}
	for _, separator := range []string{",", ";"} {
		count := strings.Count(first, separator)
		if count > 0 && !slices.ContainsFunc(rows, func(t policy.Token) bool { return strings.Count(t.Secret.Reveal(), separator) != count }) {
			l.fail(line, "is the first row of a table with %d columns; write a header row above it, and column: NAME into the pool", count+1)
			return true
		}
	}
	return false
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
