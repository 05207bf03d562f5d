package policy

import (
	"errors"
	"fmt"
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

// ParseWait reads how long somebody would wait, as a duration is written in the file.
// It may be 0: now or not at all.
func ParseWait(s string) (time.Duration, error) {
	if s = strings.TrimSpace(s); s == "0" {
		return 0, nil
	}
	return readDuration(s)
}

// parseDuration reads a duration of more than nothing.
func parseDuration(s string) (time.Duration, error) {
	d, err := readDuration(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("%s is no time at all", quote(s))
	}
	return d, err
}

// readDuration reads 500ms, 90s, 1h30m, 1.5s, 1d, 15 minutes, 1 hour 30 min.
func readDuration(s string) (time.Duration, error) {
	switch s = strings.TrimSpace(s); {
	case s == "":
		return 0, errors.New("has no value; write a duration such as 15m")
	case strings.Trim(s, "0123456789._") == "":
		return 0, fmt.Errorf("%s needs a unit, such as %ss or %sm", quote(s), s, s)
	case s[0] == '-':
		return 0, fmt.Errorf("%s is less than no time", quote(s))
	}
	var total int64
	last := -1 // unit of the part before
	for rest := s; rest != ""; {
		number, name, more := cutPart(rest)
		i := durationAt(name)
		switch {
		case number == "":
			return 0, fmt.Errorf("%s is not a duration; write a number and a unit, such as 500ms, 90s, 15m or 1h30m", quote(s))
		case i < 0:
			return 0, fmt.Errorf("%s %w", quote(s), noUnit(s, name))
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
	return time.Duration(total), nil
}

// noUnit says what to write instead of a unit of time that does not exist.
func noUnit(s, name string) error {
	var names []string
	for _, u := range durations {
		names = append(names, u.names...)
	}
	near := nearest(name, names)
	switch {
	case name == "":
		return errors.New("has a number without a unit; write the unit, such as 1h30m")
	case strings.HasPrefix(strings.ToLower(name), "mon") || strings.HasPrefix(strings.ToLower(name), "y"):
		return errors.New("has a unit without a fixed length; write days, such as 30d, or per: month for a quota of the calendar")
	case name == "M":
		near = "m"
	}
	if near != "" {
		return fmt.Errorf("has the unit %s; did you mean %q?", quote(name), strings.Replace(s, name, near, 1))
	}
	return fmt.Errorf("has the unit %s, which is none of ms, s, m, h, d, w", quote(name))
}

// parseWindow reads the time behind the slash of a rate: a duration, or a unit alone,
// which is one of it.
func parseWindow(s string) (time.Duration, error) {
	if i := durationAt(s); i >= 0 {
		return time.Duration(durations[i].size), nil
	}
	return parseDuration(s)
}

// calendars are the words for periods of the calendar.
var calendars = []string{"day", "week", "month"}

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
		return Period{}, fmt.Errorf("%s may mean two things; write day for days of the calendar, or 1d for any 24 hours", quote(s))
	case "w", "weeks":
		return Period{}, fmt.Errorf("%s may mean two things; write week for weeks of the calendar, or 1w for any 7 days", quote(s))
	}
	length, err := parseWindow(s)
	if err == nil {
		return Period{Length: length}, nil
	}
	if near := nearest(s, append([]string{"hour", "minute", "second"}, calendars...)); near != "" {
		err = fmt.Errorf("%s is not a time; did you mean %q?", quote(s), near)
	}
	return Period{}, err
}

// formatDuration is the duration as it would be written.
func formatDuration(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	var b strings.Builder
	rest := int64(d)
	for _, u := range durations[1:] { // weeks read worse than days
		if u.names[0] == "ms" {
			break
		}
		if u.names[0] == "s" && rest%int64(time.Second) != 0 && (b.Len() > 0 || rest > int64(time.Second)) {
			// 1.5s, since a part in ms would be the last one anyway
			b.WriteString(strconv.FormatFloat(float64(rest)/float64(time.Second), 'f', -1, 64) + "s")
			return b.String()
		}
		if n := rest / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.names[0])
			rest -= n * u.size
		}
	}
	if rest > 0 {
		b.WriteString(strconv.FormatFloat(float64(rest)/float64(time.Millisecond), 'f', -1, 64) + "ms")
	}
	return b.String()
}
