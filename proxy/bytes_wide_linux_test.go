package proxy

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

// With a large limit, connections have larger receive buffers, and all of these together are
// a small part of the limit.
func TestALargeLimitOfBytesHoldsWithItsWideConnections(t *testing.T) {
	const amount, every = 10_000_000, 200 * time.Millisecond
	retryOnSlowMachine(t, "all", func(t *testing.T) bool {
		w := newByteTest(t, "", "intercept: none", limitsOf("{bytes: 10MB, per: 200ms}"))
		w.openTunnel("127.0.0.1", "flooda")
		w.openTunnel("127.0.0.1", "floodb")
		w.measure(time.Now().Truncate(every).Add(7 * every))
		byteVerdict := w.windows(t, "", amount, every)
		t.Logf("%d bytes beyond the limit, %.1f %% used", byteVerdict.over, 100*byteVerdict.used)
		if byteVerdict.over > amount/64 {
			t.Errorf("%d bytes beyond the limit came", byteVerdict.over)
		}
		return byteVerdict.used >= 0.95 || byteVerdict.used >= 0 && raced
	})
}

// The receive buffer of a connection follows the limit.
func TestHowMuchAConnectionMayReceiveFollowsTheLimit(t *testing.T) {
	w := newByteTest(t, "http", "intercept: none", limitsOf("{bytes: 6400MB, per: 1m}"))
	p, refused := w.server.OpenTunnel(t.Context(), &dispatch.Request{Snapshot: w.server.Current(), Target: policy.Target{Scheme: "https", Host: host, Port: 443}, Caller: dispatch.NoCaller{}})
	if refused != nil {
		t.Fatal(refused)
	}
	defer p.Close(false)
	if n := p.Buffer(); n != 6_187_500 {
		t.Errorf("%d bytes", n)
	}
	w.setLimits("{bytes: 640MB, per: 1m}")
	if n := p.Buffer(); n != 618_750 {
		t.Errorf("%d bytes after a reload", n)
	}
}

// Bytes under a limit that is large beside all receive buffers are counted only, until it is
// nearly used up. How much of it is used depends on the machine.
func TestALimitOfBytesThatIsCountedOnlyIsNeverExceeded(t *testing.T) {
	const every = time.Second
	for _, k := range []struct {
		speaks, limit string
		amount        int64
		begin         func(w *byteTest)
	}{
		{"http", "120MB", 120_000_000, func(w *byteTest) {
			for _, c := range w.clients(3, false) {
				w.requestUntilStop(c, "GET", "http://"+host+"/", 0)
			}
		}},
		{"https", "120MB", 120_000_000, func(w *byteTest) {
			for _, c := range w.clients(3, false) {
				w.requestUntilStop(c, "GET", "https://"+host+"/", 0)
			}
		}},
		{"", "500MB", 500_000_000, func(w *byteTest) {
			w.openTunnel("127.0.0.1", "flooda")
			w.openTunnel("127.0.0.1", "take b")
		}},
	} {
		t.Run(k.speaks, func(t *testing.T) {
			intercept := "all"
			if k.speaks == "" {
				intercept = "none"
			}
			w := newByteTest(t, k.speaks, "intercept: "+intercept, limitsOf("{bytes: "+k.limit+", per: 1s}"))
			k.begin(w)
			w.measure(time.Now().Truncate(every).Add(5 * every))
			byteVerdict := w.windows(t, "", k.amount, every)
			t.Logf("%d bytes beyond the limit, %.1f %% used", byteVerdict.over, 100*byteVerdict.used)
			if byteVerdict.over > 0 {
				t.Errorf("%d bytes beyond the limit came", byteVerdict.over)
			}
		})
	}
}
