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

// TestTheLengthOfAWindow is a usual one, or else any whole number of seconds that agrees.
func TestTheLengthOfAWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		empty, resumed    float64 // between which the window began
		after, by         float64 // between which it ended
		shortest, longest int64
	}{
		{"it begins with a request", 0, 0, 3.1, 4.1, 4, 4},
		{"a usual length agrees", 0, 0, 5.1, 13, 10, 10},
		{"none agrees", 0, 0, 0.1, 0.9, 0, 0},
		{"it began with the request at 2.6 s", 1.6, 2.6, 5.6, 6.7, 4, 4},
		{"it ended before a request at 4 s would have ended it", 3.2, 4, 6.1, 6.8, 3, 3},
		{"two usual lengths agree", 0, 0, 10.5, 31, 15, 30},
	} {
		at := func(s float64) int64 { return int64(s * 1e9) }
		e := episode{empty: at(c.empty), resumed: at(c.resumed)}
		if shortest, longest := e.lengths(at(c.after), at(c.by)); shortest != c.shortest*second || longest != c.longest*second {
			t.Errorf("%s: from %d to %d s", c.name, shortest/second, longest/second)
		}
	}
}

// TestAWindowPassesAsManyEachTime has the same number of requests pass between two refusals, whatever the next probe's time is.
func TestAWindowPassesAsManyEachTime(t *testing.T) {
	t.Parallel()
	at := func(s float64) int64 { return int64(s * 1e9) }
	s := rateSearch{full: 15, total: 15}
	s.restart(at(10))
	s.begin(at(10.3), at(11.2), at(0.9), false) // a window of the clock ends soon
	s.empty = s.empty.add(episode{recovery: at(0.9), empty: at(10.3), resumed: at(11.2), total: 15})
	s.lowest, s.total = s.rate, 30
	s.ended(&stop{since: at(12.2), probed: true}, at(13.4), at(14.2), at(2), true)
	if s.refused != 5 || s.rate != 5*settled {
		t.Errorf("15 in 3 s: %g a second, and %g are too many", s.rate, s.refused)
	}
}
