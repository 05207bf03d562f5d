package proxy

import (
	"math"
	"testing"
	"time"
)

// limited has a proxy keep other limits of its site from now on.
func (w *weighed) limited(limits string) {
	w.t.Helper()
	next := *w.server.policy()
	next.Sites = w.policy("data: none\n" + limitsOf(limits)).Sites
	must(w.t, w.server.Reload(&next))
}

// rate is how many bytes pass in each someTime, from the next window on. It is not
// known when nobody looked at its edges, as the machine had something else to do.
func (w *weighed) rate() (each int64, known bool) {
	begin := time.Now().Truncate(someTime).Add(2 * someTime)
	w.weigh(begin.Add(2*someTime + someTime/10))
	from, ok := w.at(begin, "", someTime/20)
	to, also := w.at(begin.Add(2*someTime), "", someTime/20)
	return (to - from) / 2, ok && also
}

// passes looks up to forty times whether so much passes: the machine may have something
// else to do. Too much is too much at any time.
func (w *weighed) passes(least, most int64) {
	w.t.Helper()
	is, known := int64(0), false
	for range 40 {
		if is, known = w.rate(); known && is >= least {
			break
		}
	}
	if !known || is < least || is > most {
		w.t.Errorf("%d bytes pass, not %d to %d; was it seen: %v", is, least, most, known)
	}
}

// Limits of bytes change and go while bodies and tunnels are under way.
func TestLimitsOfBytesAreReloadedUnderTraffic(t *testing.T) {
	for _, k := range []struct {
		name, speaks, intercept string
		begin                   func(w *weighed)
	}{
		{"plain", "http", "none", func(w *weighed) { w.asks(w.client(false), "GET", "http://"+host+"/", 0) }},
		{"tunnel", "", "none", func(w *weighed) { w.tunnels("127.0.0.1", "flooda") }},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w := newWeighed(t, k.speaks, "intercept: "+k.intercept, limitsOf("{bytes: 100kB, per: 500ms}"))
			k.begin(w)
			w.passes(80_000, 100_000+buffer)
			w.limited("{bytes: 300kB, per: 500ms}")
			w.passes(250_000, 300_000+buffer)
			w.limited("{bytes: 50kB, per: 250ms, as: rolling}")
			w.passes(80_000, 100_000+buffer)
			w.limited("")
			w.passes(1_000_000, math.MaxInt64)
		})
	}
}

// What its server has sent before comes slowly too, so it is what abide takes that is
// looked at.
func TestALimitOfBytesBeginsToHoldInTunnelsThatAreOpen(t *testing.T) {
	t.Parallel()
	w := newWeighed(t, "", "intercept: none", limitsOf(""))
	w.tunnels("127.0.0.1", "flooda")
	eventually(t, 20*time.Second, "it flows", func() bool { return w.taken() > 10<<20 })
	w.limited("{bytes: 100kB, per: 500ms}")
	w.weigh(time.Now().Truncate(someTime).Add(2 * someTime))
	for tries := 1; ; tries++ { // the machine may have something else to do
		began, before := time.Now(), w.taken()
		w.weigh(began.Truncate(someTime).Add(5 * someTime))
		is := w.taken() - before
		windows := uint64(time.Now().Truncate(someTime).Sub(began.Truncate(someTime))/someTime) + 1
		if is > windows*100_000+buffer {
			t.Fatalf("%d bytes passed in %d windows of 100,000", is, windows)
		}
		if is >= 300_000 {
			break
		}
		if tries == 5 {
			t.Fatalf("only %d bytes passed in %d windows of 100,000", is, windows)
		}
	}
}

// taken is how much abide has read of its sites.
func (w *weighed) taken() (n uint64) {
	for _, s := range w.metrics.Sites() {
		n += s.In
	}
	return n
}
