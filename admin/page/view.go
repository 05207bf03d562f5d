package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// view is the facts as the templates show them.
type view struct {
	*Facts
	Now    time.Time
	Glance glance
	Sites  siteTable
	Pools  []poolView
	Queue  queueTable
	Limits limitTable
	Quotas []status.Forecast
	Charts []chart
}

func viewOf(f *Facts, now time.Time) *view {
	v := &view{Facts: f, Now: now, Quotas: longForecasts(f.Forecasts)}
	v.Sites, v.Queue, v.Limits = sitesOf(f), queueOf(f.Holds), limitsOf(f, now)
	v.Glance = glanceOf(f, now)
	own := writtenByToken(f)
	for _, p := range f.Tokens.Pools {
		v.Pools = append(v.Pools, poolOf(&p, own, &f.Samples, now))
	}
	for _, p := range f.Past.Periods {
		v.Charts = append(v.Charts, chartOf(p))
	}
	return v
}

// Up is for how long the process runs.
func (v *view) Up() string { return v.Now.Sub(v.Started).Truncate(time.Second).String() }

// Time is when the page was made.
func (v *view) Time() string { return v.Now.UTC().Format("15:04:05 UTC") }

// Busy tells whether requests have come.
func (v *view) Busy() bool { return v.Total.Requests > 0 || len(v.Holds) > 0 }

// In, Ahead and Ago tell a time from now on.
func (v *view) In(at time.Time) string    { return status.In(at, v.Now) }
func (v *view) Ahead(at time.Time) string { return status.Ahead(at, v.Now) }
func (v *view) Ago(at time.Time) string   { return status.Ago(at, v.Now) }

// Fleet tells whether the page shows who else keeps budgets.
func (v *view) Fleet() bool { return v.fleet() }

// Others is the heading of the instances that use the store.
func (v *view) Others() string {
	if v.Store.Kind == status.StoreShared {
		return "Fleet"
	}
	return "Processes"
}

// Told is how what keeps budgets is.
func (v *view) Told() string {
	text := v.Store.Sentence(v.Now)
	return strings.ToUpper(text[:1]) + text[1:]
}

// Announced are the limits that requests without a token are under, as many as are listed.
func (v *view) Announced() []status.Announced { return first(v.Tokens.Limits) }

// first are as many as the page lists.
func first[T any](list []T) []T { return list[:min(len(list), status.MaxListed)] }

// longForecasts are those that the page has room for.
func longForecasts(list []status.Forecast) (long []status.Forecast) {
	for _, one := range list {
		if one.Long() && len(long) < status.MaxListed {
			long = append(long, one)
		}
	}
	return long
}

// perSecond is a rate for people: "0", "0.3", "42".
func perSecond(rate float64) string {
	switch {
	case rate <= 0:
		return "0"
	case rate < 0.05:
		return "< 0.1"
	case rate < 9.95:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return status.Count(uint64(math.Round(rate)))
}

// bytesPerSecond is a rate of bytes for people.
func bytesPerSecond(rate float64) string { return status.Size(uint64(max(rate, 0))) + "/s" }

// span is a time in seconds for people: "3 min 05 s".
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Second:
		return "under 1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
}
