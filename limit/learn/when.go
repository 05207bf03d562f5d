package learn

import (
	"strings"
	"time"
)

// maxAhead is the largest distance of a time in the future.
const maxAhead = 31 * 24 * time.Hour

// moment is a time named by a response.
type moment struct {
	at         time.Time     // by the local clock
	ahead      time.Duration // distance from now
	resolution time.Duration
	relative   bool
}

// clock parses the times in one response.
type clock struct {
	now     time.Time
	headers map[string][]string
	age     time.Duration // how long a cache has held the response

	skewKnown bool          // skew is known
	skew      time.Duration // local clock minus server's clock; 0: no more than rounding and delay explain
	dated     Skew          // by Date; without Applied and Reset
}

// minSkew is a difference that rounding of Date and network delay explain.
const minSkew = 2 * time.Second

// maxSkew bounds the skew, for clocks that were never set.
const maxSkew = 100 * 365 * 24 * time.Hour

// local converts a server's time to the local clock. A server's Date is cut to seconds, so
// this is the latest possible time.
func (c *clock) local(server time.Time) time.Time {
	if !c.skewKnown {
		c.skewKnown = true
		if date, _, ok := parseDate(trim(first(c.headers["Date"]))); ok {
			c.skew = c.now.Sub(date)
			c.dated = Skew{Known: c.age == 0 && c.skew.Abs() <= maxSkew, Most: c.skew}
		}
		switch {
		case c.skew.Abs() > maxSkew:
			c.skew = 0
		case (c.skew - c.age).Abs() <= minSkew:
			c.skew = 0
		default:
			c.skew -= c.age
		}
	}
	return server.Add(c.skew)
}

// difference is the skew of a reset that was converted by local.
func (c *clock) difference(reset time.Time) Skew {
	skew := c.dated
	skew.Applied = c.local(time.Time{}).Sub(time.Time{})
	skew.Reset = reset.Add(-skew.Applied)
	return skew
}

// read parses a number, a duration or a date. unit is the unit of a number; with unit 0 its
// size decides.
func (c *clock) read(text string, unit time.Duration) (moment, verdict) {
	text = trim(text)
	if inner, quoted := unquote(text); quoted {
		text = trim(inner)
	}
	if text == "" || len(text) > maxValueLength {
		return moment{}, notANumber
	}
	d, got := parseDecimal(text)
	switch got {
	case good:
		return c.number(d, unit)
	case unbelievable:
		return moment{}, unbelievable
	}
	if ahead, resolution, ok := parseDuration(text); ok {
		if ahead > maxAhead {
			return moment{}, unbelievable
		}
		return c.in(ahead, resolution), good
	}
	if at, resolution, ok := parseDate(text); ok {
		return c.at(c.local(at), resolution)
	}
	return moment{}, notANumber
}

// number interprets a number by its size: a duration in seconds or milliseconds, or a Unix
// time in seconds or milliseconds.
func (c *clock) number(d decimal, unit time.Duration) (moment, verdict) {
	resolution := time.Second
	if d.fraction {
		resolution = 0
	}
	if unit > 0 {
		if ahead, ok := d.of(unit); ok {
			return c.in(ahead, min(resolution, unit)), good
		}
	}
	switch n := d.whole; {
	case n <= int64(maxAhead/time.Second):
		ahead, ok := d.of(time.Second)
		if !ok {
			return moment{}, unbelievable
		}
		return c.in(ahead, resolution), good
	case d.negative:
		return moment{}, unbelievable
	case n < 1e9:
		ahead, _ := d.of(time.Millisecond)
		return c.in(ahead, 0), good
	case n <= 1e11:
		return c.at(c.local(time.Unix(n, d.nanos)), resolution)
	case n >= 1e12 && n <= 1e14:
		return c.at(c.local(time.UnixMilli(n)), 0)
	case n >= 1e15 && n <= 1e17:
		return c.at(c.local(time.UnixMicro(n)), 0)
	case n >= 1e18:
		return c.at(c.local(time.Unix(n/1e9, n%1e9)), 0)
	}
	return moment{}, unbelievable
}

func (c *clock) in(ahead, resolution time.Duration) moment {
	return moment{at: c.now.Add(ahead), ahead: ahead, resolution: resolution, relative: true}
}

func (c *clock) at(at time.Time, resolution time.Duration) (moment, verdict) {
	ahead := at.Sub(c.now)
	if ahead > maxAhead {
		return moment{}, unbelievable
	}
	if ahead < -maxAhead { // long past
		at, ahead = c.now.Add(-maxAhead), -maxAhead
	}
	// A time that is rounded down to the minute may still be in the future.
	if ahead < 0 && resolution >= time.Minute {
		return moment{}, notANumber
	}
	return moment{at: at, ahead: ahead, resolution: resolution}, good
}

