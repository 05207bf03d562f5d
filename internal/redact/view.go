package redact

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the largest number of escapings under which a secret is found.
const maxDepth = 3

// maxViewBytes bounds the bytes of a text's views: a site can send very many nested
// escapes.
const maxViewBytes = 128 << 10

// view is a text with its escapes resolved, depth times.
type view struct {
	text    string
	offsets []int // :: byte of text → its start in the original, and finally its end; nil: text is the original
	depth   int
}

// origin is the start of a byte of the view in the original.
func (v *view) origin(n int) int {
	if v.offsets == nil {
		return n
	}
	return v.offsets[n]
}

// views are the possible meanings of a view.
func (f *Finder) views(v view) []view {
	list := resolve(nil, v, '%', percent)
	if f.spaces {
		list = resolve(list, v, '+', func(string) ([]byte, int) { return []byte{' '}, 1 })
	}
	list = resolve(list, v, '\\', backslash)
	return resolve(list, v, '\\', quotedPair)
}

// resolve adds a view with each escape that begins with mark resolved, unless there is
// none.
func resolve(list []view, v view, mark byte, read func(s string) (meant []byte, size int)) []view {
	if strings.IndexByte(v.text, mark) < 0 {
		return list
	}
	text, at := make([]byte, 0, len(v.text)), make([]int, 0, len(v.text)+1)
	any := false
	for i := 0; i < len(v.text); {
		if v.text[i] == mark {
			if meant, size := read(v.text[i:]); size > 0 {
				for _, c := range meant {
					text, at = append(text, c), append(at, v.origin(i))
				}
				i += size
				any = true
				continue
			}
		}
		text, at = append(text, v.text[i]), append(at, v.origin(i))
		i++
	}
	if !any || slices.ContainsFunc(list, func(other view) bool { return other.text == string(text) }) {
		return list
	}
	return append(list, view{string(text), append(at, v.origin(len(v.text))), v.depth + 1})
}

// percent decodes an escape of a URL.
func percent(s string) (meant []byte, size int) {
	if c, ok := hexadecimal(s, 1, 2); ok {
		return []byte{byte(c)}, 3
	}
	return nil, 0
}

// quotedPair decodes an escape of a quoted string, where any byte may have a backslash.
func quotedPair(s string) (meant []byte, size int) {
	if len(s) < 2 {
		return nil, 0
	}
	return []byte{s[1]}, 2
}

// backslash decodes an escape of a JSON string.
func backslash(s string) (meant []byte, size int) {
	if len(s) < 2 {
		return nil, 0
	}
	switch s[1] {
	case 'u':
		return unicode(s)
	case 'x':
		if c, ok := hexadecimal(s, 2, 2); ok {
			return []byte{byte(c)}, 4
		}
	}
	if i := strings.IndexByte("bfnrt", s[1]); i >= 0 {
		return []byte{"\b\f\n\r\t"[i]}, 2
	}
	return quotedPair(s)
}

// unicode decodes \u00e9, and surrogate pairs.
func unicode(s string) (meant []byte, size int) {
	first, ok := hexadecimal(s, 2, 4)
	if !ok {
		return []byte{'u'}, 2
	}
	if strings.HasPrefix(s[6:], `\u`) {
		if second, ok := hexadecimal(s, 8, 4); ok {
			if c := utf16.DecodeRune(first, second); c != utf8.RuneError {
				return utf8.AppendRune(nil, c), 12
			}
		}
	}
	return utf8.AppendRune(nil, first), 6
}

// hexadecimal is the number in the many hex digits from a position.
func hexadecimal(s string, from, many int) (rune, bool) {
	if len(s) < from+many {
		return 0, false
	}
	n, err := strconv.ParseUint(s[from:from+many], 16, 32)
	return rune(n), err == nil
}

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
