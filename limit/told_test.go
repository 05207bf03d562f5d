package limit_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

func TestWhatAServerAnnouncesOnlyTightens(t *testing.T) {
	for _, as := range []limit.As{limit.Rolling, limit.Fixed, limit.FirstUse, limit.Bucket, limit.Paced, limit.Quota, limit.Concurrency, limit.Adaptive} {
		t.Run(string(as), rapid.MakeCheck(func(t *rapid.T) {
			s := spec(t, as)
			h := live(t, s, false, func(*history, *event) {})
			n := rapid.Int64Range(1, max(s.Amount, 1)).Draw(t, "n")
			for range rapid.IntRange(1, 4).Draw(t, "answers") {
				before, ok := h.m.When(h.now, n)
				if !ok {
					return
				}
				left := h.m.Left(h.now)
				h.m.Observe(h.now, limit.Observation{
					Limit:     rapid.Int64().Draw(t, "limit"),
					Remaining: rapid.Int64Range(-5, 30).Draw(t, "remaining"),
					Reset:     h.now.Add(time.Duration(rapid.Int64().Draw(t, "reset"))),
					RetryAt:   h.now.Add(time.Duration(rapid.Int64().Draw(t, "retry"))),
				})
				after, ok := h.m.When(h.now, n)
				if !ok || after.Before(before) || h.m.Left(h.now) > left {
					t.Fatalf("%v and %d left, were %v and %d", after, h.m.Left(h.now), before, left)
				}
				if wait := after.Sub(h.now); wait > 32*24*time.Hour && after.After(before) && !after.Equal(limit.Unknown) {
					t.Fatalf("believes a wait of %v", wait)
				}
			}
		}))
	}
}

func TestUP02_LyingHeadersStopNothingForEver(t *testing.T) {
	for _, s := range all {
		for _, o := range []limit.Observation{
			{Limit: 1e18, Remaining: -5, Reset: began.Add(time.Minute)},
			{Limit: 0, Remaining: 0, Reset: began},
			{Limit: math.MinInt64, Remaining: math.MinInt64, Reset: time.Unix(math.MaxInt64, 0)},
			{Limit: 0, Remaining: 0, Reset: began.AddDate(100, 0, 0)},
			{Limit: -1, Remaining: -1, RetryAt: began.AddDate(100, 0, 0)},
			{Limit: -1, Remaining: -1, RetryAt: time.Unix(math.MaxInt64, 0)},
		} {
			m := build(t, s)
			m.Observe(began, o)
			if at, ok := m.When(began, 1); !ok || at.After(began.Add(24*time.Hour)) {
				t.Errorf("%s: %+v stops everything until %v", s.As, o, at)
			}
		}
	}
}

func TestAnAnnouncedRemainderLastsUntilItsReset(t *testing.T) {
	for _, s := range all {
		if s.As == limit.Concurrency || s.As == limit.Paced || s.As == limit.Adaptive {
			continue
		}
		m := build(t, s)
		reset := began.Add(30 * time.Second)
		m.Observe(began, limit.Observation{Limit: 10, Remaining: 2, Reset: reset})
		m.Take(began.Add(1), 1)
		m.Take(began.Add(1), 1)
		at, _ := m.When(began.Add(1), 1)
		if !at.Equal(reset) {
			t.Errorf("%s: the third may go at %v, want %v", s.As, at, reset)
		}
		m.Give(began.Add(2), began.Add(1), 1)
		if at, _ := m.When(began.Add(2), 1); at.After(began.Add(2)) {
			t.Errorf("%s: what was given back waits until %v", s.As, at)
		}
	}
}

func TestARetryTimeHoldsEverything(t *testing.T) {
	for _, s := range all {
		m := build(t, s)
		retry := began.Add(17 * time.Second)
		o := limit.Silent
		o.RetryAt = retry
		m.Observe(began, o)
		if at, _ := m.When(began, 1); !at.Equal(retry) {
			t.Errorf("%s: goes at %v, want %v", s.As, at, retry)
		}
		if m.Left(began) != 0 || m.Idle(began) {
			t.Errorf("%s: has something left, or is idle", s.As)
		}
	}
}
