package ledger

import (
	"testing"
	"time"
)

// TestWhatIsFoundOfAHiddenLimit is told in the shortest usual time in which a request goes.
func TestWhatIsFoundOfAHiddenLimit(t *testing.T) {
	t.Parallel()
	now := seconds(0)
	for _, c := range []struct {
		name string
		make func(p *HiddenRate)
		want Found
	}{
		{"nothing", func(*HiddenRate) {}, Found{Left: -1}},
		{"more than was accepted", func(p *HiddenRate) { p.search.rate, p.search.total = 1000, 4 }, Found{Left: -1, SoFar: true}},
		{"a first estimate", func(p *HiddenRate) { p.search.rate, p.search.total = 3, 4 }, Found{Limit: 3, Window: time.Second, Left: -1, SoFar: true}},
		{"an attempt above what has held", func(p *HiddenRate) { p.search.rate, p.search.good = 3, 2 }, Found{Limit: 2, Window: time.Second, Left: -1, SoFar: true}},
		{"20 a second", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 20.4, 20.4, 21 }, Found{Limit: 20, Window: time.Second, Left: -1}},
		{"a higher rate is searched", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 12, 10, 20 }, Found{Limit: 10, Window: time.Second, Left: -1, SoFar: true}},
		{"2.5 a second", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 2.5, 2.5, 2.57 }, Found{Limit: 5, Window: 2 * time.Second, Left: -1}},
		{"1.2 a second", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 1.21, 1.21, 1.24 }, Found{Limit: 6, Window: 5 * time.Second, Left: -1}},
		{"one in 3 s", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 1./3, 1./3, 1./3 }, Found{Limit: 20, Window: time.Minute, Left: -1}},
		{"one in 5 minutes", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 1./300, 1./300, 1./300 }, Found{Limit: 12, Window: time.Hour, Left: -1}},
		{"one in 3 hours", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 1./10800, 1./10800, 1./10800 }, Found{Limit: 1, Window: time.Hour, Left: -1}},
		{"in flight", func(p *HiddenRate) { p.atOnce.limit, p.atOnce.fails = 5, 1; p.atOnce.take(1, false) }, Found{Limit: 5, Window: 0, Left: 4}},
		{"in flight at one refusal, as of a quota that is spent", func(p *HiddenRate) { p.atOnce.limit = 2 }, Found{Limit: 2, Window: 0, Left: 2, SoFar: true}},
		{"in flight, and nothing has succeeded since", func(p *HiddenRate) { p.atOnce.limit, p.stop.active = 2, true }, Found{Left: -1}},
		{"more than so many in flight come to", func(p *HiddenRate) {
			p.search.rate, p.search.good, p.search.total, p.atOnce.limit, p.atOnce.latency = 28, 14, 400, 5, second*3/10
		}, Found{Limit: 5, Left: 5, SoFar: true}},
		{"less than so many in flight come to", func(p *HiddenRate) {
			p.search.rate, p.search.good, p.search.total, p.atOnce.limit, p.atOnce.latency = 3, 2, 400, 1, second/500
		}, Found{Limit: 2, Window: time.Second, Left: -1, SoFar: true}},
		{"a window", func(p *HiddenRate) {
			p.windowed, p.window.Limit, p.window.Length, p.window.Taken = true, 100, 60*second, 30
		}, Found{Limit: 100, Window: time.Minute, Left: 70}},
		{"refusals at random", func(p *HiddenRate) { p.noise.share = 0.05 }, Found{Left: -1, AtRandom: 0.05}},
		{"a window of unknown length", func(p *HiddenRate) { p.windowed = true }, Found{Left: -1}},
	} {
		p := NewHiddenRate(History{})
		p.at(now)
		if c.make(p); p.Found(now) != c.want {
			t.Errorf("%s: %+v", c.name, p.Found(now))
		}
	}
}

// TestRefusalsAtRandomAreKnownAfterARestart has a refusal hold no other request after a restart, as before it.
func TestRefusalsAtRandomAreKnownAfterARestart(t *testing.T) {
	t.Parallel()
	p, q := NewHiddenRate(History{}), NewHiddenRate(History{})
	p.at(seconds(0))
	p.noise.share = 0.1
	if err := q.Restore(seconds(1), p.State()); err != nil {
		t.Fatal(err)
	}
	if found := q.Found(seconds(1)); found.AtRandom != 0.1 {
		t.Errorf("%+v", found)
	}
	if q.Blank() {
		t.Error("it may be dropped as if nothing was known")
	}
	q.Take(seconds(2), 1)
	if _, alone := q.Refused(seconds(3), Refusal{Sent: seconds(2)}); !alone {
		t.Error("a refusal holds other requests")
	}
}
