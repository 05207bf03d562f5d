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

// after samples a limit every so often, for so long.
func (r *Rate) after(d, every time.Duration, spec limit.Spec, used func(at time.Time) int64) {
	for end := r.at.Add(d); r.at.Before(end); {
		at := r.at.Add(every)
		r.Sample(at, used(at), spec)
	}
}

// roughly tells whether a number is another, but for 3 percent.
func roughly(got, want float64) bool { return got >= 0.97*want && got <= 1.03*want }

func TestThePresentRate(t *testing.T) {
	began := time.Date(2026, time.March, 10, 6, 0, 0, 0, time.UTC)
	day := limit.Spec{As: limit.Quota, Amount: 100_000, Period: limit.Day}
	u := &Rate{at: began}
	steady := func(at time.Time) int64 { return int64(at.Sub(began) / time.Second) }
	for _, d := range []time.Duration{time.Minute, 9 * time.Minute, time.Hour} {
		u.after(d, 10*time.Second, day, steady)
		if !roughly(u.PerSecond(), 1) {
			t.Errorf("one per second is %v after %v", u.PerSecond(), d)
		}
	}
	used := u.used
	u.after(time.Hour, 10*time.Second, day, func(time.Time) int64 { return used })
	if u.PerSecond() > 0.01 {
		t.Errorf("an hour of nothing is %v per second", u.PerSecond())
	}
	// What comes back unsent is no window that begins.
	u.Sample(u.at.Add(time.Second), used-1, day)
	if u.PerSecond() > 0.01 {
		t.Errorf("one that came back is %v per second", u.PerSecond())
	}
	// Where one does, all that is used is new.
	next := began.Truncate(24 * time.Hour).Add(24 * time.Hour)
	u.after(next.Sub(u.at)-10*time.Second, 10*time.Second, day, func(time.Time) int64 { return used })
	u.after(time.Hour, 10*time.Second, day, func(at time.Time) int64 { return max(2*int64(at.Sub(next)/time.Second), 0) })
	if !roughly(u.PerSecond(), 2) {
		t.Errorf("two per second from midnight on are %v", u.PerSecond())
	}
}

// A burst counts, and is not taken for a rate.
func TestABurstIsNoRate(t *testing.T) {
	day := limit.Spec{As: limit.Quota, Amount: 1000, Period: limit.Day}
	began := time.Date(2026, time.March, 10, 6, 0, 0, 0, time.UTC)
	u := &Rate{at: began}
	burst := func(time.Time) int64 { return 120 }
	for _, one := range []struct {
		at   time.Duration
		want float64
	}{{2 * time.Second, 120.0 / 60}, {time.Minute, 120.0 / 63}, {10 * time.Minute, 120.0 / 1030}} {
		u.after(began.Add(one.at).Sub(u.at), 2*time.Second, day, burst)
		if got := u.PerSecond(); got < 0.9*one.want || got > 1.1*one.want {
			t.Errorf("120 at once are %v per second after %v, not %v", got, one.at, one.want)
		}
	}
}

// What windows without edges give back by themselves is not what was taken.
func TestTheRateOfWindowsWithoutEdges(t *testing.T) {
	began := time.Date(2026, time.March, 10, 6, 0, 0, 0, time.UTC)
	for _, spec := range []limit.Spec{
		{As: limit.Rolling, Amount: 7200, Window: time.Hour},
		{As: limit.Bucket, Amount: 7200, Window: time.Hour, Burst: 500},
		{As: limit.FirstUse, Amount: 7200, Window: time.Hour},
	} {
		m, err := limit.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		u := &Rate{at: began}
		take := func(each int64) func(time.Time) int64 {
			return func(at time.Time) int64 {
				m.Take(at, each)
				return spec.AtOnce() - m.Left(at)
			}
		}
		for _, d := range []time.Duration{10 * time.Minute, 50 * time.Minute, time.Hour, time.Hour} {
			u.after(d, 10*time.Second, spec, take(10))
			if got := u.PerSecond(); spec.As != limit.Bucket && !roughly(got, 1) {
				t.Errorf("%s: one per second is %v", spec.As, got)
			} else if got < 0.97 || got > 2.1 { // a bucket that is full again has hidden it
				t.Errorf("%s: one per second is %v", spec.As, got)
			}
		}
		u.after(2*time.Hour, 10*time.Second, spec, take(0))
		if got := u.PerSecond(); got > 0.01 {
			t.Errorf("%s: nothing is %v per second", spec.As, got)
		}
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
