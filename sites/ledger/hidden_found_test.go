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
		{"20 a second", func(p *HiddenRate) { p.search.rate = 19.7 }, Found{20, time.Second, -1}},
		{"one in 3 s", func(p *HiddenRate) { p.search.rate = 1. / 3 }, Found{20, time.Minute, -1}},
		{"one in 5 minutes", func(p *HiddenRate) { p.search.rate = 1. / 300 }, Found{12, time.Hour, -1}},
		{"one in 3 hours", func(p *HiddenRate) { p.search.rate = 1. / 10800 }, Found{1, time.Hour, -1}},
		{"in flight", func(p *HiddenRate) { p.atOnce.limit = 5; p.atOnce.take(1) }, Found{5, 0, 4}},
		{"a window", func(p *HiddenRate) {
			p.windowed, p.window.limit, p.window.length, p.window.taken = true, 100, 60*second, 30
		}, Found{100, time.Minute, 70}},
		{"a window of unknown length", func(p *HiddenRate) { p.windowed = true }, Found{Left: -1}},
	} {
		p := NewHiddenRate(History{})
		p.at(now)
		if c.make(p); p.Found(now) != c.want {
			t.Errorf("%s: %+v", c.name, p.Found(now))
		}
	}
}
