package backfill

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/forecast"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// A year of days is fetched under a daily quota: from a twentieth of the way on the estimate is
// within a tenth of the rest.
func TestTheEndIsKnownWhereAQuotaLimits(t *testing.T) {
	const (
		units   = 365
		each    = 12 // requests of a unit
		quota   = 500
		perTick = 5 // requests a second, while the quota lasts
	)
	start := time.Date(2026, time.March, 1, 9, 30, 0, 0, time.UTC)
	type point struct {
		at    time.Time
		w     work
		limit time.Time
	}
	var points []point
	now, sent, used := start, int64(0), int64(0)
	for sent < units*each {
		if now.Truncate(24 * time.Hour).Equal(now) {
			used = 0
		}
		n := min(perTick, quota-used, units*each-sent)
		sent, used = sent+n, used+n
		now = now.Add(time.Second)
		if now.Unix()%599 != 0 {
			continue
		}
		w := work{units: sent / each, requests: sent, took: now.Sub(start), left: units - sent/each}
		b := forecast.Budget{Spec: limit.Spec{As: limit.Quota, Amount: quota, Period: limit.Day}, Amount: quota, Used: used, Left: quota - used, Rate: float64(n)}
		points = append(points, point{now, w, b.Forecast(now, w.requestsLeft()).Done})
	}
	checked := 0
	for _, p := range points {
		if p.at.Sub(start) < now.Sub(start)/20 || p.w.left == 0 {
			continue
		}
		checked++
		end := p.w.ends(p.at, p.limit)
		if wrong := end.Sub(now).Abs(); wrong > now.Sub(start)/10 {
			t.Errorf("after %v the end is expected at %v; it was at %v", p.at.Sub(start), end, now)
		}
	}
	if checked < 500 {
		t.Errorf("only %d estimates were checked", checked)
	}
}

func TestTheEndIsNotGuessedFromNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	if at := (work{units: 2, requests: 2, took: time.Minute, left: 100}).ends(now, time.Time{}); !at.IsZero() {
		t.Errorf("two units say that it ends at %v", at)
	}
	if at := (work{units: 10, requests: 10, took: time.Minute, left: 20}).ends(now, time.Time{}); !at.Equal(now.Add(2 * time.Minute)) {
		t.Errorf("ten units in a minute and 20 left end at %v", at)
	}
}

func TestAJobDoesNotEndBeforeItsRequestsMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		b := New(Options{Job: &jobfile.Job{}, Limited: func() (string, time.Time) { return "a limit", now.Add(time.Minute) }})
		b.progress.set(output.Counts{Units: map[output.State]int64{output.Done: 10, output.Waiting: 10}}, now.Add(-10*time.Second))
		b.progress.units.Store(10)
		if s := b.Status(now); !s.Ends.Equal(now.Add(70*time.Second)) || s.Limited != "a limit" {
			t.Errorf("%+v", s)
		}
	})
}

func TestTheNextTryWaitsLongerEachTimeAndAsLongAsTheSiteSays(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	last := time.Duration(0)
	for tries := range 100 {
		d := nextTry(now, time.Time{}, tries, 0).Sub(now)
		if d < last || d > maxPause {
			t.Fatalf("try %d waits %v, the one before %v", tries, d, last)
		}
		last = d
	}
	if after := now.Add(time.Hour); !nextTry(now, after, 0, 0).Equal(after) || nextTry(now, after, 0, 1).Before(after) {
		t.Error("the site's word does not count")
	}
	if early, late := nextTry(now, time.Time{}, 5, 1), nextTry(now, time.Time{}, 5, 0); late.Sub(early) != late.Sub(now)/2 {
		t.Errorf("units that fail together come back from %v to %v", early, late)
	}
}
