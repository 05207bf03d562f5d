package tokens

import (
	"regexp"
	"slices"
	"strings"
)

// separators are what may stand between the fields of a table.
var separators = []rune{',', ';', '\t', '|'}

// separatorOf is what separates the fields of a table: what its header row has the
// column by, or else what gives the header row the most fields.
func separatorOf(text, column string) rune {
	best, most := separators[0], 0
	for _, one := range separators {
		header, _ := reader(text, one).Read()
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
	// columnName is what a column may be called. A secret may look like that, too.
	columnName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9 _.-]{0,39}$`)
	// columnWord is in the name of a column that people write.
	columnWord = regexp.MustCompile(`(?i)(^|[ _.-])(access|account|api|app|auth|bearer|client|comment|consumer|created|credentials?|email|enabled|handle|id|key|label|login|name|note|owner|password|pass|screen|secret|status|tokens?|user|username)([ _.-]|$)`)
)

// namesColumns tells whether a row is surely a header, whose names may be shown: all
// are different names, and one at least has a word that columns are called by.
func namesColumns(row []string) bool {
	for i, one := range row {
		if !columnName.MatchString(one) || slices.Contains(row[:i], one) {
			return false
		}
	}
	return slices.ContainsFunc(row, columnWord.MatchString)
}

// notAList says why a file cannot be read as one secret a line, since it is a table;
// ok is true for a list.
func notAList(data []byte) (fault flaw, ok bool) {
	rows := parseLines(data)
	if len(rows) < 2 {
		return flaw{}, true
	}
	header, _ := reader(rows[0].secret, separatorOf(rows[0].secret, "")).Read()
	header = trimmed(header)
	if namesColumns(header) {
		return flawf(rows[0].line, "is a header row: name the column that has the secrets, such as column: %s; there are %s", likely(header), strings.Join(header, ", ")), false
	}
	for _, separator := range []string{",", ";"} {
		count := strings.Count(rows[0].secret, separator)
		if count > 0 && !slices.ContainsFunc(rows, func(r row) bool { return strings.Count(r.secret, separator) != count }) {
			return flawf(rows[0].line, "is the first row of a table with %d columns; write a header row above it, and column: NAME into the pool", count+1), false
		}
	}
	return flaw{}, true
}

// likely is the column that most likely has the secrets.
func likely(header []string) string {
	for _, word := range []string{"token", "secret", "key", "password", "credential", "pass"} {
		if i := slices.IndexFunc(header, func(s string) bool { return strings.Contains(strings.ToLower(s), word) }); i >= 0 {
			return header[i]
		}
	}
	return header[len(header)-1]
}
