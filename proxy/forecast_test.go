package proxy

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
)

func TestForecasts(t *testing.T) {
	now := time.Date(2026, time.March, 10, 6, 0, 0, 0, time.UTC)
	day := limit.Spec{As: limit.Quota, Amount: 1000, Period: limit.Day}
	for _, c := range []struct {
		name     string
		f        Forecast
		requests int64
		runsOut  time.Time
		done     time.Time
	}{
		{name: "nobody asks", f: Forecast{Left: 400}},
		{
			name: "it lasts for the day", f: Forecast{Left: 400, Rate: 0.001}, requests: 36,
			done: now.Add(10 * time.Hour),
		},
		{
			name: "it runs out", f: Forecast{Left: 400, Rate: 1}, requests: 400,
			runsOut: now.Add(400 * time.Second), done: now.Add(400 * time.Second),
		},
		{
			name: "the rest is done tomorrow", f: Forecast{Left: 400, Rate: 1}, requests: 500,
			runsOut: now.Add(400 * time.Second), done: now.Add(18*time.Hour + 100*time.Second),
		},
		{
			name: "and the day after", f: Forecast{Left: 400, Rate: 1}, requests: 2000,
			runsOut: now.Add(400 * time.Second), done: now.Add((18+24)*time.Hour + 600*time.Second),
		},
		{name: "as fast as may be", f: Forecast{Left: 400}, requests: 500, done: now.Add(18 * time.Hour)},
		{name: "bytes are no requests", f: Forecast{Left: 400, Unit: "bytes"}, requests: 500},
		{name: "never in a year", f: Forecast{Left: 0}, requests: 1e9},
	} {
		c.f.Amount = 1000
		c.f.foresee(now, day, c.requests)
		if !c.f.RunsOut.Equal(c.runsOut) || !c.f.Done.Equal(c.done) {
			t.Errorf("%s: runs out %v, done %v; want %v and %v", c.name, c.f.RunsOut, c.f.Done, c.runsOut, c.done)
		}
		if want := now.Truncate(24 * time.Hour); !c.f.Opens.Equal(want) || !c.f.Ends.Equal(want.Add(24*time.Hour)) {
			t.Errorf("%s: the window is %v to %v", c.name, c.f.Opens, c.f.Ends)
		}
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	f := Forecast{Amount: 10, Left: 10}
	f.foresee(time.Date(2026, time.March, 29, 12, 0, 0, 0, berlin), limit.Spec{As: limit.Quota, Amount: 10, Period: limit.Month, Location: berlin}, 0)
	if want := time.Date(2026, time.March, 1, 0, 0, 0, 0, berlin); !f.Opens.Equal(want) || !f.Ends.Equal(want.AddDate(0, 1, 0)) {
		t.Errorf("March in Berlin is %v to %v", f.Opens, f.Ends)
	}
}

func TestThePresentRate(t *testing.T) {
	now := time.Unix(0, 0)
	u := &usage{at: now}
	for n := range 360 { // an hour at one per second
		u.heard(now.Add(time.Duration(n+1)*10*time.Second), int64(n+1)*10)
	}
	if u.rate < 0.99 || u.rate > 1.01 {
		t.Errorf("one per second is %v", u.rate)
	}
	used, at := u.used, u.at
	for n := range 360 { // and an hour of nothing, in which a window begins
		u.heard(at.Add(time.Duration(n+1)*10*time.Second), used*int64(1-n/180))
	}
	if u.rate > 0.02 {
		t.Errorf("an hour of nothing is %v per second", u.rate)
	}
}
