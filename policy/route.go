package policy

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// parseRoute reads the pattern of a path: * is one segment, ** any number of them. A segment is the
// text behind a slash, so /a/ has two, of which the second is empty. It returns what matches paths in
// the spelling of NormalPath, so nobody gets around a limit by writing %74 instead of t. An escaped
// slash is not a slash.
func parseRoute(s string) (*regexp.Regexp, error) {
	switch {
	case !strings.HasPrefix(s, "/"):
		return nil, fmt.Errorf("%s does not begin with a slash", Quote(s))
	case strings.ContainsAny(s, "?#"):
		return nil, fmt.Errorf("%s has a query or a fragment; limits look at paths alone", Quote(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return nil, errors.New("has a control character, which no path has")
	}
	pattern := "^"
	for part := range strings.SplitSeq(s[1:], "/") {
		switch {
		case part == "**":
			pattern = strings.TrimSuffix(pattern, anyMany) + anyMany // two are equal to one
		case part == "*":
			pattern += `/[^/]*`
		case strings.Contains(part, "*"):
			return nil, fmt.Errorf("%s has a * that is not a whole segment", Quote(s))
		default:
			if _, err := url.PathUnescape(part); err != nil {
				return nil, fmt.Errorf("%s has a %% that two hexadecimal digits do not follow; a %% itself is %%25", Quote(s))
			}
			pattern += regexp.QuoteMeta(NormalPath("/" + part))
		}
	}
	return regexp.Compile(pattern + "$")
}

// anyMany matches any number of segments.
const anyMany = `(?:/[^/]*)*`

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
