package policy

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// route is the pattern of a path, ready for matching. A segment is the text between two
// slashes, so /a/ has two, of which the second is empty.
//
// Segments are compared unescaped, so nobody gets around a limit by writing %74 instead
// of t. An escaped slash is not a slash.
type route struct {
	segments []segment
	least    int // segments of a path that matches, at least
}

type segment struct {
	text string // unescaped; of a literal
	kind segmentKind
}

type segmentKind uint8

const (
	literal segmentKind = iota
	anyOne              // *
	anyMany             // **
)

// parseRoute reads a pattern: * is one segment, ** any number of them.
func parseRoute(s string) (*route, error) {
	switch {
	case !strings.HasPrefix(s, "/"):
		return nil, fmt.Errorf("%s does not begin with a slash", Quote(s))
	case strings.ContainsAny(s, "?#"):
		return nil, fmt.Errorf("%s has a query or a fragment; limits look at paths alone", Quote(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return nil, errors.New("has a control character, which no path has")
	}
	r := &route{}
	for part := range strings.SplitSeq(s[1:], "/") {
		switch {
		case part == "**":
			if n := len(r.segments); n == 0 || r.segments[n-1].kind != anyMany { // two are equal to one
				r.segments = append(r.segments, segment{kind: anyMany})
			}
			continue
		case part == "*":
			r.segments = append(r.segments, segment{kind: anyOne})
		case strings.Contains(part, "*"):
			return nil, fmt.Errorf("%s has a * that is not a whole segment", Quote(s))
		default:
			text, err := url.PathUnescape(part)
			if err != nil {
				return nil, fmt.Errorf("%s has a %% that two hexadecimal digits do not follow; a %% itself is %%25", Quote(s))
			}
			r.segments = append(r.segments, segment{text: text, kind: literal})
		}
		r.least++
	}
	return r, nil
}

// covers tells whether a path matches. It follows the pattern and, where that
// fails, lets the last ** take one segment more: an earlier one never has to,
// since what lies between the two was found as far in front as it can be.
func (r *route) covers(path string) bool {
	path = cmp.Or(path, "/")
	if path[0] != '/' || strings.Count(path, "/") < r.least {
		return false
	}
	var (
		at, rest       = 0, path // of the pattern and of the path; "" is its end
		again, against = -1, ""  // where the last ** continues
	)
	for {
		switch {
		case at < len(r.segments) && r.segments[at].kind == anyMany:
			at++
			if at == len(r.segments) {
				return true
			}
			again, against = at, rest
			continue
		case at < len(r.segments) && rest != "":
			segment, more := cutSegment(rest)
			if r.segments[at].kind == anyOne || r.segments[at].is(segment) {
				at, rest = at+1, more
				continue
			}
		case rest == "":
			return at == len(r.segments)
		}
		if again < 0 || against == "" {
			return false
		}
		_, against = cutSegment(against)
		at, rest = again, against
	}
}

// cutSegment splits off the first segment. The rest begins with a slash, or is
// empty.
func cutSegment(path string) (segment, rest string) {
	if end := strings.IndexByte(path[1:], '/'); end >= 0 {
		return path[1 : end+1], path[end+1:]
	}
	return path[1:], ""
}

// is tells whether an escaped segment equals the literal.
func (s *segment) is(sent string) bool {
	if strings.IndexByte(sent, '%') < 0 {
		return sent == s.text
	}
	i := 0
	for ; sent != ""; i++ {
		c, size := sentByte(sent)
		if i == len(s.text) || s.text[i] != c {
			return false
		}
		sent = sent[size:]
	}
	return i == len(s.text)
}

// sentByte is the first byte that is meant, and how many it takes to write. A %
// that begins no escape means itself.
func sentByte(s string) (c byte, size int) {
	if s[0] == '%' && len(s) >= 3 {
		var b [1]byte
		if _, err := hex.Decode(b[:], []byte(s[1:3])); err == nil {
			return b[0], 3
		}
	}
	return s[0], 1
}

// NormalPath returns the canonical spelling of an escaped path, for keys: %74 becomes t and
// %2f becomes %2F, as in the comparison with a limit's pattern. An escaped slash stays
// escaped, dot segments stay, and an empty path becomes /. NormalPath does not allocate for
// a path in canonical spelling. The path that is sent upstream does not change.
func NormalPath(escaped string) string { return respelt(cmp.Or(escaped, "/"), &inSegment, &inPath) }

// NormalQuery returns the canonical spelling of a raw query, for keys: unreserved bytes are
// unescaped, invalid bytes escaped as clients do, and hex digits in upper case. Bytes whose
// meaning an escape changes stay as they are; a % without an escape is %25.
func NormalQuery(raw string) string { return respelt(raw, &inAny, &inQuery) }

// The bytes that need no escape in a part of a URL (RFC 3986): in any part, in a segment of the path
// (pchar), in the path, and in the query.
var inAny, inSegment, inPath, inQuery = BytesOf(""), BytesOf(delimiters), BytesOf(delimiters + "/"), BytesOf(delimiters + "/?")

const delimiters = "!$&'()*+,;=:@"

// BytesOf returns the set of some bytes and of those that are unreserved in URLs (RFC 3986).
func BytesOf(more string) (set [256]bool) {
	for c := range set {
		set[c] = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c < 128 && strings.IndexByte("-._~"+more, byte(c)) >= 0
	}
	return set
}

// respelt writes a part of a URL in one way: without the escapes of the bytes in bare, and with an
// escape of each byte that is not in plain.
func respelt(sent string, bare, plain *[256]bool) string {
	const digit = "0123456789ABCDEF"
	var b strings.Builder // without room while all is spelt so already
	i := 0
	for i < len(sent) && plain[sent[i]] {
		i++ // most are
	}
	for size := 0; i < len(sent); i += size {
		var c byte
		c, size = sentByte(sent[i:])
		escape := [...]byte{'%', digit[c>>4], digit[c&15]}
		spelt := escape[:]
		if size == 1 && plain[c] || size > 1 && bare[c] {
			escape[0], spelt = c, escape[:1]
		}
		if b.Cap() == 0 && string(spelt) != sent[i:i+size] {
			b.Grow(len(sent) + 2)
			b.WriteString(sent[:i])
		}
		if b.Cap() > 0 {
			b.Write(spelt)
		}
	}
	return cmp.Or(b.String(), sent)
}

// WithParameter returns a raw query in which pair stands once for the parameters whose names match: at the
// place of the first one, or else at the end. An empty pair removes them. All other bytes stay as they are.
func WithParameter(raw, pair string, matches func(name string) bool) string {
	if raw == "" {
		return pair
	}
	var kept []string
	for part := range strings.SplitSeq(raw, "&") {
		if name, _, _ := strings.Cut(part, "="); matches(ParameterName(name)) {
			part, pair = pair, ""
			if part == "" {
				continue
			}
		}
		kept = append(kept, part)
	}
	if pair != "" {
		kept = append(kept, pair)
	}
	return strings.Join(kept, "&")
}

// ParameterName returns the name of a parameter without its escapes.
func ParameterName(escaped string) string {
	if name, err := url.QueryUnescape(escaped); err == nil {
		return name
	}
	return escaped
}
