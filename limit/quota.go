package limit

import "time"

// calendar has the edges of the days, weeks or months of a place, whatever its
// clocks do on them.
type calendar struct {
	period string
	place  *time.Location
}

// newQuota is a fixed whose windows are those of a calendar.
func newQuota(s Spec) *fixed {
	place := s.Location
	if place == nil {
		place = time.UTC
	}
	width := 25 * time.Hour
	switch s.Period {
	case Week:
		width = 7*24*time.Hour + time.Hour
	case Month:
		width = 31*24*time.Hour + time.Hour
	}
	return &fixed{
		as: Quota, amount: s.Amount, width: int64(width),
		calendar: &calendar{period: s.Period, place: place},
	}
}

// after is the first edge after t.
func (c *calendar) after(t int64) int64 {
	local := time.Unix(0, t).In(c.place)
	year, month, day := local.Date()
	switch c.period {
	case Week:
		day -= int(local.Weekday()+6) % 7
	case Month:
		day = 1
	}
	for {
		switch c.period {
		case Day:
			day++
		case Week:
			day += 7
		default:
			month++
		}
		// More than one step is needed where a day did not happen.
		if start := c.start(year, month, day); start > t {
			return start
		}
	}
}

// start is the first moment at which the clocks of the place show midnight of a
// date, or later. time.Date does not promise which it answers where midnight is
// shown twice or not at all.
func (c *calendar) start(year int, month time.Month, day int) int64 {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
	t := time.Unix(midnight-26*60*60, 0).In(c.place)
	for {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		first := max(midnight-int64(offset), t.Unix())
		if end.IsZero() || first < end.Unix() {
			return first * int64(time.Second)
		}
		t = end
	}
}
