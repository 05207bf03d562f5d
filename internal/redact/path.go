package redact

import (
	"net/url"
	"strings"
)

// leastSecret is the least length of letters and digits in a row that look like a secret.
const leastSecret = 16

// Path replaces the segments of an escaped path that look like secrets, such as that of
// "/bot123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe". A segment looks like one if it has
// many letters and digits in a row, some of each. Words, numbers and UUIDs do not.
func Path(path, with string) string {
	if len(path) < leastSecret {
		return path
	}
	segments := strings.Split(path, "/")
	for i, one := range segments {
		text := one
		if strings.Contains(one, "%") {
			if plain, err := url.PathUnescape(one); err == nil {
				text = plain
			}
		}
		if looksSecret(text) {
			segments[i] = with
		}
	}
	return strings.Join(segments, "/")
}

// looksSecret tells whether a text has many letters and digits in a row, some of each.
func looksSecret(text string) bool {
	length, letters, digits := 0, 0, 0
	for _, r := range text {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			letters++
		default:
			length, letters, digits = 0, 0, 0
			continue
		}
		if length++; length >= leastSecret && letters > 0 && digits > 0 {
			return true
		}
	}
	return false
}

// Frames keeps the function names and lines of a stack, and drops the arguments, which are
// only pointers.
func Frames(stack []byte) string {
	var out []string
	for line := range strings.SplitSeq(string(stack), "\n") {
		if strings.HasPrefix(line, "\t") {
			at, _, _ := strings.Cut(strings.TrimSpace(line), " +0x")
			out = append(out, at)
		}
	}
	return strings.Join(out, " < ")
}
