package store

import (
	"cmp"
	"time"
)

// Traffic is what went from and to a site in one minute, or in what an answer's step
// is.
type Traffic struct {
	Site     string
	Minute   time.Time // when it began
	In, Out  int64     // bytes from the site and to it
	Requests int64
}

// Retention is how long traffic is kept by the minute, then by the hour, then by the
// day. All are from now on back. Of one hour or day there are Sites sites, or a few
// more, and what went from and to others is told as that of Others.
//
// A file that is larger than Bytes keeps traffic for less long: half as long, or a quarter
// and so on, until it is small enough. Nothing else is dropped because of that.
type Retention struct {
	Minutes, Hours, Days time.Duration
	Sites                int   // 0: 10,000
	Bytes                int64 // 0: 256 MiB
}

// tightest is how often the times of a Retention are halved at most.
const tightest = 10

// halved is the Retention with times that were halved so often.
func (r Retention) halved(times int) Retention {
	r.Minutes = max(r.Minutes>>times, time.Hour)
	r.Hours, r.Days = r.Hours>>times, r.Days>>times
	return r
}

// Others is what all sites are called that are not told apart.
const Others = "other"

func (r Retention) orDefault() Retention {
	const day = 24 * time.Hour
	return Retention{
		Minutes: cmp.Or(max(r.Minutes, 0), 2*day),
		Hours:   cmp.Or(max(r.Hours, 0), 60*day),
		Days:    cmp.Or(max(r.Days, 0), 5*365*day),
		Sites:   cmp.Or(max(r.Sites, 0), 10_000),
		Bytes:   cmp.Or(max(r.Bytes, 0), 256<<20),
	}
}

// The steps in which traffic is kept, in seconds. Days are those of UTC.
const (
	minutes = int64(60)
	hours   = 60 * minutes
	days    = 24 * hours
)

// roll is what becomes of traffic that is old: what was kept by the step from and
// began before a time is added to what is kept by the step into, or dropped.
type roll struct {
	from, into int64 // seconds; into is 0 when it is dropped
	before     int64 // seconds since 1970: an edge of into, so that nothing is rolled up in parts
}

// rolls says what is to be rolled up now. What they leave alone is younger than that
// Retention, or less than one larger step older.
func (r Retention) rolls(now time.Time) []roll {
	edge := func(keep time.Duration, step int64) int64 {
		return floor(now.Add(-keep).Unix(), step)
	}
	minutesEnd := edge(r.Minutes, hours)
	hoursEnd := min(edge(r.Hours, days), floor(minutesEnd, days))
	return []roll{
		{minutes, hours, minutesEnd},
		{hours, days, hoursEnd},
		{days, 0, min(edge(r.Days, days), hoursEnd)},
	}
}

func floor(t, step int64) int64 { return t - (t%step+step)%step }

// at is the minute under which traffic is kept. A time that cannot be, because a
// clock was wrong, is now.
func (t *Traffic) at(now time.Time) int64 {
	s, latest := t.Minute.Unix(), now.Unix()
	if s <= 0 || s > latest {
		s = latest
	}
	return s - s%minutes
}
