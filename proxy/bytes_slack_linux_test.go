package proxy

import (
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/upstream"
)

// Where a limit is large, its connections have larger receive buffers, and all of
// these together are a small part of it.
func TestALargeLimitOfBytesHoldsWithItsWideConnections(t *testing.T) {
	const amount, every = 10_000_000, 200 * time.Millisecond
	unhurried(t, "all", func(t *testing.T) bool {
		w := newWeighed(t, "", "intercept: none", limitsOf("{bytes: 10MB, per: 200ms}"))
		w.tunnels("127.0.0.1", "flooda")
		w.tunnels("127.0.0.1", "floodb")
		w.weigh(time.Now().Truncate(every).Add(7 * every))
		is := w.windows(t, "", amount, every)
		t.Logf("%d bytes beyond the limit, %.1f %% used", is.over, 100*is.used)
		if is.over > amount/64 {
			t.Errorf("%d bytes beyond the limit came", is.over)
		}
		return is.used >= 0.95 || is.used >= 0 && simRows == 1
	})
}

// What may come beyond a limit follows it, and is the fleet's.
func TestHowMuchMayComeBeyondALimitFollowsTheLimit(t *testing.T) {
	w := newWeighed(t, "http", "intercept: none", limitsOf("{bytes: 6400MB, per: 1m}"))
	p := w.server.stint(host, policy.Target{Scheme: "https", Host: host, Port: 443}, "")
	defer w.server.purses.leave(p)
	var g upstream.Generous = p
	if n := g.Slack(); n != 99_000_000 {
		t.Errorf("%d bytes", n)
	}
	n, back := g.Stretch(10_000_000)
	if n != 10_000_000 {
		t.Errorf("%d bytes are lent", n)
	}
	w.limited("{bytes: 640MB, per: 1m}")
	if n := g.Slack(); n != 9_900_000 {
		t.Errorf("%d bytes after a reload", n)
	}
	if n, _ := g.Stretch(1_000_000); n != 0 {
		t.Errorf("%d bytes are lent beyond what there is", n)
	}
	back()
	n, back = g.Stretch(5_000_000, 1_000_000)
	if n != 1_000_000 {
		t.Errorf("%d bytes are lent", n)
	}
	back()
}

// What comes evenly is let come together for a moment: byte by byte it would be more
// work than it is worth.
func TestABucketIsNotEmptiedByteByByte(t *testing.T) {
	b := newBed(t, limitsOf("{bytes: 100MB, per: 1m, as: bucket, burst: 100kB}, {bytes: 1GB, per: 1m}"))
	p := b.server.stint(host, policy.Target{Scheme: "https", Host: host, Port: 443}, "")
	defer b.server.purses.leave(p)
	must(t, second(p.Credit(nil, 1<<20)))
	for range 10 {
		if n, err := p.Credit(nil, 1<<20); n < 3_300 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n, err := p.Credit(nil, 10); n != 10 || err != nil {
			t.Errorf("%d bytes of 10, %v", n, err)
		}
	}
}
