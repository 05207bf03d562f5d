package lease_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store/budget/lease"
	"github.com/abide-proxy/abide/store/budget/lease/fleet"
	"github.com/abide-proxy/abide/store/reference"
)

func TestAFleetNeverTakesMoreThanABudget(t *testing.T) {
	for _, loses := range []bool{false, true} {
		name := "whatever becomes of messages and instances"
		if loses {
			name = "whatever the store forgets"
		}
		t.Run(name, func(t *testing.T) {
			went := 0
			rapid.Check(t, func(t *rapid.T) {
				s := scenarios(loses).Draw(t, "scenario")
				out := s.run(breakage{})
				if wrong := out.excess(s); wrong != "" {
					t.Fatal(wrong)
				}
				went += out.fleet.Count.Requests
			})
			t.Logf("%d requests went", went)
		})
	}
}

// Whatever is repeated, late, or in another order: nobody has more than is written down.
func TestMessagesInAnyOrderNeverRaiseWhatIsGranted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenarios(false).Draw(t, "scenario")
		s.requests.As, s.requests.Window = limit.Fixed, 10*time.Second
		s.network.Twice, s.network.Late = 0.5, 5*time.Second
		if out := s.run(breakage{}); out.wrong != "" {
			t.Fatal(out.wrong)
		}
	})
}

// Clocks are off by up to a minute, and jump: what counts is the store's.
func TestALeaseIsUsedWithinItsWindowByTheStoresClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenarios(false).Draw(t, "scenario")
		s.requests.As, s.requests.Window = limit.Fixed, time.Second
		s.skew, s.jumps = true, true
		out := s.run(breakage{})
		if wrong := out.excess(s); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// After everything has gone wrong, whoever waits gets something when there is room.
func TestSomebodyWhoWaitsGetsSomething(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenarios(rapid.Bool().Draw(t, "loses")).Draw(t, "scenario")
		for _, spec := range []*limit.Spec{&s.requests, &s.bytes} {
			if spec.As == limit.Quota {
				spec.As, spec.Window = limit.Rolling, 10*time.Second
			}
		}
		s.bytes.Amount = max(s.bytes.Amount, 50_000) // for some requests at least
		s.requests.Amount = max(s.requests.Amount, 5)
		if s.bytes.As == limit.Bucket {
			s.bytes.Burst = s.bytes.Amount
		}
		s.largest = s.bytes.Amount / 20
		s.quiet = true
		out := s.run(breakage{})
		f := out.fleet
		f.Cut(false)
		f.Safe(time.Hour)
		f.Run(71 * time.Second) // whoever was frozen is back
		waiting := func() (n int) {
			for i := range f.Len() {
				n += f.Waiting(i)
			}
			return n
		}
		longest := max(s.requests.Window, s.bytes.Window)
		for left := waiting(); left > 0; left = waiting() {
			before := f.Count.Requests
			f.Run(2*longest + 2*time.Second)
			if f.Count.Requests == before {
				t.Fatalf("%d wait, and none of them went within %v", left, 2*longest+2*time.Second)
			}
		}
	})
}

// The numbers of messages are needed: without them, some of a hundred runs find a window
// in which too much was taken.
func TestWithoutNumbersAFleetTakesTooMuch(t *testing.T) {
	const runs = 100
	found := 0
	for i := range runs {
		if raced && found > 0 {
			break // which takes long enough
		}
		s := scenarios(false).Example(i)
		if s.run(breakage{unnumbered: true}).excess(s) != "" {
			found++
		}
	}
	t.Logf("%d of %d runs", found, runs)
	if found == 0 {
		t.Error("nothing was found")
	}
}

// Each instance gets what waits there, at most an equal part, however much waits in the others.
func TestNoInstanceStarvesBesideAnother(t *testing.T) {
	for _, spec := range []limit.Spec{
		{As: limit.Fixed, Amount: 150, Window: 10 * time.Second},
		{As: limit.Rolling, Amount: 150, Window: 10 * time.Second},
		{As: limit.Fixed, Amount: 20, Window: time.Minute},
	} {
		for _, counts := range [][]int{{64, 4}, {64, 16, 4, 1}, {8, 8, 8, 8}} {
			t.Run(fmt.Sprint(spec.As, " ", spec.Amount, counts), func(t *testing.T) {
				const lasts = 200 * time.Millisecond // a request, on average
				need, got := fleet.Need{"requests": 1}, make([]int, len(counts))
				var f *fleet.Fleet
				f = fleet.New(fleet.Options{
					Seed: 1, Budgets: []fleet.Budget{{Key: "requests", Spec: spec, Outage: lease.Strict}},
					Network: fleet.Network{Delay: func(r *rand.Rand) time.Duration {
						return time.Millisecond + time.Duration(r.Int63n(int64(time.Millisecond)))
					}},
					Taken: func(take fleet.Take) {
						got[take.Instance]++
						f.At(lasts/2+time.Duration(f.Rand.Int63n(int64(lasts))), func() { f.Request(take.Instance, need) })
					},
				})
				f.Store = reference.New(f.Now)
				f.Start(len(counts))
				for i, n := range counts {
					for range n {
						f.Request(i, need)
					}
				}
				f.Run(spec.Window)
				clear(got)
				const windows = 10
				f.Run(windows * spec.Window)
				all := 0
				for i, n := range got {
					if all += n; n < windows*min(counts[i], int(spec.Amount)/len(counts))*7/10 {
						t.Errorf("%d crawlers got %d in %d windows: %v", counts[i], n, windows, got)
					}
				}
				if most := windows * int(spec.Amount); all < most*97/100 {
					t.Errorf("%d of %d went", all, most)
				}
				t.Log(got)
			})
		}
	}
}
