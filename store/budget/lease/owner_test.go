package lease_test

import (
	"math/rand"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

// exchangesEach returns the exchanges that a request takes at a site that one instance uses: some
// requests in a row, and that again after a while.
func exchangesEach(owns bool, spec limit.Spec, inRow int, every time.Duration, rounds int) float64 {
	f := fleet.New(fleet.Options{
		Seed:    3,
		Network: fleet.Network{Delay: func(*rand.Rand) time.Duration { return time.Millisecond }},
		Budgets: []fleet.Budget{{Key: "requests", Spec: spec, Outage: lease.Strict}},
		Owns:    func(int) bool { return owns },
	})
	f.Store = reference.New(f.Now)
	f.Start(1)
	f.Run(2 * store.RecoveryTime)
	before := f.Count
	for range rounds {
		for range inRow {
			f.Request(0, fleet.Need{"requests": 1})
			f.Run(100 * time.Millisecond)
		}
		f.Run(every)
	}
	return float64(f.Count.Exchanges-before.Exchanges) / float64(f.Count.Requests-before.Requests)
}

// Whoever owns a site does not ask for each request, nor does one that is alone there.
func TestWhoOwnsASiteAsksSeldom(t *testing.T) {
	minute := limit.Spec{As: limit.Rolling, Amount: 60, Window: time.Minute}
	quarter := limit.Spec{As: limit.Rolling, Amount: 900, Window: 15 * time.Minute}
	fixed := limit.Spec{As: limit.Fixed, Amount: 60, Window: time.Minute}
	day := limit.Spec{As: limit.Quota, Amount: 10_000, Period: limit.Day}
	for _, c := range []struct {
		name    string
		spec    limit.Spec
		inRow   int
		every   time.Duration
		owner   float64 // exchanges a request at most
		anybody float64
	}{
		{"60 per minute, one in 10 s", minute, 1, 10 * time.Second, 0.4, 0.6},
		{"60 per minute, one in 2 s", minute, 1, 2 * time.Second, 0.2, 0.4},
		{"900 per 15 minutes, one in 10 s", quarter, 1, 10 * time.Second, 0.03, 0.1},
		{"900 per 15 minutes, 50 in a row", quarter, 50, 20 * time.Minute, 0.03, 0.1},
		{"60 per minute of the clock, one in 10 s", fixed, 1, 10 * time.Second, 0.3, 0.4},
		{"10,000 per day, one in 10 s", day, 1, 10 * time.Second, 0.06, 0.06},
		{"10,000 per day, 50 in a row", day, 50, 20 * time.Minute, 0.07, 0.1},
	} {
		owner, anybody := exchangesEach(true, c.spec, c.inRow, c.every, 40), exchangesEach(false, c.spec, c.inRow, c.every, 40)
		t.Logf("%s: %.3f exchanges a request of an owner, %.3f of anybody", c.name, owner, anybody)
		if owner > c.owner || anybody > c.anybody {
			t.Errorf("%s: %.3f exchanges a request of an owner, %.3f of anybody", c.name, owner, anybody)
		}
	}
}

// What an owner has is not spent again by the next one, and is there for it soon.
func TestASiteThatGetsAnotherOwnerKeepsItsLimit(t *testing.T) {
	for _, as := range []limit.As{limit.Fixed, limit.Rolling} {
		for _, ends := range []string{"stays", "crashes"} {
			spec := limit.Spec{As: as, Amount: 80, Window: time.Minute}
			owner, taken := 0, map[int]int64{}
			var takes []fleet.Take
			f := fleet.New(fleet.Options{
				Seed:    3,
				Network: fleet.Network{Delay: func(*rand.Rand) time.Duration { return time.Millisecond }},
				Budgets: []fleet.Budget{{Key: "requests", Spec: spec, Outage: lease.Strict}},
				Owns:    func(i int) bool { return i == owner },
				Taken: func(take fleet.Take) {
					takes = append(takes, take)
					taken[take.Instance] += take.N
				},
			})
			f.Store = reference.New(f.Now)
			f.Start(2)
			f.Run(2 * store.RecoveryTime)
			for range 5 {
				f.Request(0, fleet.Need{"requests": 1})
				f.Run(500 * time.Millisecond)
			}
			if owner = 1; ends == "crashes" {
				f.Crash(0)
			}
			for range 300 {
				f.Request(1, fleet.Need{"requests": 1})
			}
			f.Run(40 * time.Second)
			if n := taken[1]; taken[0] != 5 || n < 80-5-10 {
				t.Errorf("%s, the first %s: it took %d, and the next one %d", as, ends, taken[0], n)
			}
			f.Run(100 * time.Second)
			if n := taken[1]; n < 2*80 {
				t.Errorf("%s, the first %s: the next one took %d after two windows", as, ends, n)
			}
			if wrong := over(spec, takes); wrong != "" {
				t.Errorf("%s, the first %s: %s", as, ends, wrong)
			}
		}
	}
}
