package tokens

import (
	"fmt"
	"strings"
)

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
