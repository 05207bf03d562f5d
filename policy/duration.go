package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the smallest images have no time zones

	"github.com/abide-proxy/abide/internal/lists"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
	// longest is more than any setting needs, and far from overflowing.
	longest = 1000 * day
)

// durations are the units of time, longer ones first.
var durations = []unit{
	{int64(week), []string{"w", "week", "weeks"}},
	{int64(day), []string{"d", "day", "days"}},
	{int64(time.Hour), []string{"h", "hr", "hrs", "hour", "hours"}},
	{int64(time.Minute), []string{"m", "min", "mins", "minute", "minutes"}},
	{int64(time.Second), []string{"s", "sec", "secs", "second", "seconds"}},
	{int64(time.Millisecond), []string{"ms", "msec", "millisecond", "milliseconds"}},
}

// durationAt is the index of a unit of time, -1 if there is no such unit. A capital M
// alone is no unit: it may stand for a month.
func durationAt(name string) int {
	if name == "M" {
		return -1
	}
	return unitAt(durations, name)
}

// ParseDuration reads a duration of more than nothing.
func ParseDuration(s string) (time.Duration, error) {
	d, err := ParseWait(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("%s is no time at all; write a duration such as 500ms", Quote(s))
	}
	return d, err
}

// ParseWait reads 0, 500ms, 90s, 1h30m, 1.5s, 1d, 15 minutes, 1 hour 30 min. 0 as the longest wait that a
// client accepts means: now or not at all.
func ParseWait(s string) (time.Duration, error) {
	switch s = strings.TrimSpace(s); {
	case s == "0":
		return 0, nil
	case s == "":
		return 0, errors.New("has no value; write a duration such as 15m")
	case strings.Trim(s, "0123456789._") == "":
		return 0, fmt.Errorf("%s needs a unit, such as %ss or %sm", Quote(s), s, s)
	case s[0] == '-':
		return 0, fmt.Errorf("%s is less than no time", Quote(s))
	}
	var total int64
	last := -1 // unit of the part before
	for rest := s; rest != ""; {
		number, name, more := cutPart(rest)
		i := durationAt(name)
		switch {
		case number == "":
			return 0, fmt.Errorf("%s is not a duration; write a number and a unit, such as 500ms, 90s, 15m or 1h30m", Quote(s))
		case i < 0:
			return 0, fmt.Errorf("%s %w", Quote(s), noUnit(s, name))
		case i <= last:
			return 0, fmt.Errorf("%s has its units out of order; write the larger first, such as 1h30m", Quote(s))
		case more != "" && strings.Contains(number, "."):
			return 0, fmt.Errorf("%s has a fraction that is not in its last part", Quote(s))
		}
		n, err := scaled(number, durations[i].size)
		if err != nil {
			return 0, fmt.Errorf("%s %w", Quote(s), err)
		}
		if total += n; total > int64(longest) {
			return 0, fmt.Errorf("%s is more than %s", Quote(s), formatDuration(longest))
		}
		rest, last = more, i
	}
	return time.Duration(total), nil
}

// noUnit tells what to write instead of an unknown unit of time.
func noUnit(s, name string) error {
	near := nearest(name, slices.Concat(lists.Map(durations, func(u unit) []string { return u.names })...))
	switch {
	case name == "":
		return errors.New("has a number without a unit; write the unit, such as 1h30m")
	case strings.HasPrefix(strings.ToLower(name), "mon") || strings.HasPrefix(strings.ToLower(name), "y"):
		return errors.New("has a unit without a fixed length; write days, such as 30d, or per: month for a quota of the calendar")
	case name == "M":
		near = "m"
	}
	if near != "" {
		return fmt.Errorf("has the unit %s; did you mean %q?", Quote(name), strings.Replace(s, name, near, 1))
	}
	return fmt.Errorf("has the unit %s, which is none of ms, s, m, h, d, w", Quote(name))
}

// formatDuration is the duration as it would be written. Weeks read worse than days.
func formatDuration(d time.Duration) string {
	days, rest := d/day, d%day
	text := when(days > 0, strconv.FormatInt(int64(days), 10)+"d")
	switch {
	case rest >= time.Second:
		return text + withoutZeros.Replace(rest.String())
	case rest > 0:
		return text + strconv.FormatFloat(float64(rest)/float64(time.Millisecond), 'f', -1, 64) + "ms"
	}
	return cmp.Or(text, "0s")
}

// withoutZeros leaves units of which there are none out of a duration: 1h0m0s is 1h.
var withoutZeros = strings.NewReplacer("h0m0s", "h", "h0m", "h", "m0s", "m")

// parseTimeUnit reads the unit of a bare number: ms, s, m, h, d, or a length such as 10s.
func parseTimeUnit(s string) (time.Duration, error) {
	v, err := parseWindow(s)
	if err != nil {
		err = fmt.Errorf("%s is not a unit of time; write ms, s, m, h or d", Quote(s))
	}
	return v, err
}

// DurationWithin returns the reader of a duration within bounds.
func DurationWithin(least, most time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := ParseDuration(s)
		switch {
		case err != nil:
		case d < least:
			err = fmt.Errorf("%s is less than %s", Quote(s), formatDuration(least))
		case d > most:
			err = fmt.Errorf("%s is more than %s", Quote(s), formatDuration(most))
		}
		return d, err
	}
}

// parseStall reads how long a body may stand still: servers and networks pause for up to a second by
// themselves.
var parseStall = DurationWithin(time.Second, day)

