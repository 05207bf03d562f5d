package policy

import "strings"

// NormalPath is the one spelling of an escaped path that stands for all that
// mean the same, for keys: %74 is t and %2f is %2F, as it is where a limit's
// pattern is compared. An escaped slash stays escaped, dot segments stay, and no
// path at all is /. It does not allocate for a path that is spelt so already. What
// is sent upstream is another matter.
func NormalPath(escaped string) string {
	if escaped == "" {
		return "/"
	}
	same := 0 // how much of it is spelt so already
	for same < len(escaped) {
		c, size := sentByte(escaped[same:])
		if !normal(escaped[same:same+size], c) {
			break
		}
		same += size
	}
	if same == len(escaped) {
		return escaped
	}
	const digit = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(escaped) + 2)
	b.WriteString(escaped[:same])
	for rest := escaped[same:]; rest != ""; {
		c, size := sentByte(rest)
		if pathByte(c) || c == '/' && size == 1 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digit[c>>4], digit[c&15]})
		}
		rest = rest[size:]
	}
	return b.String()
}

// normal tells whether a byte of a path is written as NormalPath writes it.
func normal(sent string, c byte) bool {
	if len(sent) == 1 {
		return pathByte(c) || c == '/'
	}
	lower := func(d byte) bool { return 'a' <= d && d <= 'f' }
	return !pathByte(c) && !lower(sent[1]) && !lower(sent[2])
}

// pathByte tells which bytes need no escape inside a segment (RFC 3986, pchar).
func pathByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0
}
