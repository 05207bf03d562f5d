package learn

import "strings"

// item is one member of a list in the syntax of the RateLimit drafts: a number, a word or a
// quoted string, with parameters. It is parsed more leniently than structured fields,
// because servers deviate.
type item struct {
	value  string
	quoted bool
	second string // a second string where a parameter should be

	q, w, r, t, unit, partition string
}

// split cuts text at the first sep outside of quoted strings. ok is false if a string does
// not end.
func split(text string, sep byte) (head, rest string, more, ok bool) {
	quoted := false
	for n := 0; n < len(text); n++ {
		switch c := text[n]; {
		case c == '\\' && quoted:
			n++
		case c == '"':
			quoted = !quoted
		case c == sep && !quoted:
			return text[:n], text[n+1:], true, true
		}
	}
	return text, "", false, !quoted
}

// unquote returns the content of a quoted string.
func unquote(text string) (string, bool) {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return "", false
	}
	text = text[1 : len(text)-1]
	if strings.IndexByte(text, '\\') < 0 {
		return text, true
	}
	out := make([]byte, 0, len(text))
	for n := 0; n < len(text); n++ {
		if text[n] == '\\' && n+1 < len(text) {
			n++
		}
		out = append(out, text[n])
	}
	return string(out), true
}

// trimBlanks cuts spaces and tabs.
func trimBlanks(text string) string { return strings.Trim(text, " \t") }

// parseItem parses one member of a list.
func parseItem(text string) (item, bool) {
	var it item
	head, rest, more, ok := split(text, ';')
	if !ok {
		return it, false
	}
	it.value = trimBlanks(head)
	if it.value == "" {
		return it, false
	}
	if it.value[0] == '"' {
		if it.value, it.quoted = unquote(it.value); !it.quoted {
			return it, false
		}
	}
	for more {
		if head, rest, more, ok = split(rest, ';'); !ok {
			return it, false
		}
		head = trimBlanks(head)
		if head == "" {
			continue
		}
		if head[0] == '"' {
			it.second, _ = unquote(head)
			continue
		}
		key, value, _ := strings.Cut(head, "=")
		key, value = strings.ToLower(trimBlanks(key)), trimBlanks(value)
		if inner, found := unquote(value); found {
			value = inner
		}
		switch key {
		case "q":
			it.q = value
		case "w", "window":
			it.w = value
		case "r":
			it.r = value
		case "t":
			it.t = value
		case "qu":
			it.unit = value
		case "pk":
			it.partition = value
		case "name":
			it.second = value
		}
	}
	return it, true
}

// maxItems bounds the members of a list that are read.
const maxItems = 32

// items parses the members of a list, over all its lines. A malformed line is ignored as a
// whole.
func items(lines []string) []item {
	var all []item
	for _, line := range lines {
		if len(line) > 8*maxValueLength {
			continue
		}
		start := len(all)
		rest, more, ok := line, true, true
		for more && len(all) < maxItems {
			var head string
			if head, rest, more, ok = split(rest, ','); !ok {
				break
			}
			if trimBlanks(head) == "" {
				continue
			}
			var it item
			if it, ok = parseItem(head); !ok {
				break
			}
			all = append(all, it)
		}
		if !ok {
			all = all[:start]
		}
	}
	return all
}

// windowOf parses a window length in seconds.
func windowOf(text string) int64 {
	d, verdict := parseDecimal(trim(text))
	if verdict != good || d.negative || d.whole > int64(maxAhead.Seconds()) {
		return 0
	}
	return d.whole
}