// ParseZone reads the IANA name of a time zone.
func ParseZone(s string) (*time.Location, error) {
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" || s == "Local" {
		return nil, fmt.Errorf("%s is not a time zone such as UTC or Europe/Berlin", Quote(s))
	}
	return zone, nil
}

// parseTimezone reads what ParseZone reads, and keeps the name.
func parseTimezone(s string) (string, error) {
	_, err := ParseZone(s)
	return s, err
}

// lengthPattern matches what ParseWait reads besides 0, but for the order of the units.
func lengthPattern() string { return `(?:` + decimalPattern + ` *` + unitPattern(durations) + ` *)+` }

// DurationNode describes the values that ParseDuration reads.
func DurationNode() Node {
	return PatternNode(`^\s*`+lengthPattern()+`$`).suchAs("500ms", "90s", "15m").shared("duration")
}

// timeUnitNode describes the values that parseTimeUnit reads.
func timeUnitNode() Node {
	return PatternNode(`^\s*(?:`+unitPattern(durations)+`|`+lengthPattern()+`)$`).suchAs("s", "ms").shared("unit_of_time")
}

// TimezoneNode describes the values that parseTimezone reads, as far as a pattern tells.
func TimezoneNode() Node { return PatternNode(`^[A-Za-z]`).suchAs("UTC", "Europe/Berlin") }

// Period is a length of time, or a calendar period, which has none.
type Period struct {
	Length   time.Duration
	Calendar string // day | week | month
}

// String is the period as it is written.
func (p Period) String() string {
	if p.Calendar != "" {
		return p.Calendar
	}
	return formatDuration(p.Length)
}

// Rate is an amount per second.
type Rate float64

// String is the rate as it is written.
func (r Rate) String() string {
	return strconv.FormatFloat(float64(r), 'g', 6, 64) + "/s"
}

// calendars are the names of calendar periods.
var calendars = []string{"day", "week", "month"}

// parseWindow reads the time behind the slash of a rate: a duration, or a unit alone,
// which is one of it.
func parseWindow(s string) (time.Duration, error) {
	if i := durationAt(s); i >= 0 {
		return time.Duration(durations[i].size), nil
	}
	return ParseDuration(s)
}

// parsePeriod reads the window of a limit: a calendar period, or what parseWindow
// reads.
func parsePeriod(s string) (Period, error) {
	s = strings.TrimSpace(s)
	for _, word := range calendars {
		if strings.EqualFold(s, word) {
			return Period{Calendar: word}, nil
		}
	}
	switch strings.ToLower(s) {
	case "d", "days":
		return Period{}, fmt.Errorf("%s may mean two things; write day for days of the calendar, or 1d for any 24 hours", Quote(s))
	case "w", "weeks":
		return Period{}, fmt.Errorf("%s may mean two things; write week for weeks of the calendar, or 1w for any 7 days", Quote(s))
	}
	length, err := parseWindow(s)
	if err == nil {
		return Period{Length: length}, nil
	}
	if near := nearest(s, append([]string{"hour", "minute", "second"}, calendars...)); near != "" {
		err = fmt.Errorf("%s is not a time; did you mean %q?", Quote(s), near)
	}
	return Period{}, err
}

// cutWindow parts an amount from the window that is written with it: 5/s, 5/15m,
// 5 per minute.
func cutWindow(s string) (amount, window string, found bool) {
	amount, window, found = strings.Cut(s, "/")
	if !found {
		amount, window, found = strings.Cut(s, " per ")
	}
	return strings.TrimSpace(amount), strings.TrimSpace(window), found
}

// parseRate reads an amount per time: 2/s, 0.2/s, 100/m, 3/10s, 2 per minute.
func parseRate(s string) (Rate, error) {
	amount, per, found := cutWindow(s)
	if !found {
		if _, err := scaled(s, 1); err == nil {
			return 0, fmt.Errorf("%s is not a rate; did you mean %q?", Quote(s), s+"/s")
		}
		return 0, fmt.Errorf("%s is not a rate; write an amount and a time, such as 2/s, 100/m or 3/10s", Quote(s))
	}
	length, err := parseWindow(per)
	if err != nil {
		return 0, fmt.Errorf("%s is not a rate, such as 2/s, 100/m or 3/10s: %w", Quote(s), err)
	}
	n, err := scaled(amount, 1e9)
	if err != nil {
		return 0, fmt.Errorf("%s %w", Quote(s), err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s lets nothing pass, ever", Quote(s))
	}
	return Rate(float64(n) / 1e9 / length.Seconds()), nil
}

// perPattern matches what parts an amount from its window.
const perPattern = `\s*(?:/| per )\s*`

// windowPattern matches what parsePeriod reads.
func windowPattern() string {
	units := unitPattern(durations, "d", "days", "w", "weeks") // which may mean two things
	return `(?:` + anyCase("month") + `|` + units + `|` + lengthPattern() + `)`
}

// ratePerNode is a limit that is a rate alone.
func ratePerNode() Node {
	return PatternNode(`^\s*`+positivePattern+perPattern+windowPattern()+`\s*$`).suchAs("5/s", "900 per 15m").shared("rate_alone")
}

// amountPerNode is an amount that may have its window behind it.
func amountPerNode() Node {
	return numberNode(1, mostAmount, `^\s*`+positivePattern+`(?:`+perPattern+windowPattern()+`)?\s*$`).suchAs(900, "5/s").shared("amount")
}

// rateNode describes the values that parseRate reads.
func rateNode() Node {
	return PatternNode(`^\s*`+decimalPattern+perPattern+`(?:`+unitPattern(durations)+`|`+lengthPattern()+`)\s*$`).suchAs("2/s", "100/m").shared("rate")
}