// parseDuration parses 6m0s, 734.12ms, 1d2h and PT1M30S.
func parseDuration(text string) (sum, resolution time.Duration, ok bool) {
	iso := len(text) > 1 && (text[0] == 'P' || text[0] == 'p')
	if iso {
		text = text[1:]
	}
	resolution = time.Second
	timed := false // behind the T of an ISO duration
	for text != "" {
		if iso && !timed && (text[0] == 'T' || text[0] == 't') {
			timed, text = true, text[1:]
			continue
		}
		n := 0
		for n < len(text) && (digit(text[n]) || text[n] == '.') {
			n++
		}
		if n == 0 || n == len(text) {
			return 0, 0, false
		}
		d, verdict := parseDecimal(text[:n])
		if verdict != good {
			return 0, 0, false
		}
		m := n
		for m < len(text) && !digit(text[m]) && !(iso && text[m]|0x20 == 't' && m > n) {
			m++
		}
		unit := unitOf(text[n:m], iso, timed)
		if unit == 0 {
			return 0, 0, false
		}
		part, believed := d.of(unit)
		if !believed {
			part = maxAhead + 1
		}
		if sum += part; sum > maxAhead {
			sum = maxAhead + 1
		}
		if unit < time.Second || d.fraction {
			resolution = 0
		}
		text, ok = text[m:], true
	}
	return sum, resolution, ok
}

// unitOf is the length of a unit, 0 if the letters are no unit.
func unitOf(letters string, iso, timed bool) time.Duration {
	if iso {
		switch {
		case len(letters) != 1:
			return 0
		case letters[0]|0x20 == 'd' && !timed:
			return 24 * time.Hour
		case !timed:
			return 0
		}
		letters = string(letters[0] | 0x20)
	}
	return unitLengths[letters]
}

var unitLengths = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

// dates are the layouts of dates, with their resolution.
var dates = []struct {
	layout     string
	resolution time.Duration
}{
	{"Mon, 02 Jan 2006 15:04:05 MST", time.Second},
	{"Mon, 02 Jan 2006 15:04:05 -0700", time.Second},
	{"Mon, 2 Jan 2006 15:04:05 MST", time.Second},
	{"Monday, 02-Jan-06 15:04:05 MST", time.Second},
	{time.ANSIC, time.Second},
	{time.UnixDate, time.Second},
	{"Mon Jan 02 2006 15:04:05 GMT-0700", time.Second}, // JavaScript
	{"2006-01-02T15:04:05Z07:00", time.Second},
	{"2006-01-02T15:04:05Z0700", time.Second},
	{"2006-01-02T15:04:05", time.Second},
	{"2006-01-02 15:04:05Z07:00", time.Second},
	{"2006-01-02 15:04:05 Z0700", time.Second},
	{"2006-01-02 15:04:05 MST", time.Second},
	{"2006-01-02 15:04:05", time.Second},
	{"2006-01-02T15:04Z07:00", time.Minute},
	{"2006-01-02T15:04Z0700", time.Minute},
	{"2006-01-02T15:04", time.Minute},
	{"2006-01-02 15:04", time.Minute},
}

// maxDateLength bounds texts that are parsed as dates.
const maxDateLength = 64

// parseDate parses the three date formats of HTTP, ISO 8601 and JavaScript's. Without a
// zone, the date is in UTC.
func parseDate(text string) (at time.Time, resolution time.Duration, ok bool) {
	if date, _, found := strings.Cut(text, "("); found { // JavaScript's name of the zone
		text = trim(date)
	}
	if len(text) < len("2006-01-02 15:04") || len(text) > maxDateLength {
		return time.Time{}, 0, false
	}
	if at, resolution, ok = parseLayouts(text); !ok {
		at, resolution, ok = parseLayouts(strings.ToUpper(text)) // the letters between the numbers
	}
	return at, resolution, ok
}

func parseLayouts(text string) (at time.Time, resolution time.Duration, ok bool) {
	iso := digit(text[0])
	for _, one := range dates {
		if digit(one.layout[0]) != iso {
			continue
		}
		at, err := time.ParseInLocation(one.layout, text, time.UTC)
		if err != nil {
			continue
		}
		// time.Parse gives an unknown zone name the offset 0.
		if name, offset := at.Zone(); offset == 0 && name != "GMT" && name != "UTC" && name != "" && name != "Z" {
			return time.Time{}, 0, false
		}
		if strings.IndexByte(text, '.') > 0 {
			return at, 0, true
		}
		return at, one.resolution, true
	}
	return time.Time{}, 0, false
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
