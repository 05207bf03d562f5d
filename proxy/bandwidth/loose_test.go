package bandwidth

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// perMinute is a limit of some bytes in each minute of the clock.
func perMinute(amount int64) limit.Spec {
	return limit.Spec{As: limit.Fixed, Amount: amount, Window: time.Minute}
}

// Under a large limit nothing is asked for until the rest of the limit is as small as what
// connections may receive unread. What is left of the credit goes back at the end of the
// window and when the budget is closed.
func TestALooseLimitIsCountedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(time.Second, perMinute(1_000_000_000))
		site := b.take("a.test", "")
		site.Hold(1 << 20)
		if !site.CountedOnly() {
			t.Fatal("credit is asked for")
		}
		const step = 990_000_000 / loosePart / looseSteps
		if left := site.limits.Left(); left != 990_000_000-1<<20-step {
			t.Errorf("%d are left", left)
		}
		for passed := 0; passed < 900_000_000; passed += 100_000 {
			site.Pay(100_000)
			if !site.CountedOnly() {
				t.Fatalf("credit is asked for after %d bytes", passed)
			}
		}
		passed := int64(900_000_000)
		for ; site.CountedOnly(); passed += 100_000 {
			site.Pay(100_000)
		}
		if left := site.limits.Left(); passed+left+site.loose.credit.Load() != 990_000_000 {
			t.Errorf("%d bytes passed, and %d are left", passed, left)
		}
		if unread := site.loose.credit.Load(); unread < 1<<20-100_000 {
			t.Errorf("only %d bytes are held for what is unread", unread)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		if !site.CountedOnly() {
			t.Error("credit is asked for in a new window")
		}
		site.Hold(-1 << 20)
		b.Release(site)
		time.Sleep(time.Second)
		b.TidyAll()
		site = b.take("a.test", "")
		if left := site.limits.Left(); left != 990_000_000 {
			t.Errorf("%d are left when nothing has passed", left)
		}
		b.Release(site)
		b.TidyAll()
	})
}

// Credit of one window is not used in the next, whatever windows the limits have, and the
// limit of the longer window gets it back.
func TestLooseLimitsHoldInEveryWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := limit.Spec{As: limit.Fixed, Amount: 250_000_000, Window: 90 * time.Second}
		b := newBed(time.Second, perMinute(200_000_000), long)
		site := b.take("a.test", "")
		random := rand.New(rand.NewPCG(1, 2))
		unread := 500_000
		site.Hold(unread)
		passed := map[time.Duration]map[int64]int64{time.Minute: {}, long.Window: {}}
		for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); {
			n := 1 + random.IntN(500_000)
			switch {
			case random.IntN(20) == 0:
				more := 500_000 + random.IntN(2_500_000) - unread
				site.Hold(more)
				n, unread = 0, unread+more
			case site.CountedOnly():
				site.Pay(n)
			default:
				n = 0
				if got, err := site.limits.Take(nil, 500_000, 1, time.Now()); err == nil {
					n = int(got)
				}
			}
			for window, sums := range passed {
				sums[time.Now().UnixNano()/int64(window)] += int64(n)
			}
			time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		}
		for window, amount := range map[time.Duration]int64{time.Minute: 200_000_000, long.Window: 250_000_000} {
			most := int64(0)
			for _, n := range passed[window] {
				most = max(most, n)
			}
			if most > amount || most < amount*9/10 {
				t.Errorf("%d bytes passed in %v, and %d may", most, window, amount)
			}
		}
		b.Release(site)
		b.TidyAll()
	})
}

func TestWhichLimitsAreLoose(t *testing.T) {
	const huge = 100_000_000_000
	for name, c := range map[string]struct {
		fleet bool
		specs []limit.Spec
		loose bool
	}{
		"large":            {false, []limit.Spec{perMinute(huge)}, true},
		"small":            {false, []limit.Spec{perMinute(50_000_000)}, false},
		"one is small":     {false, []limit.Spec{perMinute(huge), perMinute(1_000_000)}, false},
		"rolling":          {false, []limit.Spec{{As: limit.Rolling, Amount: huge, Window: time.Hour}}, false},
		"a bucket":         {false, []limit.Spec{bucket(huge)}, false},
		"a month":          {false, []limit.Spec{{As: limit.Quota, Amount: huge, Period: limit.Month}}, true},
		"edges everywhere": {false, []limit.Spec{perMinute(huge), {As: limit.Fixed, Amount: huge, Window: 61_001 * time.Millisecond}}, false},
		"of a fleet":       {true, []limit.Spec{perMinute(huge)}, false},
	} {
		bed := newBed(time.Second, c.specs...)
		rules := bed.deps.Rules(Owner{})
		rules.Fleet = c.fleet
		if part, _ := looseLimits(&rules); part > 0 != c.loose {
			t.Errorf("%s: %d bytes may be taken ahead", name, part)
		}
	}
}
