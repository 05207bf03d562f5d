// Package redact removes secrets from texts that repeat them: as they are, or in an
// encoding that a header can carry. It looks only for the given
// secrets, so its cost does not grow with the number of all secrets.
//
//	f := redact.New(token)
//	f.Headers(answer.Header, "{token}")
//	name, found := f.Name(bucket, "{token}")
package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// minEncodedLength is the length in bytes from which a secret is also looked for in hex and
// base64, where shorter ones would match by chance.
const minEncodedLength = 4

// Finder finds given secrets in texts: as they are, percent-encoded and escaped with
// backslashes, completely or partly and up to three times, in hex, and in base64, also
// within a longer text. Make it with New; nil finds nothing. It is safe for concurrent use.
type Finder struct {
	secrets  []string
	least    int       // length of the shortest secret in bytes
	spaces   bool      // a secret contains a space, which is + in a query
	once     sync.Once // makes patterns at the first text that is long enough
	encoded  string    // the texts of patterns
	patterns []pattern
}

// pattern is a secret in one encoding.
type pattern struct {
	from, to    int  // its text in Finder.encoded
	left, right bool // the base64 digit before, or after, contains bits of the secret
}

// New makes a Finder of secrets. Empty ones are ignored.
func New(secrets ...string) *Finder {
	f := &Finder{}
	for _, s := range secrets {
		if s != "" && !slices.Contains(f.secrets, s) {
			f.secrets = append(f.secrets, s)
			f.spaces = f.spaces || strings.Contains(s, " ")
			if f.least == 0 || len(s) < f.least {
				f.least = len(s)
			}
		}
	}
	return f
}

// compile makes the patterns.
func (f *Finder) compile() {
	size := 0
	for _, s := range f.secrets {
		size += 16 * (len(s) + 4)
	}
	b := builder{text: make([]byte, 0, size), patterns: make([]pattern, 0, 10*len(f.secrets))}
	for _, s := range f.secrets {
		b.add(pattern{}, func(to []byte) []byte { return append(to, s...) })
		if len(s) < minEncodedLength {
			continue
		}
		b.encoded(s)
		// The encoded text may be a URL or JSON that contains the secret.
		for _, escaped := range [...]string{url.QueryEscape(s), url.PathEscape(s), backslashed(s)} {
			if escaped != s {
				b.encoded(escaped)
			}
		}
	}
	f.encoded, f.patterns = string(b.text), b.patterns
}

// builder collects patterns in one allocation.
type builder struct {
	text     []byte
	patterns []pattern
}

func (b *builder) add(p pattern, write func([]byte) []byte) {
	p.from = len(b.text)
	b.text = write(b.text)
	p.to = len(b.text)
	b.patterns = append(b.patterns, p)
}

// encoded adds a text in hex and base64.
func (b *builder) encoded(s string) {
	b.add(pattern{}, func(to []byte) []byte { return hex.AppendEncode(to, []byte(s)) })
	lower := b.patterns[len(b.patterns)-1]
	b.add(pattern{}, func(to []byte) []byte { return append(to, bytes.ToUpper(b.text[lower.from:lower.to])...) })
	for before := range 3 { // bytes of another text that share a group of base64 with its beginning
		b.base64(s, before)
	}
}

// base64 adds the base64 digits of a text that do not depend on the text around it.
func (b *builder) base64(s string, before int) {
	p := pattern{left: before > 0, right: 8*(before+len(s))%6 != 0}
	group := make([]byte, 0, 64)
	group = append(append(group, "\x00\x00"[:before]...), s...)
	from, to := (8*before+5)/6, 8*(before+len(s))/6
	for _, encoding := range [...]*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		b.add(p, func(all []byte) []byte {
			start := len(all)
			all = encoding.AppendEncode(all, group)
			return append(all[:start], all[start+from:start+to]...)
		})
		if last := b.patterns[len(b.patterns)-1]; !bytes.ContainsAny(b.text[last.from:last.to], "+/") {
			break // the encodings do not differ
		}
	}
}

// backslashed escapes a text as in JSON and in quoted strings.
func backslashed(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`)
}

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
	renamed := map[string]string{}
	for name, values := range headers {
		for i, value := range values {
			if text, found := f.Text(value, with); found {
				values[i], any = text, true
			}
		}
		if other, found := f.Name(name, strings.Trim(with, "{}")); found {
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
	if f == nil || f.least == 0 || len(text) < f.least { // it cannot have a secret
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
		text := f.encoded[p.from:p.to]
		for at := 0; ; {
			n := index(v.text[at:], text)
			if n < 0 {
				break
			}
			from := at + n
			to := from + len(text)
			at = to
			if p.left && from > 0 && isDigit(v.text[from-1]) {
				from--
			}
			if p.right && to < len(v.text) && isDigit(v.text[to]) {
				to++
			}
			for to < len(v.text) && v.origin(to) == v.origin(to-1) { // of one escape
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
