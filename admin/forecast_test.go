package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// midday is when these tests look.
var midday = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// monthly is a quota of 10,000 of which so much is used.
func monthly(used int64, rate float64) status.Forecast {
	f := status.Forecast{
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
	b := newBed(t, func(_ *policy.Policy, o *given) {
		o.Forecast = func(site string, n int64) []status.Forecast {
			asked = fmt.Sprint(site, " ", n)
			if site == "none" {
				return nil
			}
			forecast := monthly(6200, math.NaN())
			forecast.Done = time.Date(2026, time.November, 28, 1, 0, 0, 0, time.FixedZone("", 3600))
			return []status.Forecast{forecast, {Site: "a.test", Of: "b", RunsOut: time.Now().Add(status.Far + time.Hour)}, {Site: "a.test", Of: "a"}}
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
	if r := newBed(t, nil).get("/api/v1/forecast"); r.StatusCode != 200 || r.body != "[]\n" {
		t.Errorf("of nothing: %d %s", r.StatusCode, r.body)
	}
}
