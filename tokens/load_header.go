package tokens

import (
	"regexp"
	"slices"
	"strings"
)

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
