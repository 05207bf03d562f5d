package queue

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
)

func wantBlocked(t *testing.T, g *Gate, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	for _, b := range g.Blocked() {
		got[b.Site+": "+b.Limit] += b.Seconds
	}
	for at := range got {
		if _, known := want[at]; !known {
			t.Errorf("%s has held back for %v", at, got[at])
		}
	}
	for at, seconds := range want {
		if math.Abs(got[at]-seconds) > 1e-6 {
			t.Errorf("%s has held back for %v, want %v", at, got[at], seconds)
		}
	}
}

func TestHowLongALimitHeldRequestsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		ctx, hangUp := context.WithCancel(t.Context())
		send := func(ctx context.Context, client string) {
			r := asks("a", client, nil)
			r.Limits[0][0] = Limit{Name: "n", Title: "1 per minute", Key: client, Spec: &perMinute, N: 1}
			if p, err := g.Wait(ctx, r); err == nil {
				p.Finish(Result{})
			}
		}
		var all sync.WaitGroup
		for _, client := range []string{"x", "y"} {
			for range 3 { // one goes at once, one after a minute, one after two
				all.Go(func() { send(t.Context(), client) })
			}
		}
		synctest.Wait()
		wantBlocked(t, g, nil)
		time.Sleep(30 * time.Second)
		wantBlocked(t, g, map[string]float64{"a: 1 per minute": 120})
		all.Go(func() { send(ctx, "x") })
		time.Sleep(10 * time.Second)
		hangUp()
		time.Sleep(40 * time.Second)
		wantBlocked(t, g, map[string]float64{"a: 1 per minute": 4*60 + 10 + 2*20})
		all.Wait()
		time.Sleep(time.Hour)
		wantBlocked(t, g, map[string]float64{"a: 1 per minute": 4*60 + 10 + 2*60})
	})
}

func TestWhatKeepsARequestIsWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{}, nil)
		p := allow(t, g, asks("a", "x", &perMinute))
		p.Cool(Scope{}, time.Now().Add(90*time.Second), "Retry-After")
		p.Finish(Result{})
		var all sync.WaitGroup
		for range 2 { // at 90 s, and at 150 s
			all.Go(func() { allow(t, g, asks("a", "x", &perMinute)).Finish(Result{}) })
		}
		all.Wait()
		p = allow(t, g, asks("b", "x", &perMinute))
		if err := p.Again(t.Context(), Retry{Result: Result{Outcome: limit.Failed}, NotBefore: time.Now().Add(20 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		wantBlocked(t, g, map[string]float64{"a: cooldown": 180, "a: limit": 60, "b: retry": 20, "b: limit": 40})
	})
}

// Whatever happens, each second that somebody waits counts for something, once.
func TestAllThatIsWaitedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{PerSite: 60, Aging: 5 * time.Second}, nil)
		var mu sync.Mutex
		waited := 0.0
		var all sync.WaitGroup
		for i := range 200 {
			time.Sleep(50 * time.Millisecond)
			all.Go(func() {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%11)*7*time.Second)
				defer cancel()
				r := asks("a", fmt.Sprint(i%5), &limit.Spec{As: limit.Rolling, Amount: 5, Window: time.Second})
				r.Priority = i % 8
				if i%3 == 0 {
					r.Limits[0] = append(r.Limits[0], Limit{Name: "route", Key: fmt.Sprint(i % 2), Spec: &perSecond, N: 1})
				}
				p, err := g.Wait(ctx, r)
				spent := time.Since(start)
				if err == nil {
					if i%13 == 0 {
						p.Cool(Scope{}, time.Now().Add(2*time.Second), "")
					}
					if i%4 == 0 {
						start = time.Now()
						err = p.Again(ctx, Retry{NotBefore: start.Add(time.Duration(i%3) * time.Second)})
						spent += time.Since(start)
					}
				}
				if err == nil {
					p.Finish(Result{})
				}
				mu.Lock()
				waited += spent.Seconds()
				mu.Unlock()
			})
			if i == 100 {
				g.Reload(Bounds{PerSite: 60}, plans(func(r Request) [][]Limit { return r.Limits }))
			}
		}
		all.Wait()
		counted := 0.0
		for _, b := range g.Blocked() {
			counted += b.Seconds
		}
		if math.Abs(counted-waited) > 1e-3 || waited < 100 {
			t.Errorf("%v seconds are counted, %v were waited", counted, waited)
		}
	})
}

func TestWhatKeptAGroupForLongest(t *testing.T) {
	tolls := []*blockedTime{{name: "a"}, {name: "b"}, {name: "c"}}
	// The plain way: each stretch of time counts for the limit that kept the group then.
	plain := func(g *group, from, to time.Time) (string, time.Duration) {
		total := map[*blockedTime]time.Duration{}
		limit, longest := "", time.Duration(0)
		for i := len(g.history) - 1; i >= 0 && to.After(from); i-- {
			begun := g.history[i].from
			if begun.Before(from) {
				begun = from
			}
			total[g.history[i].time] += to.Sub(begun)
			if limit == "" || total[g.history[i].time] > longest {
				limit, longest = g.history[i].time.name, total[g.history[i].time]
			}
			to = begun
		}
		if limit == "" {
			limit = g.history[len(g.history)-1].time.name
		}
		return limit, longest
	}
	rapid.Check(t, func(t *rapid.T) {
		g, at := &group{}, noon
		for range rapid.IntRange(1, mostBlockedSince).Draw(t, "kept") {
			g.history = append(g.history, blockedSince{rapid.SampledFrom(tolls).Draw(t, "toll"), at})
			at = at.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
		}
		from := noon.Add(time.Duration(rapid.IntRange(-2, 30).Draw(t, "from")) * time.Second)
		to := from.Add(time.Duration(rapid.IntRange(-1, 60).Draw(t, "for")) * time.Second)
		limit, longest := g.longest(from, to)
		if limitPlain, longestPlain := plain(g, from, to); limit != limitPlain || longest != longestPlain {
			t.Fatalf("%s for %v, want %s for %v", limit, longest, limitPlain, longestPlain)
		}
	})
	g := &group{}
	for n := range mostBlockedSince {
		g.history = append(g.history, blockedSince{tolls[n%len(tolls)], noon.Add(time.Duration(n) * time.Second)})
	}
	for _, from := range []time.Time{noon, noon.Add(time.Minute)} {
		if n := testing.AllocsPerRun(100, func() { g.longest(from, from.Add(time.Hour)) }); n != 0 {
			t.Errorf("a hold that leaves allocates %v times", n)
		}
	}
}
