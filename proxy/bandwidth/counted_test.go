package bandwidth

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
)

// perMinute is a limit of some bytes in each minute of the clock.
func perMinute(amount int64) limit.Spec {
	return limit.Spec{As: limit.Fixed, Amount: amount, Window: time.Minute}
}

// open has a connection hold size bytes.
func open(t *testing.T, b *SiteBudget, size int) {
	t.Helper()
	if n, held, err := b.Open(nil, new(time.Time), size, 1); n != 1 || held != size || err != nil {
		t.Fatal(n, held, err)
	}
}

// Under a large limit nothing is asked for until hardly anything of it is left. What is held goes
// back when the connections and the budget are closed.
func TestALargeLimitIsCountedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, size = 990_000_000, 1 << 20
		b := newBed(time.Second, perMinute(1_000_000_000))
		site := b.take("a.test", "")
		open(t, site, size)
		if !site.CountedOnly() {
			t.Fatal("credit is asked for")
		}
		passed := int64(0)
		for ; site.CountedOnly(); passed += 50_000 {
			site.Pay(50_000)
		}
		if passed < all*98/100 {
			t.Errorf("credit is asked for after %d bytes", passed)
		}
		if left := leftOf(site, false); passed+left+size > all || left < 0 {
			t.Errorf("%d bytes passed, and %d are left", passed, left)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		if left := leftOf(site, false); left != all-size {
			t.Errorf("%d are left at the begin of a window", left)
		}
		if !site.CountedOnly() {
			t.Error("credit is asked for in a new window")
		}
		site.Release(size, size)
		b.Release(site)
		time.Sleep(time.Second)
		b.TidyAll()
		site = b.take("a.test", "")
		if left := leftOf(site, false); left < all-3_000_000 {
			t.Errorf("%d are left when nothing has passed", left)
		}
		b.Release(site)
		b.TidyAll()
	})
}

// Whatever passes, is held and is counted only, no window has more than its limit: neither bytes
// that passed nor those that connections may receive.
func TestLimitsThatAreCountedOnlyHoldInEveryWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := limit.Spec{As: limit.Fixed, Amount: 250_000_000, Window: 90 * time.Second}
		b := newBed(time.Second, perMinute(200_000_000), long)
		site := b.take("a.test", "")
		random := rand.New(rand.NewPCG(1, 2))
		open(t, site, 500_000)
		open(t, site, 500_000)
		passed := map[time.Duration]map[int64]int64{time.Minute: {}, long.Window: {}}
		for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); {
			n := 1 + random.IntN(maxUncounted)
			switch {
			case random.IntN(20) == 0:
				site.Release(500_000, 500_000)
				open(t, site, 500_000)
				n = 1
			case site.CountedOnly():
				site.Pay(n)
			default:
				n = 0
				if got, err := site.limits.Draw(nil, queue.Draw{Most: maxUncounted, Least: 1, Until: time.Now()}); err == nil {
					n = int(got)
				}
			}
			for window, sums := range passed {
				sums[time.Now().UnixNano()/int64(window)] += int64(n)
			}
			time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
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
		site.Release(500_000, 500_000)
		site.Release(500_000, 500_000)
		b.Release(site)
		b.TidyAll()
	})
}

func TestWhichLimitsAreCountedOnly(t *testing.T) {
	const huge = 100_000_000_000
	for name, c := range map[string]struct {
		specs   []limit.Spec
		counted bool
	}{
		"large":        {[]limit.Spec{perMinute(huge)}, true},
		"small":        {[]limit.Spec{perMinute(90_000_000)}, false},
		"one is small": {[]limit.Spec{perMinute(huge), perMinute(1_000_000)}, false},
		"rolling":      {[]limit.Spec{{As: limit.Rolling, Amount: huge, Window: time.Hour}}, true},
		"a bucket":     {[]limit.Spec{bucket(huge)}, true},
		"a month":      {[]limit.Spec{{As: limit.Quota, Amount: huge, Period: limit.Month}}, true},
	} {
		b := newBed(time.Second, c.specs...).take("a.test", "")
		open(t, b, 64<<10)
		if got := b.CountedOnly(); got != c.counted {
			t.Errorf("%s: counted only: %v", name, got)
		}
	}
}

// A connection that waits holds no more of the next window than what can arrive meanwhile.
func TestAWindowBeginsWithWhatConnectionsMayReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, size = 990_000, 100_000
		b := newBed(time.Hour, perMinute(1_000_000))
		site, other := b.take("a.test", ""), b.take("a.test", "x")
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		open(t, site, size)
		open(t, other, size)
		must(t, site, 1<<20)
		waits := make(chan int)
		go func() {
			n, _ := site.Credit(nil, new(time.Time), 50_000, func() (unread, spare int64) { return 60_000, 30_000 })
			waits <- n
		}()
		time.Sleep(time.Second)
		if left := leftOf(site, false); left != 30_000 {
			t.Errorf("%d came back", left)
		}
		time.Sleep(time.Minute - time.Second - time.Nanosecond)
		time.Sleep(time.Nanosecond)
		if n := <-waits; n != 50_000 {
			t.Errorf("%d granted", n)
		}
		if left := leftOf(site, false); left != all-size-10_000-50_000-30_000 {
			t.Errorf("%d are left", left)
		}
		site.Release(size, size-10_000) // which arrived before this window, as all that was read
		other.Release(size, size-40_000)
		if left := leftOf(site, false); left != all-40_000 {
			t.Errorf("%d are left at the end", left)
		}
		b.gate.Close()
	})
}

// Connections hold at most half of a limit. Who has to wait for its part lets others go.
func TestConnectionsHoldAtMostHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(time.Hour, perMinute(1_000_000))
		site := b.take("a.test", "")
		for range 4 {
			open(t, site, 100_000)
		}
		opened := make(chan int)
		go func() {
			_, held, _ := site.Open(nil, new(time.Time), 100_000, 1)
			opened <- held
		}()
		synctest.Wait()
		if got := must(t, site, 1000); got != 1000 {
			t.Errorf("%d granted", got)
		}
		site.Release(100_000, 100_000)
		if held := <-opened; held != 100_000 {
			t.Errorf("%d held", held)
		}
		b.gate.Close()
	})
}
