package learn

import "strings"

// An item is one member of a list as the drafts of RateLimit write it: a number,
// a word or a quoted string, with parameters. It is read more leniently than
// structured fields are, because servers write them so.
type item struct {
	value  string
	quoted bool
	also   string // a second string where a parameter should stand
	params int    // how many were there

	q, w, r, t, unit, partition string
}

// split cuts text at the first sep that is in no quoted string. It is not ok
// when a string does not end.
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

// unquote is the content of a quoted string.
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

// blanks cuts blanks alone.
func blanks(text string) string { return strings.Trim(text, " \t") }

// parseItem reads one member of a list.
func parseItem(text string) (item, bool) {
	var it item
	head, rest, more, ok := split(text, ';')
	if !ok {
		return it, false
	}
	it.value = blanks(head)
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
		head = blanks(head)
		if head == "" {
			continue
		}
		if head[0] == '"' {
			it.also, _ = unquote(head)
			continue
		}
		key, value, _ := strings.Cut(head, "=")
		key, value = strings.ToLower(blanks(key)), blanks(value)
		if inner, is := unquote(value); is {
			value = inner
		}
		it.params++
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
			it.also = value
		}
	}
	return it, true
}

// mostItems is how many members of a list are looked at.
const mostItems = 32

// items are the members of a list, over all its lines. A line that is malformed
// is ignored as a whole.
func items(lines []string) []item {
	var all []item
	for _, line := range lines {
		if len(line) > 8*longest {
			continue
		}
		start := len(all)
		rest, more, ok := line, true, true
		for more && len(all) < mostItems {
			var head string
			if head, rest, more, ok = split(rest, ','); !ok {
				break
			}
			if blanks(head) == "" {
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

// window is a length of time in seconds, as policies and intervals write it.
func windowOf(text string, milli bool) int64 {
	d, is := parseDecimal(trim(text))
	if is != good || d.negative {
		return 0
	}
	if milli {
		d.whole /= 1000
	}
	if d.whole > int64(horizon.Seconds()) {
		return 0
	}
	return d.whole
}
