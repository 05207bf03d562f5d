package policy

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/abide-proxy/abide/internal/lists"
)

// unit is a unit of time or of size. The first name is the one that abide writes.
type unit struct {
	size  int64 // in nanoseconds or bytes
	names []string
}

// wholeForm and decimalForm match what parseCount and scaled read. A comma or a point between
// thousands is refused, since either is a decimal point somewhere.
var wholeForm, decimalForm = regexp.MustCompile("^" + wholePattern + "$"), regexp.MustCompile("^" + decimalPattern + "$")

// parseCount reads a whole number in digits.
func parseCount(s string, least, most int64) (int64, error) {
	if !wholeForm.MatchString(s) {
		if s == "" {
			return 0, errors.New("has no value; write a whole number")
		}
		if plain := strings.NewReplacer(",", "", "_", "", " ", "", "'", "").Replace(s); plain != s && digits(plain) && plain[0] != '0' {
			return 0, fmt.Errorf("%s is not a whole number; write %s or %s", Quote(s), plain, group(plain))
		}
		return 0, fmt.Errorf("%s is not a whole number; write digits alone, such as 1000", Quote(s))
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	switch {
	case err != nil || n > most:
		return 0, fmt.Errorf("%s is more than %d", Quote(s), most)
	case n < least:
		return 0, fmt.Errorf("%s is less than %d", Quote(s), least)
	}
	return n, nil
}

// parseSwitch reads true or false, on or off.
func parseSwitch(s string) (bool, error) {
	switch s {
	case "true", "on":
		return true, nil
	case "false", "off":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false (on and off will do)", Quote(s))
}

// ParseWord parses one of the allowed words.
func ParseWord(s string, words ...string) (string, error) {
	if slices.Contains(words, s) {
		return s, nil
	}
	return "", fmt.Errorf("%s is none of %s%s", Quote(s), strings.Join(words, ", "), DidYouMean(s, words))
}

// cutPart splits off one number and its unit, with or without a space between them.
func cutPart(s string) (number, name, rest string) {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.' || s[i] == '_') {
		i++
	}
	after := strings.TrimLeft(s[i:], " ")
	j := 0
	for j < len(after) && (after[j] < '0' || after[j] > '9') && after[j] != '.' && after[j] != ' ' {
		j++
	}
	return s[:i], after[:j], strings.TrimLeft(after[j:], " ")
}

// unitAt is the index of the unit that has a name, in letters of either case.
func unitAt(units []unit, name string) int {
	return slices.IndexFunc(units, func(u unit) bool {
		return slices.ContainsFunc(u.names, func(word string) bool { return strings.EqualFold(word, name) })
	})
}

// group is a number of digits with underscores between its thousands.
func group(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "_" + s[i:]
	}
	return s
}

var (
	errNumber   = errors.New("has a number that is not digits, with at most one point and nine digits behind it")
	errTooLarge = errors.New("is too large")
)

// scaled is a decimal number times unit, in exact arithmetic. What is finer than
// one of the result is cut off.
func scaled(number string, unit int64) (int64, error) {
	if !decimalForm.MatchString(number) {
		return 0, errNumber
	}
	number = strings.ReplaceAll(number, "_", "")
	if whole, _, _ := strings.Cut(number, "."); len(whole) > 19 { // no int64 has more
		return 0, errTooLarge
	}
	exact, _ := new(big.Rat).SetString(number)
	exact.Mul(exact, new(big.Rat).SetInt64(unit))
	n := new(big.Int).Quo(exact.Num(), exact.Denom())
	if !n.IsInt64() {
		return 0, errTooLarge
	}
	return n.Int64(), nil
}

// Size is a number of bytes.
type Size int64

// Sizes, as they are written.
const (
	kib Size = 1 << 10
	mib Size = 1 << 20
	gib Size = 1 << 30
)

// sizes are the units of sizes, larger ones first. Letters of either case mean the
// same: a small b is a byte here, and never a bit.
var sizes = []unit{
	{1 << 40, []string{"TiB"}},
	{1e12, []string{"TB"}},
	{1 << 30, []string{"GiB"}},
	{1e9, []string{"GB"}},
	{1 << 20, []string{"MiB"}},
	{1e6, []string{"MB"}},
	{1 << 10, []string{"KiB"}},
	{1e3, []string{"kB"}},
	{1, []string{"B", "byte", "bytes"}},
}

// ParseSize reads 500B, 1kB, 1MB = 10^6 bytes, 1MiB = 2^20 bytes, and the same as
// 1mb or 1 MB.
func ParseSize(s string) (Size, error) {
	switch s = strings.TrimSpace(s); {
	case s == "":
		return 0, errors.New("has no value; write a size such as 1MiB")
	case strings.Trim(s, "0123456789._") == "":
		return 0, fmt.Errorf("%s needs a unit, such as %sB or %sMiB", Quote(s), s, s)
	}
	number, name, more := cutPart(s)
	i := unitAt(sizes, name)
	switch {
	case number != "" && more == "" && i < 0 && unitAt(sizes, name+"B") >= 0:
		return 0, fmt.Errorf("%s is not a size; did you mean %q?", Quote(s), number+name+"B")
	case number == "" || more != "" || i < 0:
		return 0, fmt.Errorf("%s is not a size; write a number and a unit, such as 500B, 64KiB, 1MB or 1.5GB", Quote(s))
	}
	n, err := scaled(number, sizes[i].size)
	if err != nil {
		return 0, fmt.Errorf("%s %w", Quote(s), err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s is no bytes at all", Quote(s))
	}
	return Size(n), nil
}

// String is the size as it would be written.
func (s Size) String() string {
	if s == 0 {
		return "0B"
	}
	best := strconv.FormatInt(int64(s), 10) + "B"
	for _, u := range sizes {
		if int64(s)%u.size == 0 {
			if text := strconv.FormatInt(int64(s)/u.size, 10) + u.names[0]; len(text) < len(best) {
				best = text
			}
		}
	}
	return best
}

// sizePattern matches what ParseSize reads.
func sizePattern() string { return decimalPattern + ` *` + unitPattern(sizes) }

// SizeNode describes the values that ParseSize reads.
func SizeNode() Node {
	return PatternNode(`^\s*`+sizePattern()+`\s*$`).suchAs("64KiB", "1MB").shared("size")
}

// unitPattern matches the names of units, in letters of either case.
func unitPattern(units []unit, without ...string) string {
	var names []string
	for _, u := range units {
		for _, name := range u.names {
			if !slices.Contains(without, name) {
				names = append(names, anyCase(name))
			}
		}
	}
	return "(?:" + strings.Join(names, "|") + ")"
}

// Quote makes a text of a stranger short and printable.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// clip is Quote without the quotation marks.
func clip(s string) string { return strings.Trim(Quote(s), `"`) }

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

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

// given returns the sentences that are not empty.
func given(sentences ...string) []string {
	return slices.DeleteFunc(sentences, func(s string) bool { return s == "" })
}

// when returns a sentence if it holds, "" otherwise.
func when(holds bool, sentence string) string {
	if !holds {
		return ""
	}
	return sentence
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
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
		switch {
		case w == wrong:
			return "" // it is no misspelling
		case written == meant:
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
	return short > 4 || len(wrong) != len(meant) || slices.Equal(slices.Sorted(slices.Values([]byte(wrong))), slices.Sorted(slices.Values([]byte(meant))))
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
