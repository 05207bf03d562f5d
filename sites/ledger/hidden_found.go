package ledger

import (
	"math"
	"time"
)

// Found is what is known of a limit that the server does not announce.
type Found struct {
	Limit  int64         // requests in a window, or in flight if there is no window; 0: not known
	Window time.Duration // 0: the limit is of requests in flight
	Left   int64         // -1: not known
}

// Found returns what is known of the limit. A rate is told for the shortest of a second, a
// minute and an hour in which one request goes.
func (p *HiddenRate) Found(now time.Time) Found {
	p.at(now)
	if p.windowed && p.window.limit > 0 && p.window.length > 0 {
		return Found{p.window.limit, time.Duration(p.window.length).Round(time.Second), max(p.window.limit-p.window.taken, 0)}
	}
	if rate := p.search.rate; rate > 0 && !p.windowed {
		per := time.Second
		for _, longer := range []time.Duration{time.Minute, time.Hour} {
			if rate*per.Seconds() < 1 {
				per = longer
			}
		}
		return Found{max(int64(math.Round(rate*per.Seconds())), 1), per, -1}
	}
	if p.atOnce.limit > 0 {
		return Found{p.atOnce.limit, 0, max(p.atOnce.limit-int64(len(p.atOnce.flying)), 0)}
	}
	return Found{Left: -1}
}
