package backfill

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

func TestTheEndIsNotGuessedFromNothing(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	p := progress{began: now.Add(-time.Minute), last: now, total: output.Counts{Job: status.Job{Units: status.JobUnits{Waiting: 20}}}}
	p.run.Requests = 10
	p.units = 2
	if p.estimate(p.work(4), time.Time{}); !p.ends.IsZero() {
		t.Errorf("two units say that it ends at %v", p.ends)
	}
	p.units = 10
	if p.estimate(p.work(4), time.Time{}); !p.ends.Equal(now.Add(2 * time.Minute)) {
		t.Errorf("ten units in a minute and 20 left end at %v", p.ends)
	}
	p.total.Units = status.JobUnits{Waiting: 18, Running: 2} // 10 requests: 10 units, and a half of each of 2
	if p.run.Requests = 110; p.work(4).Left != 190 {
		t.Errorf("of 20 units, two of which are half done, %d requests are left", p.work(4).Left)
	}
	if p.estimate(p.work(4), now.Add(time.Hour)); !p.ends.Equal(now.Add(time.Hour)) {
		t.Errorf("the simulation does not count: %v", p.ends)
	}
}

func TestAJobDoesNotEndBeforeItsRequestsMayGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		b := New(Options{Job: &jobfile.Job{}, Limited: func() (string, time.Time) { return "a limit", now.Add(time.Minute) }})
		b.progress.set(output.Counts{Job: status.Job{Units: status.JobUnits{Done: 10, Waiting: 10}}}, now.Add(-10*time.Second))
		b.progress.ends = now.Add(10 * time.Second)
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
