package policy

import (
	"fmt"
	"net/netip"
	"strings"
)

// quote keeps what a stranger wrote short and printable.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// clip makes a mistyped key short and printable.
func clip(s string) string {
	const most = 80
	printable := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if len(printable) > most {
		return strings.ToValidUTF8(printable[:most], "") + "…"
	}
	return printable
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// cutLast is strings.Cut at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// and joins words with commas, the last with "and".
func and(words []string) string {
	before, last, several := cutLast(strings.Join(words, ", "), ", ")
	if !several {
		return before
	}
	return before + " and " + last
}

// someOf is a list that may be a long one.
func someOf(words []string) string {
	const most = 8
	if n := len(words); n > most {
		words = append(words[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(words, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func line(b *strings.Builder, name, format string, args ...any) {
	fmt.Fprintf(b, "%-15s %s\n", name, fmt.Sprintf(format, args...))
}

func prefixes(list []netip.Prefix) string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}
