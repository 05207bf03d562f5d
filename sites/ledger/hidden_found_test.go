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
		{"20 a second", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 19.7, 19.7, 21 }, Found{Limit: 20, Window: time.Second, Left: -1}},
		{"one in 3 s", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 1./3, 1./3, 1 }, Found{Limit: 20, Window: time.Minute, Left: -1}},
		{"one in 5 minutes", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 1./300, 1./300, 1 }, Found{Limit: 12, Window: time.Hour, Left: -1}},
		{"one in 3 hours", func(p *HiddenRate) { p.search.rate, p.search.good, p.search.refused = 1./10800, 1./10800, 1 }, Found{Limit: 1, Window: time.Hour, Left: -1}},
		{"in flight", func(p *HiddenRate) { p.atOnce.limit = 5; p.atOnce.take(1) }, Found{Limit: 5, Window: 0, Left: 4}},
		{"a window", func(p *HiddenRate) {
			p.windowed, p.window.limit, p.window.length, p.window.taken = true, 100, 60*second, 30
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
