package status

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestForecastsAreSentences(t *testing.T) {
	for _, one := range []struct {
		f              Forecast
		percent, lasts string
	}{
		{monthly(6200, 3800/(6.5*24*3600)), "62 %", "at this rate until 2026-11-28 (more from 2026-12-01)"},
		{monthly(6200, 1), "62 %", "at this rate until 13:03 UTC (more from 2026-12-01)"},
		{monthly(6200, 0.05), "62 %", "at this rate until 2026-11-22 09:06 UTC (more from 2026-12-01)"},
		{monthly(6200, 0.001), "62 %", "at this rate it is enough until 2026-12-01"},
		{monthly(1, 0), "< 1 %", "nothing is taken from it at present"},
		{monthly(0, 0), "0 %", "nothing is taken from it at present"},
		{monthly(9999, 0), "99 %", "nothing is taken from it at present"},
		{monthly(10_000, 7), "100 %", "used up until 2026-12-01"},
		{monthly(12_000, 7), "100 %", "used up until 2026-12-01"},
		{Forecast{Amount: 100, Used: 50, Left: 50, Rate: 1}, "50 %", "at this rate it is enough"},
		{Forecast{Amount: 100, Used: 50, Left: 50, Rate: 1, RunsOut: midday.Add(time.Hour)}, "50 %", "at this rate until 13:00 UTC"},
		{Forecast{Amount: 100, Used: 100}, "100 %", "used up"},
		{Forecast{Left: 1, Used: math.MaxInt64}, "0 %", "nothing is taken from it at present"},
	} {
		if one.f.Amount == 0 {
			one.percent = "< 1 %"
		}
		if got := one.f.Percent(); got != one.percent {
			t.Errorf("%+v is %s, not %s", one.f, got, one.percent)
		}
		if got := one.f.Lasts(midday); got != one.lasts {
			t.Errorf("%+v: %s, not %s", one.f, got, one.lasts)
		}
	}
}

// TestNothingIsSaidOfAMonthAfterSeconds: a rate is believed for 24 times as long as it was observed.
func TestNothingIsSaidOfAMonthAfterSeconds(t *testing.T) {
	for _, one := range []struct {
		rate, observed float64
		lasts          string
	}{
		{3800 / (6.5 * 24 * 3600), 14, "not enough history yet"},
		{0.001, 14, "not enough history yet"},
		{0.001, 3600, "not enough history yet"},
		{0.001, 12 * 3600, "at this rate it is enough until 2026-12-01"},
		{1, 160, "at this rate until 13:03 UTC (more from 2026-12-01)"},
		{1, 0, "at this rate until 13:03 UTC (more from 2026-12-01)"},
		{0, 14, "nothing is taken from it at present"},
	} {
		f := monthly(6200, one.rate)
		f.Observed = one.observed
		if got := f.Lasts(midday); got != one.lasts {
			t.Errorf("%v/s for %v s: %s, not %s", one.rate, one.observed, got, one.lasts)
		}
	}
}

func TestQuotasAreATableForPeople(t *testing.T) {
	short := Forecast{Site: "api.test", Limit: "75 per 15m", Opens: midday, Ends: midday.Add(15 * time.Minute)}
	forecast := monthly(0, 0)
	forecast.Site, forecast.Of = "b.test\x1b[2J", "news"
	var b strings.Builder
	DescribeForecasts(&b, []Forecast{monthly(6200, 1), short, forecast}, midday)
	want := `
quotas

SITE        LIMIT                             USED  LASTS
api.test    10000 requests per month          62 %  at this rate until 13:03 UTC (more from 2026-12-01)
b.test [2J  10000 requests per month of news   0 %  nothing is taken from it at present
`
	if b.String() != want {
		t.Errorf("it is\n%s", b.String())
	}
	b.Reset()
	DescribeForecasts(&b, []Forecast{short}, midday)
	DescribeForecasts(&b, nil, midday)
	if b.String() != "" {
		t.Errorf("%q", b.String())
	}
	var many []Forecast
	for range MaxListed + 2 {
		many = append(many, monthly(0, 0))
	}
	if DescribeForecasts(&b, many, midday); !strings.HasSuffix(b.String(), "\nand 2 others\n") {
		t.Error(b.String())
	}
}

// midday is when these tests look.
var midday = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// monthly is a quota of 10,000 of which so much is used.
func monthly(used int64, rate float64) Forecast {
	f := Forecast{
		Site: "api.test", Limit: "10000 requests per month", Amount: 10_000, Used: used, Left: 10_000 - used, Unit: "requests",
		Opens: time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC), Ends: time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC), Rate: rate,
	}
	if rate > 0 {
		if at := midday.Add(time.Duration(float64(f.Left) / rate * float64(time.Second))); at.Before(f.Ends) {
			f.RunsOut = at
		}
	}
	return f
}
