package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store/reference"
)

// near tells whether got differs from want by at most a part of the time from now to want.
func near(got, want time.Time, part float64) bool {
	off, ahead := got.Sub(want).Abs(), time.Until(want)
	return float64(off) <= part*float64(ahead)+float64(time.Second)
}

func (w rig) forecast(n int64) status.Forecast {
	w.T.Helper()
	for _, f := range w.Forecast("site.test", n) {
		if f.Unit == "requests" {
			return f
		}
	}
	w.T.Fatal("nothing is foreseen")
	return status.Forecast{}
}

func TestADaysQuotaThatIsUsedSteadilyIsForeseen(t *testing.T) {
	run(t, echoing, unlearned+`
sites:
  - {host: site.test, limits: [{requests: 2000, per: day}, {requests: 100, per: 1m}]}
`, func(w rig) {
		startOfWindow(24 * time.Hour)
		began := time.Now()
		for range 60 { // one request a minute for an hour
			w.Get("http://site.test/")
			elapse(time.Minute)
		}
		f := w.forecast(100)
		if f.Used != 60 || f.Left != 1940 || f.Amount != 2000 || !f.Opens.Equal(began.Truncate(24*time.Hour)) || !f.Ends.Equal(f.Opens.Add(24*time.Hour)) {
			t.Errorf("%+v", f)
		}
		if !f.RunsOut.IsZero() { // using it up takes 32 hours
			t.Errorf("it runs out at %v", f.RunsOut)
		}
		if !near(f.Done, time.Now().Add(100*time.Minute), 0.1) {
			t.Errorf("100 more are done in %v", time.Until(f.Done))
		}
		// The rest of the day and a piece of the next.
		if f = w.forecast(2000); !near(f.Done, f.Ends.Add(60*time.Minute), 0.05) {
			t.Errorf("2000 more are done in %v", time.Until(f.Done))
		}
		for range 720 { // twelve a minute, for an hour
			w.Get("http://site.test/")
			elapse(5 * time.Second)
		}
		f = w.forecast(500)
		if f.Used != 780 || !near(f.RunsOut, time.Now().Add(1220*5*time.Second), 0.05) || !near(f.Done, time.Now().Add(500*5*time.Second), 0.05) {
			t.Errorf("%+v: it runs out in %v, and 500 are done in %v", f, time.Until(f.RunsOut), time.Until(f.Done))
		}
		elapse(time.Until(f.Ends) + time.Minute)
		if f = w.forecast(0); f.Used != 0 || f.Left != 2000 || !f.RunsOut.IsZero() && f.Rate > 0.01 {
			t.Errorf("on the next day %+v", f)
		}
	})
}

func TestAQuotaOfBytesIsForeseen(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{bytes: 100MB, per: day}]}\n", func(w rig) {
		startOfWindow(24 * time.Hour)
		for range 120 { // 100 kB every half a minute
			g, denied := w.permit("http://site.test/", withBytes(100_000))
			if denied != nil {
				t.Fatal(denied)
			}
			w.settle(g, status.PermitEnd{Status: 200, Bytes: 100_000})
			elapse(30 * time.Second)
		}
		list := w.Forecast("", 5)
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		f := list[0]
		if f.Unit != "bytes" || f.Amount != 100_000_000 || f.Used != 12_000_000 || !near(f.RunsOut, time.Now().Add(880*30*time.Second), 0.05) || !f.Done.IsZero() {
			t.Errorf("%+v: in %v", f, time.Until(f.RunsOut))
		}
	})
}

// What is left of a shared limit is what is left for all, not what one instance has leased.
func TestASharedLimitIsForeseenAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yaml := unlearned + "sites:\n  - {host: site.test, limits: [{requests: 1000, per: day}]}\n"
		runFleet(t, 1, reference.New(nil), echoing, yaml, func(all []rig) {
			w := all[0]
			for range 40 {
				if got := w.Get("http://site.test/"); got.Status != 200 {
					t.Fatalf("%+v", got)
				}
			}
			elapse(10 * time.Second) // unspent leases are returned
			list := w.WrittenLimits()
			if len(list) != 1 || list[0].Left != 960 || !list[0].Shared {
				t.Errorf("%+v", list)
			}
		})
	})
}

// Use from before the first forecast counts too.
func TestABurstBeforeTheFirstLookIsForeseen(t *testing.T) {
	run(t, echoing, unlearned+"sites:\n  - {host: site.test, limits: [{requests: 1000, per: day}]}\n", func(w rig) {
		startOfWindow(24 * time.Hour)
		for range 120 {
			w.Get("http://site.test/")
		}
		if f := w.forecast(0); f.Used != 120 || f.Rate < 1.8 || f.Rate > 2.2 || !near(f.RunsOut, time.Now().Add(440*time.Second), 0.1) {
			t.Errorf("%+v: in %v", f, time.Until(f.RunsOut))
		}
		elapse(10 * time.Minute)
		if f := w.forecast(0); f.Rate < 0.1 || f.Rate > 0.13 {
			t.Errorf("%+v", f)
		}
	})
}

// A limit that is no longer in the configuration has no forecast; a limit with another
// amount continues.
func TestWhatIsConfiguredNoMoreIsNotForeseen(t *testing.T) {
	const yaml = unlearned + "sites:\n  - {host: site.test, limits: [{requests: %s}]}\n"
	run(t, echoing, fmt.Sprintf(yaml, "1000, per: day"), func(w rig) {
		startOfWindow(24 * time.Hour)
		for range 60 {
			w.Get("http://site.test/")
			elapse(10 * time.Second)
		}
		before := w.forecast(0)
		w.Reload(fmt.Sprintf(yaml, "2000, per: day"))
		w.Get("http://site.test/")
		if f := w.forecast(0); f.Amount != 2000 || f.Used != 61 || f.Rate < 0.9*before.Rate || f.Rate > 1.2*before.Rate {
			t.Errorf("%+v after %+v", f, before)
		}
		w.Reload(fmt.Sprintf(yaml, "9000, per: month"))
		w.Get("http://site.test/")
		if list := w.Forecast("", 0); len(list) != 1 || list[0].Amount != 9000 {
			t.Errorf("%+v", list)
		}
	})
}
