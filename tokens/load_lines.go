package tokens

import (
	"fmt"
	"strings"
)

// parseLines reads one secret a line. Blank lines and lines that begin with # are
// skipped.
func parseLines(data []byte) []row {
	var rows []row
	line := 0
	for s := range strings.SplitSeq(strings.TrimPrefix(string(data), bom), "\n") {
		line++
		if s = trim(s); s == "" || s[0] == '#' {
			continue
		}
		rows = append(rows, row{secret: s, line: line})
	}
	return rows
}

// flaw is what is wrong with a line.
type flaw struct {
	line int
	text string
}

func flawf(line int, format string, args ...any) flaw {
	return flaw{line, fmt.Sprintf(format, args...)}
}
