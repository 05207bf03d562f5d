package status

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Number is a number with its noun, in the singular or the plural.
func Number(n int, singular, many string) string {
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Span is a duration rounded up to seconds: "1h5m", "2d3h".
func Span(d time.Duration) string {
	d = (d + time.Second - 1).Truncate(time.Second)
	if days := d / (24 * time.Hour); days >= 2 {
		return fmt.Sprintf("%dd%dh", days, d%(24*time.Hour)/time.Hour)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// MaxDetail is the longest text of an error, in bytes.
const MaxDetail = 300

// MaxListed bounds the sites, breakers and the like in a list.
const MaxListed = 100

// Far is the distance from which a time stands for "when something else is over".
const Far = 5 * 365 * 24 * time.Hour

// ErrorLine is the text of an error as one printable line of bounded length.
func ErrorLine(err error) string { return Line(err.Error()) }

// Line is a text of somebody else, such as a server, as one printable line of bounded length.
func Line(text string) string {
	text = Clean(text)
	if len(text) > MaxDetail {
		text = strings.ToValidUTF8(text[:MaxDetail], "") + "…"
	}
	return text
}

// known is a time in UTC, or zero for a time that stands for "not known" (after Far).
func known(at, now time.Time) time.Time {
	if at.Sub(now) > Far {
		return time.Time{}
	}
	return at.UTC()
}

// Clean is a text of somebody else without anything that steers a terminal.
func Clean(text string) string { return strings.Map(Printable, strings.ToValidUTF8(text, "\uFFFD")) }

// Printable replaces a character that is not printable, such as a line break, by a space.
func Printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// In is the time from now until another time: "in 9 min 05 s"; zero is "another is done".
func In(until, now time.Time) string {
	left := until.Sub(now)
	switch {
	case until.IsZero():
		return "another is done"
	case left <= 0:
		return "now"
	case left < time.Minute:
		return fmt.Sprintf("in %d s", (left+time.Second-1)/time.Second)
	case left < 24*time.Hour:
		return "in " + Long(left)
	}
	return until.UTC().Format("2 January 2006, 15:04 UTC")
}

// Long is a duration rounded down to seconds: "3 min 05 s".
func Long(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
}

// DurationOf is a number of seconds as the API has it.
func DurationOf(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// Spelled is a duration such as "8.8s" in the form of Long, with the parts of seconds below a minute: "8.8 s".
func Spelled(text string) string {
	if d, err := time.ParseDuration(text); err == nil && d < time.Minute {
		return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) + " s"
	} else if err == nil {
		return Long(d)
	}
	return text
}

// Ahead is In, or "" for a time that is over or not known.
func Ahead(until, now time.Time) string {
	if !until.After(now) {
		return ""
	}
	return In(until, now)
}

// Wrapped breaks a text into lines of at most width characters, unless a word is longer.
func Wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// Size is a number of bytes: "4.3 GB".
func Size(n uint64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for value >= 999.5 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	if value < 9.95 {
		return fmt.Sprintf("%.1f %s", value, units[unit])
	}
	return fmt.Sprintf("%.0f %s", value, units[unit])
}

var units = []string{"kB", "MB", "GB", "TB", "PB", "EB"}

// Count is a number with its thousands apart.
func Count(n uint64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return digits
}

// RateText is a rate for people: "3.75/s", "12 a minute". It has three digits.
func RateText(perSecond float64) string {
	per, unit := 1.0, "/s"
	switch {
	case perSecond < 1.0/3600:
		per, unit = 86400, " a day"
	case perSecond < 1.0/60:
		per, unit = 3600, " an hour"
	case perSecond < 1:
		per, unit = 60, " a minute"
	case perSecond >= 1000:
		return strconv.FormatFloat(math.Round(perSecond), 'f', 0, 64) + unit
	}
	return strconv.FormatFloat(perSecond*per, 'g', 3, 64) + unit
}

// PerSecond formats a rate: "0", "0.3", "42".
func PerSecond(rate float64) string {
	switch {
	case rate <= 0:
		return "0"
	case rate < 0.05:
		return "< 0.1"
	case rate < 9.95:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return Count(uint64(math.Round(rate)))
}

// Grouped is the name of a limit with the thousands of its amount apart: "12 000 tokens per 1m", "at most 32 in flight".
func Grouped(name string) string {
	digits := len(name) - len(strings.TrimLeft(name, "0123456789"))
	if n, err := strconv.ParseUint(name[:digits], 10, 64); err == nil {
		if strings.HasPrefix(name[digits:], " in flight") {
			return "at most " + Count(n) + name[digits:]
		}
		return Count(n) + name[digits:]
	}
	return name
}

// Until is ", until" and a time, or "" for zero.
func Until(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return ", until " + when(at, now)
}

// when is a time as the clock shows it, and how long it is until then.
func when(at, now time.Time) string {
	left := at.Sub(now)
	if at.IsZero() || left <= 0 || left >= 24*time.Hour {
		return In(at, now)
	}
	return at.Add(time.Second-1).UTC().Format("15:04:05 UTC") + " (" + In(at, now) + ")"
}

// Earlier returns the earlier of two times. A zero time is not known.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Since says since when something is so, with the date if that is a day or more, "" for zero.
func Since(at, now time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case now.Sub(at) >= 24*time.Hour:
		return at.UTC().Format("since 2 January 2006, 15:04 UTC")
	}
	return at.UTC().Format("since 15:04:05 UTC")
}

// Ago says how long a time is past, by clocks that need not agree.
func Ago(at, now time.Time) string {
	switch past := now.Sub(at); {
	case at.IsZero():
		return "-"
	case past < time.Second:
		return "now"
	default:
		return Long(past) + " ago"
	}
}

// listed is a copy of a list in order, not null, and at most so long.
func listed[T any](list []T, most int, compare func(a, b T) int) []T {
	list = append([]T{}, list...)
	slices.SortStableFunc(list, compare)
	return list[:min(len(list), most)]
}

// Finite is a number, or 0 for a number that JSON does not have.
func Finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// heading is a line with space around it.
func heading(w io.Writer, text string) {
	say(w, "")
	say(w, "%s", text)
	say(w, "")
}

// rest says how many there are beside those that are listed, if any, and where these are.
func rest(w io.Writer, more int, where string) {
	if more > 0 {
		say(w, "and %s%s", Number(more, "other", "others"), where)
	}
}

// below writes the rows, if there are more than the head, below a heading. more of them are somewhere else.
func (t *Table) below(w io.Writer, title string, more int, where string) {
	if len(t.rows) > 1 {
		heading(w, title)
		t.Write(w)
		rest(w, more, where)
	}
}

// say writes one line.
func say(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, Clean(fmt.Sprintf(format, args...))+"\n")
}

// maxCell bounds the characters of a line of a cell, and maxLines the lines.
const maxCell, maxLines = 64, 8

// Table is rows for people, in columns as wide as what is in them.
type Table struct {
	Numbers []int // columns whose cells stand to the right
	rows    [][]string
}

// Add adds a row. It has no cell that can steer a terminal. A long cell takes several lines, but for a name in the first column.
func (t *Table) Add(cells ...string) {
	first := len(t.rows)
	for i, cell := range cells {
		lines := []string{Clean(cell)}
		if i > 0 && utf8.RuneCountInString(cell) > maxCell {
			lines = Wrapped(lines[0], maxCell)
		}
		for n, line := range lines[:min(len(lines), maxLines)] {
			if runes := []rune(line); len(runes) > maxCell {
				line = string(runes[:maxCell-1]) + "…"
			}
			if first+n == len(t.rows) {
				t.rows = append(t.rows, make([]string, len(cells)))
			}
			t.rows[first+n][i] = line
		}
	}
}

// Write writes the rows.
func (t *Table) Write(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, one := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(one))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, one := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(one))
			if slices.Contains(t.Numbers, i) {
				line.WriteString(space + one)
			} else {
				line.WriteString(one + space)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, _ = io.WriteString(w, b.String())
}
