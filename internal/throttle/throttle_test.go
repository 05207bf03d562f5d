package throttle

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var from = netip.MustParseAddr("192.0.2.1")

func TestTheFirstWrongSecretsAreAnsweredAtOnceAndLaterOnesLater(t *testing.T) {
	a, now := newAddresses(), time.Unix(1_800_000_000, 0)
	for i := range freeAttempts {
		if delay := a.wrong(now, from); delay != 0 {
			t.Fatalf("number %d waits for %v", i+1, delay)
		}
	}
	for i, want := range []time.Duration{attemptInterval, 2 * attemptInterval, longestDelay, longestDelay} {
		if delay := a.wrong(now, from); delay != want {
			t.Errorf("number %d waits for %v, not %v", freeAttempts+i+1, delay, want)
		}
	}
	if delay := a.wrong(now, netip.MustParseAddr("192.0.2.2")); delay != 0 {
		t.Errorf("another address waits for %v", delay)
	}
	// After an hour all is forgotten.
	for i := range freeAttempts {
		if delay := a.wrong(now.Add(time.Hour), from); delay != 0 {
			t.Errorf("number %d of the next hour waits for %v", i+1, delay)
		}
	}
}

// TestOneConnectionTriesNoFasterThanTheInterval is a property: one that waits for each
// answer before it presents the next secret gets what is free and then one an interval.
func TestOneConnectionTriesNoFasterThanTheInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, begin := newAddresses(), time.Unix(1_800_000_000, 0)
		now, n := begin, 0
		for range rapid.IntRange(1, 60).Draw(t, "guesses") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*attemptInterval)).Draw(t, "pause")))
			delay := a.wrong(now, from)
			if delay < 0 || delay > longestDelay {
				t.Fatal(delay)
			}
			now = now.Add(delay)
			n++
			if most := freeAttempts + int(now.Sub(begin)/attemptInterval); n > most {
				t.Fatalf("%d answers after %v", n, now.Sub(begin))
			}
		}
	})
}

func TestANetworkOfIPv6IsOneAddress(t *testing.T) {
	for a, same := range map[[2]string]bool{
		{"2001:db8::1", "2001:db8::ffff:1"}:             true,
		{"2001:db8::1", "2001:db8:0:1::1"}:              false,
		{"::ffff:192.0.2.1", "192.0.2.1"}:               true,
		{"192.0.2.1", "192.0.2.2"}:                      false,
		{"fe80::1%eth0", "fe80::2%eth1"}:                true,
		{"::ffff:192.0.2.1", "::ffff:192.0.2.1%ignore"}: true,
	} {
		if got := network(netip.MustParseAddr(a[0])) == network(netip.MustParseAddr(a[1])); got != same {
			t.Errorf("%v are one: %v", a, got)
		}
	}
	newAddresses().wrong(time.Now(), netip.Addr{}) // of a pipe, which has none
}

func TestNoMoreAddressesAreRememberedThanTheBound(t *testing.T) {
	a := newAddresses()
	for i := range 3 * maxAddresses {
		a.wrong(time.Unix(int64(i), 0), netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if n := a.known.Len(); n != maxAddresses {
		t.Errorf("%d are remembered", n)
	}
}

func TestTheLogTellsOfAnAddressSoonAndOfAllInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		began := time.Now()
		g := New(func(_ netip.Addr, wrong int) {
			mu.Lock()
			lines = append(lines, fmt.Sprint(time.Since(began), " ", wrong))
			mu.Unlock()
		})
		gone, cancel := context.WithCancel(t.Context())
		cancel() // who does not wait is counted too
		for range 500 {
			g.Wrong(gone, from)
		}
		time.Sleep(5500 * time.Millisecond)
		for range 100 {
			g.Wrong(gone, from)
			time.Sleep(time.Second)
		}
		g.Wrong(gone, from)
		time.Sleep(10 * time.Minute)
		g.Wrong(gone, from)
		synctest.Wait()
		if got, want := fmt.Sprint(lines), "[0s 1 1s 499 11s 6 1m11s 60 2m11s 35 11m45.5s 1]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestManyAtOnceEndAfterTheLongestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(func(netip.Addr, int) {})
		began, answers := time.Now(), 0
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 1000 {
			all.Go(func() {
				g.Wrong(t.Context(), from)
				mu.Lock()
				defer mu.Unlock()
				if time.Since(began) < attemptInterval {
					answers++
				}
			})
		}
		all.Wait()
		if took := time.Since(began); answers != freeAttempts || took != longestDelay {
			t.Errorf("%d answers at once, the last after %v", answers, took)
		}
	})
}

func TestNothingIsHeldBackAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(func(netip.Addr, int) {})
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { g.Wrong(t.Context(), from) })
		}
		synctest.Wait()
		g.End()
		g.End()
		all.Wait()
		g.Wrong(t.Context(), from)
		if took := time.Since(began); took != 0 {
			t.Errorf("the last is answered after %v", took)
		}
	})
}

// Very many addresses do not fill the log, and leave no timer behind.
func TestTheLogHasFewLinesOfVeryManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		lines, wrong := 0, 0
		g := New(func(_ netip.Addr, n int) {
			mu.Lock()
			defer mu.Unlock()
			lines++
			wrong += n
		})
		logged := func() int {
			mu.Lock()
			defer mu.Unlock()
			return lines
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		const addresses = 500
		for i := range addresses {
			g.Wrong(gone, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
		}
		if n := logged(); n > maxLogBurst {
			t.Errorf("%d lines at once", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if wrong != addresses {
			t.Errorf("the log was told of %d of %d", wrong, addresses)
		}
		g.Wrong(gone, from)
		g.Wrong(gone, from)
		g.End() // or the bubble would wait for the timer
		before := logged()
		time.Sleep(time.Hour)
		if logged() != before {
			t.Error("the log is told something after the end")
		}
	})
}
