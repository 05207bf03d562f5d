package policy

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
	// longest is more than any setting needs, and far from overflowing.
	longest = 1000 * day
)

type scale struct {
	name string
	size int64
}

// The units, larger ones first.
var (
	durations = []scale{
		{"w", int64(week)},
		{"d", int64(day)},
		{"h", int64(time.Hour)},
		{"m", int64(time.Minute)},
		{"s", int64(time.Second)},
		{"ms", int64(time.Millisecond)},
	}
	sizes = []scale{
		{"TiB", 1 << 40},
		{"TB", 1e12},
		{"GiB", 1 << 30},
		{"GB", 1e9},
		{"MiB", 1 << 20},
		{"MB", 1e6},
		{"KiB", 1 << 10},
		{"kB", 1e3},
		{"KB", 1e3},
		{"B", 1},
	}
)

// parseCount reads a whole number in digits.
func parseCount(s string, least, most int64) (int64, error) {
	if !digits(s) || len(s) > 1 && s[0] == '0' {
		if s == "" {
			return 0, errors.New("has no value; write a whole number")
		}
		return 0, fmt.Errorf("%s is not a whole number; write digits alone, such as 1000", quote(s))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil || n > most:
		return 0, fmt.Errorf("%s is more than %d", quote(s), most)
	case n < least:
		return 0, fmt.Errorf("%s is less than %d", quote(s), least)
	}
	return n, nil
}

// ParseDuration reads a duration as it is written in the file.
func ParseDuration(s string) (time.Duration, error) { return parseDuration(s) }

// parseDuration reads 500ms, 90s, 1h30m, 1.5s, 1d.
func parseDuration(s string) (time.Duration, error) {
	switch {
	case s == "":
		return 0, errors.New("has no value; write a duration such as 15m")
	case strings.Trim(s, "0123456789.") == "":
		return 0, fmt.Errorf("%s needs a unit, such as %ss or %sm", quote(s), s, s)
	}
	var total int64
	last := -1 // unit of the part before
	for rest := s; rest != ""; {
		number, unit, more := cutPart(rest)
		i := unitAt(durations, unit)
		switch {
		case number == "":
			return 0, fmt.Errorf("%s is not a duration; write one such as 500ms, 90s, 15m or 1h30m", quote(s))
		case i < 0:
			return 0, fmt.Errorf("%s has the unit %s, which is none of ms, s, m, h, d, w", quote(s), quote(unit))
		case i <= last:
			return 0, fmt.Errorf("%s has its units out of order; write the larger first, such as 1h30m", quote(s))
		case more != "" && strings.Contains(number, "."):
			return 0, fmt.Errorf("%s has a fraction that is not in its last part", quote(s))
		}
		n, err := scaled(number, durations[i].size)
		if err != nil {
			return 0, fmt.Errorf("%s %w", quote(s), err)
		}
		if total += n; total > int64(longest) {
			return 0, fmt.Errorf("%s is more than %s", quote(s), formatDuration(longest))
		}
		rest, last = more, i
	}
	if total == 0 {
		return 0, fmt.Errorf("%s is no time at all", quote(s))
	}
	return time.Duration(total), nil
}

// parseSize reads 500B, 1kB, 1MB = 10^6 bytes, 1MiB = 2^20 bytes.
func parseSize(s string) (Size, error) {
	switch {
	case s == "":
		return 0, errors.New("has no value; write a size such as 1MiB")
	case strings.Trim(s, "0123456789.") == "":
		return 0, fmt.Errorf("%s needs a unit, such as %sB or %sMiB", quote(s), s, s)
	}
	number, unit, more := cutPart(s)
	i := unitAt(sizes, unit)
	if number == "" || more != "" || i < 0 {
		return 0, fmt.Errorf("%s is not a size; write one such as 500B, 64KiB, 1MB or 1.5GB", quote(s))
	}
	n, err := scaled(number, sizes[i].size)
	if err != nil {
		return 0, fmt.Errorf("%s %w", quote(s), err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s is no bytes at all", quote(s))
	}
	return Size(n), nil
}

// parseRate reads an amount per time: 2/s, 0.2/s, 100/m, 3/10s.
func parseRate(s string) (Rate, error) {
	amount, per, found := strings.Cut(s, "/")
	if !found {
		return 0, fmt.Errorf("%s is not a rate; write one such as 2/s, 100/m or 3/10s", quote(s))
	}
	if per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per
	}
	length, err := parseDuration(per)
	if err != nil {
		return 0, fmt.Errorf("%s is not a rate; write one such as 2/s, 100/m or 3/10s", quote(s))
	}
	n, err := scaled(amount, 1e9)
	if err != nil {
		return 0, fmt.Errorf("%s %w", quote(s), err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s lets nothing pass, ever", quote(s))
	}
	return Rate(float64(n) / 1e9 / length.Seconds()), nil
}

// parseSwitch reads true or false, on or off.
func parseSwitch(s string) (bool, error) {
	switch s {
	case "true", "on":
		return true, nil
	case "false", "off":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false (on and off will do)", quote(s))
}

// parseWord reads one of a few words.
func parseWord(s string, words ...string) (string, error) {
	for _, w := range words {
		if s == w {
			return w, nil
		}
	}
	return "", fmt.Errorf("%s is none of %s%s", quote(s), strings.Join(words, ", "), didYouMean(s, words))
}

// cutPart splits off one number and its unit.
func cutPart(s string) (number, unit, rest string) {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	j := i
	for j < len(s) && (s[j] < '0' || s[j] > '9') && s[j] != '.' {
		j++
	}
	return s[:i], s[i:j], s[j:]
}

func unitAt(units []scale, name string) int {
	for i, u := range units {
		if u.name == name {
			return i
		}
	}
	return -1
}

var (
	errNumber   = errors.New("has a number that is not digits, with at most one point and nine digits behind it")
	errTooLarge = errors.New("is too large")
)

// scaled is a decimal number times unit, in exact arithmetic. What is finer than
// one of the result is cut off.
func scaled(number string, unit int64) (int64, error) {
	whole, fraction, point := strings.Cut(number, ".")
	if !digits(whole) || len(whole) > 1 && whole[0] == '0' || point && !digits(fraction) || len(fraction) > 9 {
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

// formatDuration is the duration as it would be written.
func formatDuration(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	var b strings.Builder
	rest := int64(d)
	for _, u := range durations[1:] { // weeks read worse than days
		if u.name == "ms" {
			break
		}
		if u.name == "s" && rest%int64(time.Second) != 0 && (b.Len() > 0 || rest > int64(time.Second)) {
			// 1.5s, since a part in ms would be the last one anyway
			b.WriteString(strconv.FormatFloat(float64(rest)/float64(time.Second), 'f', -1, 64) + "s")
			return b.String()
		}
		if n := rest / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			rest -= n * u.size
		}
	}
	if rest > 0 {
		b.WriteString(strconv.FormatFloat(float64(rest)/float64(time.Millisecond), 'f', -1, 64) + "ms")
	}
	return b.String()
}

// String is the size as it would be written.
func (s Size) String() string {
	if s == 0 {
		return "0B"
	}
	best := strconv.FormatInt(int64(s), 10) + "B"
	for _, u := range sizes {
		if int64(s)%u.size == 0 {
			if text := strconv.FormatInt(int64(s)/u.size, 10) + u.name; len(text) < len(best) {
				best = text
			}
		}
	}
	return best
}
