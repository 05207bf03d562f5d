package forecast

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
		b        Budget
		requests int64
		runsOut  time.Time
		done     time.Time
	}{
		{name: "nobody asks", b: Budget{Left: 400}},
		{
			name: "it lasts for the day", b: Budget{Left: 400, Rate: 0.001}, requests: 36,
			done: now.Add(10 * time.Hour),
		},
		{
			name: "it runs out", b: Budget{Left: 400, Rate: 1}, requests: 400,
			runsOut: now.Add(400 * time.Second), done: now.Add(400 * time.Second),
		},
		{
			name: "the rest is done tomorrow", b: Budget{Left: 400, Rate: 1}, requests: 500,
			runsOut: now.Add(400 * time.Second), done: now.Add(18*time.Hour + 100*time.Second),
		},
		{
			name: "and the day after", b: Budget{Left: 400, Rate: 1}, requests: 2000,
			runsOut: now.Add(400 * time.Second), done: now.Add((18+24)*time.Hour + 600*time.Second),
		},
		{name: "as fast as may be", b: Budget{Left: 400}, requests: 500, done: now.Add(18 * time.Hour)},
		{name: "never in a year", b: Budget{Left: 0}, requests: 1e9},
	} {
		c.b.Amount, c.b.Spec = 1000, day
		f := c.b.Forecast(now, c.requests)
		if !f.RunsOut.Equal(c.runsOut) || !f.Done.Equal(c.done) {
			t.Errorf("%s: runs out %v, done %v; want %v and %v", c.name, f.RunsOut, f.Done, c.runsOut, c.done)
		}
		if want := now.Truncate(24 * time.Hour); !f.Opens.Equal(want) || !f.Ends.Equal(want.Add(24*time.Hour)) {
			t.Errorf("%s: the window is %v to %v", c.name, f.Opens, f.Ends)
		}
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	b := Budget{Spec: limit.Spec{As: limit.Quota, Amount: 10, Period: limit.Month, Location: berlin}, Amount: 10, Left: 10}
	f := b.Forecast(time.Date(2026, time.March, 29, 12, 0, 0, 0, berlin), 0)
	if want := time.Date(2026, time.March, 1, 0, 0, 0, 0, berlin); !f.Opens.Equal(want) || !f.Ends.Equal(want.AddDate(0, 1, 0)) {
		t.Errorf("March in Berlin is %v to %v", f.Opens, f.Ends)
	}
}

// What was taken lately of a meter is its rate, and a burst is none.
func TestThePresentRate(t *testing.T) {
	began := time.Date(2026, time.March, 10, 6, 0, 0, 0, time.UTC)
	for _, spec := range []limit.Spec{
		{As: limit.Quota, Amount: 100_000, Period: limit.Day},
		{As: limit.Rolling, Amount: 7200, Window: time.Hour},
		{As: limit.Bucket, Amount: 7200, Window: time.Hour, Burst: 500},
		{As: limit.FirstUse, Amount: 7200, Window: time.Hour},
	} {
		m, err := limit.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		now := began
		want := func(what string, least, most float64) {
			t.Helper()
			if got, _ := RateOf(limit.PastOf(now, m)); got < least || got > most {
				t.Errorf("%s: %s is %v per second", spec.As, what, got)
			}
		}
		want("nothing", 0, 0)
		m.Take(now, 120)
		want("a burst", 2, 2)
		now = now.Add(5 * time.Minute)
		want("a burst five minutes ago", 0.4, 0.4)
		now = now.Add(time.Hour)
		want("a burst an hour ago", 0, 0)
		for range 5 * 360 { // one a second, for five hours
			now = now.Add(10 * time.Second)
			m.Take(now, 10)
		}
		want("one a second", 0.95, 1.05)
		if _, known := RateOf(limit.PastOf(now, m)); known < time.Hour {
			t.Errorf("%s: the rate is known for %v", spec.As, known)
		}
		now = now.Add(2 * time.Hour)
		want("two hours of nothing", 0, 0.01)
	}
}

// What comes back as fast as it is taken does not run out.
func TestWhatComesBackLasts(t *testing.T) {
	now := time.Date(2026, time.March, 10, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		spec    limit.Spec
		b       Budget
		runsOut time.Time
	}{
		{name: "rolling, slowly", spec: limit.Spec{As: limit.Rolling, Amount: 3600, Window: time.Hour}, b: Budget{Used: 3000, Left: 600, Rate: 0.9}},
		{
			name: "rolling, too fast", spec: limit.Spec{As: limit.Rolling, Amount: 3600, Window: time.Hour},
			b: Budget{Used: 1800, Left: 1800, Rate: 1.5}, runsOut: now.Add(1800 * time.Second),
		},
		{name: "a bucket, slowly", spec: limit.Spec{As: limit.Bucket, Amount: 3600, Window: time.Hour, Burst: 10}, b: Budget{Used: 5, Left: 5, Rate: 0.9}},
		{
			name: "a bucket, too fast", spec: limit.Spec{As: limit.Bucket, Amount: 3600, Window: time.Hour, Burst: 100},
			b: Budget{Used: 50, Left: 50, Rate: 2}, runsOut: now.Add(50 * time.Second),
		},
	} {
		c.b.Amount, c.b.Spec = 3600, c.spec
		if f := c.b.Forecast(now, 0); !f.RunsOut.Equal(c.runsOut) {
			t.Errorf("%s: it runs out at %v, not %v", c.name, f.RunsOut, c.runsOut)
		}
	}
}
