package learn

import (
	"strings"
	"time"
)

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

// decimal is a number in a header: ASCII digits and at most one dot with digits on both
// sides. No exponent, hexadecimal or separators.
type decimal struct {
	whole    int64
	nanos    int64
	fraction bool // it has a dot
	negative bool
}

// verdict is the result of parsing a value.
type verdict uint8

const (
	notANumber   verdict = iota // invalid syntax: the value is ignored
	good                        //
	unbelievable                // valid syntax, but an impossible value
)

const (
	maxDigits      = 19  // of a whole number
	maxValueLength = 512 // in bytes
)

func parseDecimal(text string) (decimal, verdict) {
	var d decimal
	if text == "" || len(text) > maxValueLength {
		return d, notANumber
	}
	if text[0] == '+' || text[0] == '-' {
		d.negative = text[0] == '-'
		text = text[1:]
	}
	n, huge := 0, false
	for ; n < len(text) && digit(text[n]); n++ {
		digit := int64(text[n] - '0')
		if d.whole > (1<<63-1-digit)/10 {
			huge = true
			continue
		}
		d.whole = d.whole*10 + digit
	}
	if n == 0 {
		return d, notANumber
	}
	if n < len(text) {
		if text[n] != '.' || n+1 == len(text) {
			return d, notANumber
		}
		d.fraction = true
		unit := int64(100_000_000)
		for _, c := range []byte(text[n+1:]) {
			if !digit(c) {
				return d, notANumber
			}
			d.nanos += int64(c-'0') * unit
			unit /= 10
		}
	}
	if huge || n > maxDigits {
		return d, unbelievable
	}
	return d, good
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// float is the number, rounded once.
func (d decimal) float() float64 {
	f := float64(d.whole)
	if d.nanos != 0 {
		if d.whole < 1<<20 {
			f = float64(d.whole*1e9+d.nanos) / 1e9
		} else {
			f += float64(d.nanos) / 1e9
		}
	}
	if d.negative {
		return -f
	}
	return f
}

// of is the number in units of a duration. ok is false if the result is unbelievable.
func (d decimal) of(unit time.Duration) (time.Duration, bool) {
	if d.whole > int64(maxAhead/unit) {
		return 0, false
	}
	n := time.Duration(d.whole)*unit + time.Duration(float64(d.nanos)/1e9*float64(unit)+0.5)
	if n > maxAhead {
		return 0, false
	}
	if d.negative {
		n = -n
	}
	return n, true
}

// maxCount is the largest count that is believed: float64 is exact up to it.
const maxCount = 1 << 53

// count parses a number of units.
func count(text string) Amount {
	d, verdict := parseDecimal(trim(text))
	if verdict != good || d.whole > maxCount {
		return Amount{}
	}
	return amount(d.float())
}

// trim cuts spaces, and the semicolons and commas that some servers append.
func trim(text string) string {
	return strings.TrimRight(strings.TrimLeft(text, " \t"), " \t;,")
}

// hasThousandsSeparators tells whether a value is one number in groups of three: 5,000.
// Such a value is neither parsed as a number nor as a list.
func hasThousandsSeparators(text string) bool {
	group, seen := 0, false
	for _, c := range []byte(text) {
		switch {
		case digit(c):
			group++
		case c == ',' && group > 0 && (group == 3 || !seen && group < 3):
			group, seen = 0, true
		default:
			return false
		}
	}
	return seen && group == 3
}
