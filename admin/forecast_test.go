package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

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

func TestForecastsAreAList(t *testing.T) {
	asked := ""
	b := newBed(t, func(_ *policy.Policy, o *Options) {
		o.Forecast = func(site string, n int64) []Forecast {
			asked = fmt.Sprint(site, " ", n)
			if site == "none" {
				return nil
			}
			one := monthly(6200, math.NaN())
			one.Done = time.Date(2026, time.November, 28, 1, 0, 0, 0, time.FixedZone("", 3600))
			return []Forecast{one, {Site: "a.test", Of: "b", RunsOut: time.Now().Add(far + time.Hour)}, {Site: "a.test", Of: "a"}}
		}
	})
	r := b.get("/api/v1/forecast?site=api.test&requests=5000")
	want := `[{"site":"a.test","limit":"","of":"a","amount":0,"used":0,"left":0,"unit":"","rate_per_second":0},` +
		`{"site":"a.test","limit":"","of":"b","amount":0,"used":0,"left":0,"unit":"","rate_per_second":0},` +
		`{"site":"api.test","limit":"10000 requests per month","amount":10000,"used":6200,"left":3800,"unit":"requests","opens":"2026-11-01T00:00:00Z","ends":"2026-12-01T00:00:00Z","rate_per_second":0,"done":"2026-11-28T00:00:00Z"}]` + "\n"
	if r.StatusCode != 200 || r.body != want || asked != "api.test 5000" {
		t.Errorf("%s: %d %s", asked, r.StatusCode, r.body)
	}
	if r := b.get("/api/v1/forecast"); r.StatusCode != 200 || asked != " 0" {
		t.Errorf("%s: %d %s", asked, r.StatusCode, r.body)
	}
	if r := b.get("/api/v1/forecast?site=none"); r.body != "[]\n" {
		t.Error(r.body)
	}
	for _, query := range []string{"?requests=-1", "?requests=", "?requests=1e3", "?requests=99999999999999999999", "?requests=1&requests=2", "?n=1", "?%zz", "?site=" + strings.Repeat("x", 1000)} {
		if r := b.get("/api/v1/forecast" + query); r.StatusCode != 400 || !json.Valid([]byte(r.body)) {
			t.Errorf("%.30s: %d %s", query, r.StatusCode, r.body)
		}
	}
	if r := newBed(t, nil).get("/api/v1/forecast"); r.StatusCode != 501 {
		t.Errorf("without: %d", r.StatusCode)
	}
}

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

func TestQuotasAreATableForPeople(t *testing.T) {
	short := Forecast{Site: "api.test", Limit: "75 per 15m", Opens: midday, Ends: midday.Add(15 * time.Minute)}
	own := monthly(0, 0)
	own.Site, own.Of = "b.test\x1b[2J", "news"
	var b strings.Builder
	DescribeForecasts(&b, []Forecast{monthly(6200, 1), short, own}, midday)
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
	for range maxSites + 2 {
		many = append(many, monthly(0, 0))
	}
	if DescribeForecasts(&b, many, midday); !strings.HasSuffix(b.String(), "\nand 2 others\n") {
		t.Error(b.String())
	}
}
