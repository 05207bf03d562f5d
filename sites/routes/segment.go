package routes

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// identifies reports whether a segment can name an entity. A star stands for a segment
// that is not known.
func identifies(segment string) bool { return segment != "" && segment != "*" && segment != "**" }

// keyOf returns the stored form of a segment: a short one unchanged, else a hash, as it may be a
// secret.
func keyOf(segment string) string { return string(appendKey(nil, segment)) }

// appendKey appends the stored form of a segment, of at most longestName bytes.
func appendKey(into []byte, s string) []byte {
	if len(s) <= longestName && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '*' }) {
		return append(into, s...)
	}
	var short [256]byte
	sum := sha256.Sum256(append(short[:0], s...))
	return hex.AppendEncode(append(into, '~'), sum[:8])
}

// isValue reports whether a segment is taken for a value: an identifier, a number, a
// date, a slug, an encoding. Names are short words with few digits. With versions, a
// number such as 2 or 1.1 is a name.
func isValue(s string, versions bool) bool {
	if len(s) > longestName {
		return true
	}
	var digits, runs, hex, upper, lower int
	inside := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
			if !inside {
				runs++
			}
			inside = true
			continue
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			if c|0x20 <= 'f' {
				hex++
			}
			if c >= 'a' {
				lower++
			} else {
				upper++
			}
		case c == '-', c == '_', c == '.', c == '~', c == ':', c == '!', c == '$':
		default:
			return true
		}
		inside = false
	}
	switch {
	case digits == 0:
		return hex == len(s) && len(s) >= 12
	case upper+lower == 0:
		return !versions || !isVersion(s)
	case digits >= 4, hex+digits == len(s) && len(s) >= 7:
		return !isNumbered(s)
	case runs >= 2 && len(s) >= 8:
		return !isNumbered(s)
	}
	return len(s) >= 20 && upper > 0 && lower > 0
}

// isVersion reports whether a number is like 2, 1.1 or 2024-01.
func isVersion(s string) bool {
	if len(s) <= 2 {
		return s[0] != '.' && s[0] != '-'
	}
	if len(s) >= 7 && len(s) <= 10 && s[:2] == "20" && s[4] == '-' {
		return true
	}
	return len(s) <= 5 && (s[1] == '.' || s[2] == '.') && strings.Trim(s, "0123456789.") == ""
}

// isNumbered reports whether a word is like v1beta1.
func isNumbered(s string) bool {
	return len(s) <= 10 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9' && strings.Trim(s[1:], "0123456789alphbetrc.") == ""
}

// methodOf returns a method as it stands in a route; * for an odd one.
func methodOf(method string) string {
	other := func(c rune) bool { return (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' }
	if method == "" || len(method) > 16 || strings.ContainsFunc(method, other) {
		return "*"
	}
	return method
}

// hostOf returns a host as it stands in a route; * for an odd one.
func hostOf(host string) string {
	if len(host) > longestHost || strings.ContainsFunc(host, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '/' }) {
		return "*"
	}
	return host
}

// Bounds of the tree of paths: a client may ask for anything.
const (
	mostKids    = 32  // names below one node; when there are more, all are taken for values
	mostDepth   = 12  // segments of a path that count
	mostMethods = 12  // at one path
	longestName = 40  // of a segment that is a name
	longestHost = 253 // of a host
)

// entity is a part of a path that has limits of its own although the server gives them one
// name: a channel, a project. The zero value is none.
type entity struct {
	segment int    // depth of the segment that names the entity; 0: no entity
	name    string // "channels/41771983423143937"
	shape   string // of the path so far, the same for all entities: "/channels/*/messages"
}

// entityOf returns the entity of a path, by the depth of the segment that names it. The
// path is without its first slash. The name before that segment is part of the entity's
// name.
func entityOf(path string, apart int) entity {
	if apart <= 0 || apart > mostDepth {
		return entity{}
	}
	segments := strings.SplitN("/"+path, "/", apart+2)
	if len(segments) <= apart || !identifies(segments[apart]) {
		return entity{}
	}
	before := segments[apart-1]
	if before == "" || isValue(before, false) {
		before = "*"
	}
	return entity{segment: apart, name: before + "/" + keyOf(segments[apart])}
}
