package proxy

import "strings"

// eventOf keeps the constant words of a line of net/http or goproxy: what
// stands before the first thing that a peer may have chosen.
func eventOf(line string) string {
	for _, mark := range []string{"http:", "%", "\"", "://"} {
		if mark == "http:" {
			if rest, ok := strings.CutPrefix(line, mark); ok {
				line = strings.TrimSpace(rest)
			}
			continue
		}
		line, _, _ = strings.Cut(line, mark)
	}
	words := strings.Fields(line)
	return strings.Join(words[:min(len(words), 6)], " ")
}
