package lease_test

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"

	"pgregory.net/rapid"
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
