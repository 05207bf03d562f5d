package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/abide-proxy/abide/internal/lists"
)

// Quote makes a text of a stranger short and printable.
func Quote(s string) string {
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

func line(b *parts, name, format string, args ...any) {
	if name != "" {
		*b = append(*b, Part{About: name})
	}
	last := &(*b)[len(*b)-1]
	last.Says = append(last.Says, fmt.Sprintf(format, args...))
}

// texts returns the texts of some values.
func texts[T fmt.Stringer](values []T) []string {
	return lists.Map(values, T.String)
}

func prefixes(list []netip.Prefix) string { return strings.Join(texts(list), ", ") }

// parseLabel reads a text that is shown: short, printable and not empty.
func parseLabel(s string) (string, error) {
	const most = 200
	switch {
	case strings.TrimSpace(s) == "":
		return "", errors.New("is empty")
	case len(s) > most:
		return "", fmt.Errorf("is longer than %d characters", most)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", errors.New("has a control character")
	}
	return s, nil
}

// parseMethod reads a request method as it is sent, which is upper case in practice.
func parseMethod(s string) (string, error) {
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return "", fmt.Errorf("%s is not a method such as GET%s", Quote(s),
				DidYouMean(s, []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}))
		}
	}
	if s == "" {
		return "", errors.New("is empty")
	}
	return s, nil
}

func methodNode() Node { return PatternNode("^[A-Z]+$").suchAs("GET") }

// DidYouMean is the end of an error about an unknown word, such as `; did you mean "limits"?`,
// with the known word of which it is a likely misspelling; "" if there is none.
func DidYouMean(wrong string, words []string) string {
	if suggestion := nearest(wrong, words); suggestion != "" {
		return `; did you mean "` + suggestion + `"?`
	}
	return ""
}

// nearest is the known word of which wrong is a likely misspelling; "" if there is none.
func nearest(wrong string, words []string) string {
	const longestWord = 64 // the distance is quadratic; longer words are no misspellings
	if wrong == "" || len(wrong) > longestWord {
		return ""
	}
	written := bare(wrong)
	best, least := "", 2*longestWord
	for _, w := range words {
		meant := bare(w)
		if written == meant {
			return w
		}
		if a, b := stem(written), stem(meant); len(b) > 2 && near(a, b) {
			if far := distance(a, b) + distance(written, meant); far < least {
				best, least = w, far
			}
		}
	}
	return best
}

// near tells whether a word is likely a misspelling of another. Both are bare stems.
func near(wrong, meant string) bool {
	short := min(len(wrong), len(meant))
	mistakes := 1
	switch {
	case short < 2:
		return false
	case short >= 12:
		mistakes = 3
	case short >= 7:
		mistakes = 2
	}
	if distance(wrong, meant) > mistakes {
		return false
	}
	if wrong[0] != meant[0] {
		// The first letter was left out or swapped with the second: cost is not a
		// misspelling of host, nor is ghost.
		left := len(wrong) > 3 && len(wrong) < len(meant)
		return wrong[0] == meant[1] && (left || wrong[1] == meant[0])
	}
	// In a short word, another letter makes another word: may is not max.
	return short > 4 || len(wrong) != len(meant) || sameLetters(wrong, meant)
}

// sameLetters tells whether two words are permutations of the same letters.
func sameLetters(a, b string) bool {
	for i := range len(a) {
		if strings.Count(a, a[i:i+1]) != strings.Count(b, a[i:i+1]) {
			return false
		}
	}
	return len(a) == len(b)
}

// bare removes separators: perSite, per-site and per_site are equal.
func bare(s string) string {
	s = strings.TrimPrefix(s, "ABIDE_") // the prefix of all variables
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(s))
}

// stem is a word without its plural s.
func stem(s string) string {
	if len(s) > 4 {
		return strings.TrimSuffix(s, "s")
	}
	return s
}

// distance counts the letters to add, drop, change or swap with their
// neighbour to get from a to b (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
