package redact

import (
	"cmp"
	"slices"
	"strings"
)

// Text replaces each secret in a text, and tells whether there was any.
func (f *Finder) Text(text, with string) (string, bool) { return f.replace(text, with, strings.Index) }

// Name is Text for header names: it ignores case, and - and _ are equal.
func (f *Finder) Name(name, with string) (string, bool) { return f.replace(name, with, indexFold) }

// Headers replaces the secrets in the names and values of headers, and tells whether there
// were any.
func (f *Finder) Headers(headers map[string][]string, with string) bool {
	if f == nil || f.least == 0 {
		return false
	}
	any := false
	var renamed map[string]string
	for name, values := range headers {
		for i, value := range values {
			if text, found := f.Text(value, with); found {
				values[i], any = text, true
			}
		}
		if other, found := f.Name(name, strings.Trim(with, "{}")); found {
			if renamed == nil {
				renamed = map[string]string{}
			}
			renamed[name] = other
		}
	}
	for name, other := range renamed {
		headers[other] = append(headers[other], headers[name]...)
		delete(headers, name)
	}
	return any || len(renamed) > 0
}

// span is a part of a text.
type span struct{ from, to int }

func (f *Finder) replace(text, with string, index func(s, part string) int) (string, bool) {
	if !f.mayHide(text) {
		return text, false
	}
	f.once.Do(f.compile)
	whole := view{text: text}
	spans := f.find(nil, whole, index)
	viewed := 0
	for rest := f.views(whole); len(rest) > 0; rest = rest[1:] {
		spans = f.find(spans, rest[0], index)
		if viewed += len(rest[0].text); rest[0].depth < maxDepth && viewed < maxViewBytes {
			rest = append(rest, f.views(rest[0])...)
		}
	}
	if len(spans) == 0 {
		return text, false
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	done := 0
	for n, s := range spans {
		if n == 0 || s.from >= done {
			b.WriteString(text[done:s.from])
			b.WriteString(with)
		}
		done = max(done, s.to)
	}
	b.WriteString(text[done:])
	return b.String(), true
}

// find adds the positions of secrets in a view, as parts of the original text.
func (f *Finder) find(spans []span, v view, index func(s, part string) int) []span {
	for i := range f.patterns {
		p := &f.patterns[i]
		for at := 0; ; {
			n := index(v.text[at:], p.text)
			if n < 0 {
				break
			}
			from := at + n
			to := from + len(p.text)
			at = to
			if p.left && from > 0 && isDigit(v.text[from-1]) {
				from--
			}
			if p.right && to < len(v.text) && isDigit(v.text[to]) {
				to++
			}
			spans = append(spans, span{v.origin(from), v.origin(to)})
		}
	}
	return spans
}

// isDigit tells whether a byte is a digit of base64, in either alphabet.
func isDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("+/-_", c) >= 0
}

// indexFold is strings.Index for names: case is ignored, and - and _ are equal.
func indexFold(s, part string) int {
	for n := 0; n+len(part) <= len(s); n++ {
		if SameName(s[n:n+len(part)], part) {
			return n
		}
	}
	return -1
}

// SameName tells whether two header names differ only in case and in - and _, which CGI
// programs treat as equal.
func SameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if fold(a[i]) != fold(b[i]) {
			return false
		}
	}
	return true
}

func fold(c byte) byte {
	switch {
	case c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}
