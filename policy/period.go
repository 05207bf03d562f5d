package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
			return 0, fmt.Errorf("%s is not a rate; did you mean %q?", quote(s), s+"/s")
		}
		return 0, fmt.Errorf("%s is not a rate; write an amount and a time, such as 2/s, 100/m or 3/10s", quote(s))
	}
	length, err := parseWindow(per)
	if err != nil {
		return 0, fmt.Errorf("%s is not a rate, such as 2/s, 100/m or 3/10s: %w", quote(s), err)
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

// perPattern matches what parts an amount from its window.
const perPattern = `\s*(?:/| per )\s*`

// windowPattern matches what parsePeriod reads.
func windowPattern() string {
	units := unitPattern(durations, "d", "days", "w", "weeks") // which may mean two things
	return `(?:` + anyCase("month") + `|` + units + `|` + lengthPattern() + `)`
}

// periodNode is what parsePeriod reads.
func periodNode() node {
	return patternNode(`^\s*`+windowPattern()+`\s*$`).suchAs("15m", "day", "month").shared("window")
}

// ratePerNode is a limit that is a rate alone.
func ratePerNode() node {
	return patternNode(`^\s*`+positivePattern+perPattern+windowPattern()+`\s*$`).suchAs("5/s", "900 per 15m").shared("rate_alone")
}

// amountPerNode is an amount that may have its window behind it.
func amountPerNode() node {
	n := node{"type": []string{"integer", "string"}, "minimum": 1, "maximum": int64(mostAmount)}
	n["pattern"] = `^\s*` + positivePattern + `(?:` + perPattern + windowPattern() + `)?\s*$`
	return n.suchAs(900, "5/s").shared("amount")
}

// bytesPerNode is an amount of bytes that may have its window behind it.
func bytesPerNode() node {
	return patternNode(`^\s*`+sizePattern()+`(?:`+perPattern+windowPattern()+`)?\s*$`).suchAs("1MB", "1MB/m").shared("bytes")
}

// rateNode is what parseRate reads.
func rateNode() node {
	return patternNode(`^\s*`+decimalPattern+perPattern+`(?:`+unitPattern(durations)+`|`+lengthPattern()+`)\s*$`).suchAs("2/s", "100/m").shared("rate")
}
