package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// unbounded is the least Left that means that no amount is known. A meter without a known
// amount has nearly 1<<50 units left (maxAmount in package ledger), and real limits are smaller
// than 1<<45.
const unbounded = 1 << 45

// Limit is a limit of the configuration for a site, with what is left. A limit of which each
// client, token, route or backend has its own is a Limit for each of them.
type Limit struct {
	Site   string `json:"-"`
	Limit  string `json:"limit"`
	Of     string `json:"of,omitempty"` // the client, token, route or backend with this limit of its own; "": all share it
	Amount int64  `json:"amount"`
	Left   int64  `json:"left"` // -1: not known
	// Most is the largest possible rest, where that is not the amount: the burst of a
	// bucket. The API leaves out a Most that equals the amount.
	Most int64 `json:"most,omitempty"`
	// Rate is the present rate of an adaptive limit, per second; 0 for others.
	Rate   float64 `json:"rate,omitempty"`
	Unit   string  `json:"unit"`
	Per    string  `json:"per,omitempty"`
	Window float64 `json:"window_seconds,omitempty"` // the length of Per; 0: it has none
	By     string  `json:"by,omitempty"`             // client, token or route; "": all share it
	Shared bool    `json:"shared"`                   // with the other instances
	Kept   bool    `json:"kept"`                     // over a restart

	Reset time.Time `json:"-"` // when there is more of a limit of its own of which nothing is left; zero: not known
}

// SiteLimits holds the limits of a site, in the form in which they may be set.
type SiteLimits struct {
	Site   string          `json:"site"`
	Set    bool            `json:"set"` // at run time, and not by the configuration
	Limits json.RawMessage `json:"limits" schema:"limits"`
}

// LeftShare is the part of the limit that is left, from 0 to 1; 2 if that is not known.
func (l Limit) LeftShare() float64 {
	if l.Rate > 0 {
		return 2
	}
	return leftShare(l.Left, cmp.Or(l.Most, l.Amount))
}

func leftShare(left, whole int64) float64 {
	switch {
	case left < 0:
		return 2
	case whole <= 0:
		return 1
	}
	return float64(left) / float64(whole)
}

// ScarcestFirst is a copy of limits, sorted by the part that is left.
func ScarcestFirst[L interface{ LeftShare() float64 }](list []L) []L {
	return slices.SortedStableFunc(slices.Values(list), func(a, b L) int { return cmp.Compare(a.LeftShare(), b.LeftShare()) })
}

// LeftText says how much of the limit is left, in its unit: "40 of 900", or "3.4/s now" for an
// adaptive limit.
func (l Limit) LeftText() string {
	words := Count
	if l.Unit == "bytes" {
		words = Size
	}
	switch {
	case l.Rate > 0:
		return RateText(l.Rate) + " now"
	case l.Left >= unbounded:
		return "not known"
	}
	return cmp.Or(leftText(l.Left, cmp.Or(l.Most, l.Amount, -1), words), "not known")
}

// leftText says how much is left of a whole: "40 of 900", "? of 900", "40"; "" if neither is known.
func leftText(left, whole int64, words func(uint64) string) string {
	switch {
	case left >= 0 && whole >= 0:
		return words(uint64(left)) + " of " + words(uint64(whole))
	case left >= 0:
		return words(uint64(left))
	case whole >= 0:
		return "? of " + words(uint64(whole))
	}
	return ""
}

// Adaptive is an adaptive limit with the rate that it allows now.
type Adaptive struct {
	Site  string  `json:"site"`
	Limit string  `json:"limit"`
	Of    string  `json:"of,omitempty"` // as Limit.Of
	Rate  float64 `json:"rate"`         // per second
}

// AdaptiveOf are the adaptive limits of a list, at most MaxListed.
func AdaptiveOf(limits []Limit) (list []Adaptive) {
	for _, one := range limits {
		if one.Rate > 0 && len(list) < MaxListed {
			list = append(list, Adaptive{one.Site, one.Limit, one.Of, one.Rate})
		}
	}
	return list
}

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
	const maxForecasts = 10_000 // bounds the forecasts in a list
	list = listed(list, maxForecasts, func(a, b Forecast) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Of, b.Of))
	})
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
	// longWindow is the shortest window that people are told of without asking: a forecast of one that is over soon is of no use to a plan.
	const longWindow = time.Hour
	return !f.Ends.IsZero() && f.Ends.Sub(f.Opens) >= longWindow
}

// Name is the limit's name with its owner.
func (f Forecast) Name() string { return NameOf(f.Limit, f.Of) }

// NameOf names a limit with whose it is; "" is everyone's.
func NameOf(limit, of string) string {
	if of != "" {
		return limit + " of " + of
	}
	return limit
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

// early tells whether the rate was observed for too short a time to say when the limit ends.
func (f Forecast) early(now time.Time) bool {
	// farthest bounds how far ahead a rate is believed, in multiples of the time that it was observed: an hour says something of a day.
	const farthest = 24
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
	t := Table{Numbers: []int{2}}
	t.Add("SITE", "LIMIT", "USED", "LASTS")
	for _, one := range list {
		if one.Long() {
			t.Add(one.Site, one.Name(), one.Percent(), one.Lasts(now))
		}
	}
	more := len(t.rows) - 1 - MaxListed
	t.rows = t.rows[:min(len(t.rows), 1+MaxListed)]
	t.below(w, "quotas", more, "")
}

// Forgotten is a limit that was learned and is forgotten; Of is the token whose limit it was. A site of which
// no limit was known has one without a name.
type Forgotten struct {
	Site  string `json:"site"`
	Limit string `json:"limit,omitempty"`
	Of    string `json:"of,omitempty"`
}

// DescribeForgotten writes a line for each limit that is forgotten.
func DescribeForgotten(w io.Writer, list []Forgotten) {
	for _, f := range list {
		say(w, "%s: forgot %s", f.Site, cmp.Or(NameOf(f.Limit, f.Of), "what was seen of its answers; no limit was known"))
	}
}
