//go:build linux

package main

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// All at once: each waits most of the time.
func TestAbidesThatShareABudgetKeepIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	built, err := newBed(ctx, root, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := built.close(); err != nil {
			t.Error(err)
		}
	}()
	var all sync.WaitGroup
	on := func(do func(*bed)) {
		all.Go(func() {
			b, err := newBed(ctx, root, built.abide)
			if err != nil {
				t.Error(err)
				return
			}
			b.brief = true
			do(b)
			if err := b.close(); err != nil {
				t.Error(err)
			}
		})
	}
	on(func(b *bed) {
		s, err := b.share(ctx, 4, budget{name: "fixed", yaml: "{requests: 80, per: 2s, as: fixed}", amount: 80, window: 2 * time.Second, size: 100}, 3)
		if err != nil || s.beyond > 0 || s.failed > 0 || s.served < s.budget.amount {
			t.Errorf("four processes: %+v, %v", s, err)
		}
	})
	for _, f := range []fault{
		{name: "Redis stopped", window: time.Second, lasts: 2 * time.Second, phase: 500 * time.Millisecond, begin: stop, end: goOn},
		{name: "Redis restarted empty", window: time.Second, phase: 500 * time.Millisecond, begin: killRedis, end: startRedis},
	} {
		on(func(b *bed) {
			list, err := b.suffer(ctx, f, false, t.Logf)
			if err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
			for _, one := range list {
				if one.Outage == "strict" && one.beyond > 0 || !one.Well || one.Hung > 0 || one.Failed > 0 || one.Before == 0 {
					t.Errorf("%s, %s: %+v", f.name, one.Outage, one)
				}
			}
		})
	}
	all.Wait()
}

func TestAWindowHasTooMuchUnlessSomeOfItAreLate(t *testing.T) {
	of := budget{amount: 2, window: time.Second}
	at := func(list ...int) (events []event) {
		for _, ms := range list {
			events = append(events, event{time.UnixMilli(int64(ms)), 1})
		}
		return events
	}
	for _, c := range []struct {
		events       []event
		over, beyond int64
	}{
		{at(1, 2, 1500, 1600), 0, 0},
		{at(1, 2, 3), 1, 1},
		{at(1, 1010, 1500, 1600), 1, 0},
		{at(1, 2, 1010, 1500, 1600), 1, 1},
		{at(1, 1400, 1500, 1600), 1, 1},
		{at(1, 1010, 1020, 2010, 2500, 2600), 1, 0},
	} {
		if got := of.over(c.events); got != c.over {
			t.Errorf("%v: over %d", c.events, got)
		}
		if got := of.beyond(c.events, 100*time.Millisecond); got != c.beyond {
			t.Errorf("%v: beyond %d", c.events, got)
		}
	}
}

func TestARelayGivesTheScriptAnotherClock(t *testing.T) {
	b := &bed{dir: t.TempDir()}
	defer b.clear()
	server, err := b.redisAt(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.shiftedTo(t.Context(), server.at)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.at, MaxRetries: -1, DisableIdentity: true})
	defer c.Close()
	told := func(passed string) string {
		t.Helper()
		text, err := c.Eval(t.Context(), "return ARGV[2]", []string{"key"}, "step", passed).Text()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	s.offset.Store(int64(-time.Hour))
	at, err := strconv.ParseInt(told(""), 10, 64)
	if off := time.Since(time.UnixMicro(at)); err != nil || off < time.Hour || off > time.Hour+time.Minute {
		t.Errorf("%v, %v", off, err)
	}
	if got := told("7"); got != "7" {
		t.Errorf("a time that was told is %q", got)
	}
	if got, err := c.Echo(t.Context(), "").Result(); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
