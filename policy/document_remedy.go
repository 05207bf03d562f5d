package policy

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

var (
	// bareStar is a pattern of hosts, or * alone, that should stand in quotes.
	bareStar = regexp.MustCompile(`(?:^|[\s\[{,])(\*(?:\.[A-Za-z0-9-]+)*(?:\.[A-Za-z0-9-]+(?::\d+)?)?)\s*(?:$|[,\]}#])`)
	// innerBrace is a brace inside of a value, such as that of /users/{id}.
	innerBrace = regexp.MustCompile(`[^\s,:\[{]\{|\{token\}`)
)

const quotedPut = `put: "Authorization: Bearer {token}"`

// remedied is what YAML says about a line, and what to write instead where that is
// known. It has nothing of the line but a pattern of hosts: the rest may be a secret.
func remedied(problem, line string) string {
	text := "is not valid YAML: " + problem
	switch {
	case problem == "found unexpected end of stream":
		return text + " (is a quote not closed?)"
	case problem == "did not find expected alphabetic or numeric character":
		if m := bareStar.FindStringSubmatch(line); m != nil {
			return fmt.Sprintf("is not valid YAML: write %q in quotes", m[1])
		}
		return text + "; quote a value that begins with * or &"
	case problem == "found character that cannot start any token":
		return text + "; quote a value that begins with @, % or a backtick"
	case problem == "mapping values are not allowed in this context" && strings.Contains(line, tokenMark):
		return text + `; quote a value that has ": " in it, such as ` + quotedPut
	case problem == "mapping values are not allowed in this context":
		return text + ` (quote a value that has ": " in it)`
	case strings.HasPrefix(problem, "did not find expected ',' or") && strings.Contains(line, tokenMark):
		return text + "; quote a value that has braces in it, such as " + quotedPut
	case strings.HasPrefix(problem, "did not find expected ',' or") && innerBrace.MatchString(line):
		return text + "; quote a value that has braces in it"
	case problem == "did not find expected whitespace or line break":
		return text + "; quote a value that begins with !"
	}
	return text
}

// lineAt is a line of a text, counted from 1, without its end.
func lineAt(text []byte, number int) string {
	for one := range bytes.Lines(text) {
		if number--; number == 0 {
			return strings.TrimRight(string(one), "\r\n")
		}
	}
	return ""
}
