package status

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// maxForecasts bounds the forecasts in a list.
const maxForecasts = 10_000

// longWindow is the shortest window that people are told of without asking: a forecast of one
// that is over soon is of no use to a plan.
const longWindow = time.Hour

// Forecast tells when a limit's window is used up at the present rate.
type Forecast struct {
	Site   string `json:"site"`
	Limit  string `json:"limit"`
	Of     string `json:"of,omitempty"` // whose it is, when each has its own
	Amount int64  `json:"amount"`
	Used   int64  `json:"used"`
	Left   int64  `json:"left"`
	Unit   string `json:"unit"`

	Opens time.Time `json:"opens,omitzero"` // the window
	Ends  time.Time `json:"ends,omitzero"`
	Rate  float64   `json:"rate_per_second"` // lately
	// Observed is the time from which Rate is known, in seconds; 0: not known.
	Observed float64 `json:"observed_seconds,omitempty"`
	// RunsOut is the time at which nothing is left, zero if not in this window. Done is the
	// time at which as many more requests as were asked for would be done, zero if never
	// or not asked for.
	RunsOut time.Time `json:"runs_out,omitzero"`
	Done    time.Time `json:"done,omitzero"`
}

// NormalizeForecasts is a copy of a list with its bound, an order, and times in UTC.
func NormalizeForecasts(list []Forecast, now time.Time) []Forecast {
	list = append([]Forecast{}, list...)
	slices.SortStableFunc(list, func(a, b Forecast) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Of, b.Of))
	})
	list = list[:min(len(list), maxForecasts)]
	for i := range list {
		forecast := &list[i]
		forecast.Rate = Finite(forecast.Rate)
		forecast.Opens, forecast.Ends = forecast.Opens.UTC(), forecast.Ends.UTC()
		forecast.RunsOut, forecast.Done = known(forecast.RunsOut, now), known(forecast.Done, now)
	}
	return list
}

// Long tells whether the forecast is shown without being asked for.
func (f Forecast) Long() bool {
	return !f.Ends.IsZero() && f.Ends.Sub(f.Opens) >= longWindow
}

// Name is the limit's name with its owner.
func (f Forecast) Name() string {
	if f.Of != "" {
		return f.Limit + " of " + f.Of
	}
	return f.Limit
}

// Part is the used part, from 0 to 1.
func (f Forecast) Part() float64 {
	if f.Amount <= 0 {
		return 0
	}
	return min(max(float64(f.Used)/float64(f.Amount), 0), 1)
}

// Percent is the same for people. All is said of nothing less, nor nothing of more.
func (f Forecast) Percent() string {
	percent := math.Round(100 * f.Part())
	if percent == 100 && f.Left > 0 {
		percent = 99
	}
	if percent == 0 && f.Used > 0 {
		return "< 1 %"
	}
	return fmt.Sprintf("%.0f %%", percent)
}

// Lasts describes until when the limit lasts at the present rate.
func (f Forecast) Lasts(now time.Time) string {
	until, more := "", "" // where the window has an edge
	if !f.Ends.IsZero() {
		until, more = " until "+day(f.Ends, now), " (more from "+day(f.Ends, now)+")"
	}
	switch {
	case f.Left <= 0:
		return "used up" + until
	case f.Rate <= 0:
		return "nothing is taken from it at present"
	case f.early(now):
		return "not enough history yet"
	case f.RunsOut.IsZero() || more != "" && !f.RunsOut.Before(f.Ends):
		return "at this rate it is enough" + until
	}
	return "at this rate until " + day(f.RunsOut, now) + more
}

// farthest bounds how far ahead a rate is believed, in multiples of the time that it was observed:
// an hour says something of a day.
const farthest = 24

// early tells whether the rate was observed for too short a time to say when the limit ends.
func (f Forecast) early(now time.Time) bool {
	end := f.RunsOut
	if end.IsZero() || !f.Ends.IsZero() && f.Ends.Before(end) {
		end = f.Ends
	}
	return f.Observed > 0 && end.Sub(now).Seconds() > farthest*f.Observed
}

// day is a time as people plan with it: of today, what the clock shows.
func day(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04 UTC")
	}
	if at.Hour() == 0 && at.Minute() == 0 {
		return at.Format(time.DateOnly)
	}
	return at.Format("2006-01-02 15:04 UTC")
}

// DescribeForecasts writes how long quotas last, as text.
func DescribeForecasts(w io.Writer, list []Forecast, now time.Time) {
	t := table{numbers: []int{2}}
	t.add("SITE", "LIMIT", "USED", "LASTS")
	for _, one := range list {
		if one.Long() {
			t.add(one.Site, one.Name(), one.Percent(), one.Lasts(now))
		}
	}
	if len(t.rows) == 1 {
		return
	}
	heading(w, "quotas")
	more := len(t.rows) - 1 - MaxListed
	t.rows = t.rows[:min(len(t.rows), 1+MaxListed)]
	t.write(w)
	if more > 0 {
		say(w, "and %s", Number(more, "other", "others"))
	}
}
