// Package redact takes secrets out of texts that repeat them: as they are, or in an
// encoding that a header can carry. It looks for the secrets that it is given, and for no
// others, so what a text costs does not grow with the number of secrets that there are.
//
//	f := redact.New(token)
//	f.Headers(answer.Header, "{token}")
//	name, found := f.Name(bucket, "{token}")
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// leastEncoded is the length in bytes from which on a secret is looked for in hex and in
// base64. In these, fewer bytes appear in texts by chance.
const leastEncoded = 4

// Finder finds some secrets in texts: as they are, percent-encoded and escaped with
// backslashes, wholly or in part and up to three times, in hex, and in base64, also as a
// part of a longer text. Make it with New; nil finds nothing. It is safe for concurrent
// use.
type Finder struct {
	secrets  []string
	least    int       // bytes of the shortest secret: a shorter text has none
	spaces   bool      // some secret has one, which a query shows as +
	once     sync.Once // for what follows, which is made when a text is as long as a secret
	patterns []pattern
}

// pattern is a secret in one encoding.
type pattern struct {
	text        string
	left, right bool // the digit of base64 before or after has bits of the secret, too
}

// New is a Finder of secrets. Empty ones do not count.
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

// May tells whether a text is long enough to have a secret.
func (f *Finder) May(text string) bool {
	return f != nil && f.least > 0 && len(text) >= f.least
}

// compile makes the patterns: each is a part of one string.
func (f *Finder) compile() {
	size := 0
	for _, s := range f.secrets {
		size += 16 * (len(s) + 4)
	}
	b := builder{text: make([]byte, 0, size), parts: make([]part, 0, 10*len(f.secrets))}
	for _, s := range f.secrets {
		b.add(part{}, func(to []byte) []byte { return append(to, s...) })
		if len(s) < leastEncoded {
			continue
		}
		b.encoded(s)
		// A URL or a JSON text that has the secret may be what is encoded.
		for _, escaped := range [...]string{url.QueryEscape(s), url.PathEscape(s), backslashed(s)} {
			if escaped != s {
				b.encoded(escaped)
			}
		}
	}
	f.patterns = b.patterns()
}

// builder collects patterns in one piece of memory.
type builder struct {
	text  []byte
	parts []part
}

type part struct {
	from, to    int
	left, right bool
}

func (b *builder) add(p part, write func([]byte) []byte) {
	p.from = len(b.text)
	b.text = write(b.text)
	p.to = len(b.text)
	b.parts = append(b.parts, p)
}

// encoded adds a text in hex and in base64.
func (b *builder) encoded(s string) {
	b.add(part{}, func(to []byte) []byte { return hex.AppendEncode(to, []byte(s)) })
	lower := b.parts[len(b.parts)-1]
	b.add(part{}, func(to []byte) []byte {
		for _, c := range b.text[lower.from:lower.to] {
			if 'a' <= c && c <= 'f' {
				c -= 'a' - 'A'
			}
			to = append(to, c)
		}
		return to
	})
	for before := range 3 { // bytes of another text that share a group of base64 with its beginning
		b.base64(s, before)
	}
}

// base64 adds those digits of a text in base64 that depend on the text alone.
func (b *builder) base64(s string, before int) {
	p := part{left: before > 0, right: 8*(before+len(s))%6 != 0}
	group := make([]byte, 0, 64)
	group = append(append(group, "\x00\x00"[:before]...), s...)
	from, to := (8*before+5)/6, 8*(before+len(s))/6
	b.add(p, func(all []byte) []byte {
		start := len(all)
		all = base64.RawStdEncoding.AppendEncode(all, group)
		return append(all[:start], all[start+from:start+to]...)
	})
	std := b.parts[len(b.parts)-1]
	if digits := b.text[std.from:std.to]; bytes.ContainsAny(digits, "+/") {
		b.add(p, func(all []byte) []byte {
			for _, c := range digits {
				switch c {
				case '+':
					c = '-'
				case '/':
					c = '_'
				}
				all = append(all, c)
			}
			return all
		})
	}
}

func (b *builder) patterns() []pattern {
	text := string(b.text)
	list := make([]pattern, len(b.parts))
	for i, p := range b.parts {
		list[i] = pattern{text[p.from:p.to], p.left, p.right}
	}
	return list
}

// backslashed is a text as it stands in a string of JSON, and in a quoted one.
func backslashed(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`)
}
