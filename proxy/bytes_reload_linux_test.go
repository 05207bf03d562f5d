package proxy

import (
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

// rate is how many bytes pass in each someTime, from the next window on.
func (w *weighed) rate() (total int64) {
	w.t.Helper()
	begin := time.Now().Truncate(someTime).Add(2 * someTime)
	w.weigh(begin.Add(2*someTime + someTime/10))
	from, ok := w.at(begin, "", 2*someTime)
	to, also := w.at(begin.Add(2*someTime), "", 2*someTime)
	if !ok || !also {
		w.t.Fatal("nobody looked")
	}
	return (to - from) / 2
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
			if is := w.rate(); is < 80_000 || is > 100_000+buffer {
				t.Errorf("%d bytes of 100,000 pass", is)
			}
			w.limited("{bytes: 300kB, per: 500ms}")
			if is := w.rate(); is < 250_000 || is > 300_000+buffer {
				t.Errorf("%d bytes of 300,000 pass", is)
			}
			w.limited("{bytes: 50kB, per: 250ms, as: rolling}")
			if is := w.rate(); is < 80_000 || is > 100_000+buffer {
				t.Errorf("%d bytes of 100,000 pass", is)
			}
			w.limited("")
			if is := w.rate(); is < 1_000_000 {
				t.Errorf("%d bytes pass without a limit", is)
			}
		})
	}
}

// What its server has sent before comes slowly too, so it is what abide takes that is
// looked at.
func TestALimitOfBytesBeginsToHoldInTunnelsThatAreOpen(t *testing.T) {
	t.Parallel()
	w := newWeighed(t, "", "intercept: none", limitsOf(""))
	w.tunnels("127.0.0.1", "flooda")
	eventually(t, 5*time.Second, "it flows", func() bool { return w.taken() > 10<<20 })
	w.limited("{bytes: 100kB, per: 500ms}")
	w.weigh(time.Now().Truncate(someTime).Add(2 * someTime))
	before := w.taken()
	w.weigh(time.Now().Truncate(someTime).Add(5 * someTime))
	if is := w.taken() - before; is < 300_000 || is > 600_000 {
		t.Errorf("%d bytes passed in five windows of 100,000", is)
	}
}

// taken is how much abide has read of its sites.
func (w *weighed) taken() (n uint64) {
	for _, s := range w.metrics.Sites() {
		n += s.In
	}
	return n
}
