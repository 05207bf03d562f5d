package dispatch

import (
	"sync"
	"time"

	"github.com/abide-proxy/abide/limit/forecast"
	"github.com/abide-proxy/abide/limit/queue"
)

const (
	// sampleEvery is the time between two samples of how much of the limits is used.
	sampleEvery = 2 * time.Second
	// mostUsed is how many limits' use is followed.
	mostUsed = 10_000
)

// slotName is whose meter of which limit of a site it is.
type slotName struct {
	site string
	at   queue.Scope
}

// limitUse is how fast the limits with long windows are used.
type limitUse struct {
	limits writtenLimits

	mu    sync.Mutex
	known map[slotName]*forecast.Rate
}

func newLimitUse(limits writtenLimits) *limitUse {
	return &limitUse{limits: limits, known: map[slotName]*forecast.Rate{}}
}

// sample samples how much of the limits is used.
func (u *limitUse) sample() {
	seen := map[slotName]bool{}
	u.limits.each(func(l *written) {
		if !forecast.Covers(l.spec) || len(seen) >= mostUsed {
			return
		}
		name := slotName{l.shown.Site, l.at}
		seen[name] = true
		u.mu.Lock()
		defer u.mu.Unlock()
		rate := u.known[name]
		if rate == nil {
			// All that was not used before the start was used since the last sample.
			used := l.used()
			if !l.shown.Shared {
				used = min(u.limits.usedBefore(l), used)
			}
			rate = forecast.NewRate(l.now.Add(-sampleEvery), used)
			u.known[name] = rate
		}
		rate.Sample(l.now, l.used(), *l.spec)
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range u.known {
		if !seen[name] {
			delete(u.known, name)
		}
	}
}

// rateOf is how fast a limit is used lately, per second.
func (u *limitUse) rateOf(l *written) float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if rate := u.known[slotName{l.shown.Site, l.at}]; rate != nil {
		return rate.PerSecond()
	}
	return 0
}

// size is how many limits' use is followed.
func (u *limitUse) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.known)
}
