package limit

import (
	"cmp"
	"time"
)

// calendar has the boundaries of days, weeks or months at a location, including changes of
// its clocks.
type calendar struct {
	period   string
	location *time.Location
}

// newQuota makes a fixed with the windows of a calendar.
func newQuota(s Spec) *fixed {
	place := cmp.Or(s.Location, time.UTC)
	return &fixed{
		as: Quota, amount: s.Amount, width: int64(s.Length()),
		calendar: &calendar{period: s.Period, location: place},
	}
}

// after is the first boundary after t.
func (c *calendar) after(t int64) int64 {
	local := time.Unix(0, t).In(c.location)
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
		// Several steps are needed if a day was skipped at the location.
		if start := c.start(year, month, day); start > t {
			return start
		}
	}
}

// start is the first time at which the clocks of the location show midnight of a date, or
// later. time.Date does not specify which time it returns if midnight occurs twice or not
// at all.
func (c *calendar) start(year int, month time.Month, day int) int64 {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
	t := time.Unix(midnight-26*60*60, 0).In(c.location)
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
