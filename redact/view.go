package redact

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// mostDepth is how many times a secret may be escaped and is found still.
const mostDepth = 3

// mostViewed bounds the bytes of a text's views, beyond which no more are made: a site can
// have very many with escapes in escapes.
const mostViewed = 128 << 10

// view is a text with its escapes resolved, as often as depth says.
type view struct {
	text  string
	at    []int // :: byte of text → where it begins in the original, and its end; nil: it is the original
	depth int
}

// origin is where a byte of the view begins in the original.
func (v *view) origin(n int) int {
	if v.at == nil {
		return n
	}
	return v.at[n]
}

// views are what a view may be meant to say.
func (f *Finder) views(v view) []view {
	var list []view
	if strings.IndexByte(v.text, '%') >= 0 {
		list = resolve(list, v, '%', percent)
	}
	if f.spaces && strings.IndexByte(v.text, '+') >= 0 {
		list = resolve(list, v, '+', func(string) ([]byte, int) { return []byte{' '}, 1 })
	}
	if strings.IndexByte(v.text, '\\') >= 0 {
		list = resolve(list, v, '\\', backslash)
		list = resolve(list, v, '\\', quotedPair)
	}
	return list
}

// resolve adds a view in which each escape that begins with mark stands for what it means,
// unless there is none.
func resolve(list []view, v view, mark byte, read func(s string) (meant []byte, size int)) []view {
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

// percent reads an escape of a URL.
func percent(s string) (meant []byte, size int) {
	if c, ok := hexadecimal(s, 1, 2); ok {
		return []byte{byte(c)}, 3
	}
	return nil, 0
}

// quotedPair reads an escape of a quoted string, where any byte may have a backslash.
func quotedPair(s string) (meant []byte, size int) {
	if len(s) < 2 {
		return nil, 0
	}
	return []byte{s[1]}, 2
}

// backslash reads an escape of a string of JSON.
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
	case 'b':
		return []byte{'\b'}, 2
	case 'f':
		return []byte{'\f'}, 2
	case 'n':
		return []byte{'\n'}, 2
	case 'r':
		return []byte{'\r'}, 2
	case 't':
		return []byte{'\t'}, 2
	}
	return quotedPair(s)
}

// unicode reads \u00e9, and two of them where they are one character.
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

// hexadecimal is the number that so many digits from a place on are.
func hexadecimal(s string, from, many int) (rune, bool) {
	if len(s) < from+many {
		return 0, false
	}
	n := rune(0)
	for _, c := range []byte(s[from : from+many]) {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}
