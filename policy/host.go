package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Lengths that DNS sets, without the trailing dot.
const (
	maxHost  = 253
	maxLabel = 63
)

var (
	errHostEmpty    = errors.New("is empty")
	errHostLong     = fmt.Errorf("is longer than %d characters", maxHost)
	errHostChar     = errors.New("has a character that no host name has")
	errHostPercent  = errors.New("is percent-encoded; write the name itself")
	errHostIPv4     = errors.New("ends in a number but is not an IPv4 address")
	errHostBrackets = errors.New("has brackets, which only go around an IPv6 address")
)

// lookup maps a name as browsers do before they look it up (UTS 46, not
// transitional). Unlike RFC 5891 it lets real names pass: _dmarc.example.com,
// r3---sn.example.com, trailing-.example.com.
var lookup = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.BidiRule(),
	idna.CheckJoiners(true),
	idna.StrictDomainName(false),
	idna.CheckHyphens(false),
)

// CanonicalHost is the one spelling of a host that policy, certificates, limits
// and dialing share: a name in lower case and in ASCII without trailing dot, an
// IPv4 address as four decimal numbers whatever its spelling (127.1, 0x7f.1,
// 2130706433, ::ffff:127.0.0.1), an IPv6 address as RFC 5952 writes it, without
// brackets. It is idempotent, and does not allocate for a name or an address
// that is canonical already, unless it has xn-- labels, which are checked anew.
func CanonicalHost(s string) (string, error) {
	if s == "" {
		return "", errHostEmpty
	}
	if len(s) > 4*(maxHost+1) { // the longest canonical name, spelt in four-byte runes
		return "", errHostLong
	}
	if s[0] == '[' {
		if len(s) < 2 || s[len(s)-1] != ']' {
			return "", errHostBrackets
		}
		inside := s[1 : len(s)-1]
		if !strings.Contains(inside, ":") {
			return "", errHostBrackets
		}
		return canonicalIPv6(inside)
	}
	if strings.IndexByte(s, ':') >= 0 {
		return canonicalIPv6(s)
	}
	if strings.ContainsFunc(s, unnamed) || strings.HasPrefix(s, "xn--") || strings.Contains(s, ".xn--") {
		mapped, err := mapName(s)
		if err != nil {
			return "", err
		}
		s = mapped
	}
	s = strings.TrimSuffix(s, ".")
	if err := checkLabels(s); err != nil {
		return "", err
	}
	if endsInNumber(s) {
		return canonicalIPv4(s)
	}
	return s, nil
}

// unnamed tells whether a character is in no name.
func unnamed(c rune) bool {
	return (c < 'a' || 'z' < c) && (c < '0' || '9' < c) && c != '-' && c != '.' && c != '_'
}

func mapName(s string) (string, error) {
	if strings.IndexByte(s, '%') >= 0 {
		return "", errHostPercent
	}
	if !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError) {
		return "", errHostChar // idna takes what is broken for a character of its own
	}
	mapped, err := lookup.ToASCII(s)
	if err != nil {
		return "", errors.New("is not a valid internationalised name")
	}
	at := strings.IndexFunc(mapped, unnamed)
	switch {
	case at < 0:
		return mapped, nil
	case mapped[at] == '%':
		return "", errHostPercent
	case mapped[at] == '[', mapped[at] == ']':
		return "", errHostBrackets
	}
	return "", errHostChar
}

func checkLabels(s string) error {
	if s == "" {
		return errHostEmpty
	}
	if len(s) > maxHost {
		return errHostLong
	}
	for label := range strings.SplitSeq(s, ".") {
		switch {
		case label == "":
			return errors.New("has an empty label (two dots in a row, or one in front)")
		case len(label) > maxLabel:
			return fmt.Errorf("has a label of more than %d characters", maxLabel)
		}
	}
	return nil
}

func canonicalIPv6(s string) (string, error) {
	if strings.IndexByte(s, '%') >= 0 {
		return "", errors.New("has an IPv6 zone, which means something on one machine only")
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Is4() {
		return "", errors.New("is not an IPv6 address")
	}
	return spell(addr.Unmap(), s), nil
}

// canonicalIPv4 reads what inet_aton and browsers read: one to four numbers,
// decimal, octal (0177) or hexadecimal (0x7f), the last filling what is left.
func canonicalIPv4(s string) (string, error) {
	var (
		parts [4]uint64
		n     int
	)
	for rest, more := s, true; more; n++ {
		var part string
		part, rest, more = strings.Cut(rest, ".")
		v, ok := legacyNumber(part)
		if n == len(parts) || !ok {
			return "", errHostIPv4
		}
		parts[n] = v
	}
	last := parts[n-1]
	if last >= 1<<(8*(5-n)) {
		return "", errHostIPv4
	}
	bits := last
	for i, v := range parts[:n-1] {
		if v > 255 {
			return "", errHostIPv4
		}
		bits |= v << (8 * (3 - i))
	}
	return spell(netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)}), s), nil
}

// endsInNumber tells whether the last label makes the whole an IPv4 address.
func endsInNumber(s string) bool {
	last := s[strings.LastIndexByte(s, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return digits(last)
}

// legacyNumber reads one part of an IPv4 address; more than 32 bits is not one.
func legacyNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case s == "0x":
		return 0, true
	case strings.HasPrefix(s, "0x"):
		base, s = 16, s[2:]
	case len(s) > 1 && s[0] == '0':
		base = 8
	}
	v, err := strconv.ParseUint(s, base, 32)
	return v, err == nil
}

// spell returns addr as text: s itself if both are equal, which saves an allocation.
func spell(addr netip.Addr, s string) string {
	var buf [48]byte
	if text := addr.AppendTo(buf[:0]); string(text) != s {
		return string(text)
	}
	return s
}
