package policy

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// unit is a unit of time or of size. The first name is the one that abide writes.
type unit struct {
	size  int64 // in nanoseconds or bytes
	names []string
}

// parseCount reads a whole number in digits.
func parseCount(s string, least, most int64) (int64, error) {
	number, ok := ungroup(s)
	if !ok || !digits(number) || len(number) > 1 && number[0] == '0' {
		if s == "" {
			return 0, errors.New("has no value; write a whole number")
		}
		if plain := strings.NewReplacer(",", "", "_", "", " ", "", "'", "").Replace(s); plain != s && digits(plain) && plain[0] != '0' {
			return 0, fmt.Errorf("%s is not a whole number; write %s or %s", Quote(s), plain, group(plain))
		}
		return 0, fmt.Errorf("%s is not a whole number; write digits alone, such as 1000", Quote(s))
	}
	n, err := strconv.ParseInt(number, 10, 64)
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

// ungroup removes the underscores that part the thousands of a number: 1_000_000.
// A comma or a point between them is refused, since either is a decimal point
// somewhere.
func ungroup(s string) (string, bool) {
	if !strings.Contains(s, "_") {
		return s, true
	}
	groups := strings.Split(s, "_")
	for i, one := range groups {
		if !digits(one) || len(one) > 3 || i > 0 && len(one) != 3 {
			return s, false
		}
	}
	return strings.Join(groups, ""), true
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
	whole, fraction, point := strings.Cut(number, ".")
	whole, ok := ungroup(whole)
	if !ok || !digits(whole) || len(whole) > 1 && whole[0] == '0' || point && !digits(fraction) || len(fraction) > 9 {
		return 0, errNumber
	}
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil {
		return 0, errTooLarge
	}
	hi, lo := bits.Mul64(n, uint64(unit))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, errTooLarge
	}
	if point {
		f, _ := strconv.ParseUint(fraction, 10, 64) // nine digits fit
		ten := uint64(1)
		for range fraction {
			ten *= 10
		}
		hi, part := bits.Mul64(f, uint64(unit))
		part, _ = bits.Div64(hi, part, ten)
		lo += part
	}
	if lo > math.MaxInt64 {
		return 0, errTooLarge
	}
	return int64(lo), nil
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
