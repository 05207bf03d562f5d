package proxy

import (
	"math"
	"sync"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
)

const (
	// sampleEvery is how often it is looked how much of the limits is used.
	sampleEvery = 2 * time.Second
	// lately is what the present rate is about, and atLeast what it is about when a limit
	// has been used for a shorter time than that: a second's burst is no rate.
	lately  = 10 * time.Minute
	atLeast = time.Minute
	// mostUsages is how many limits' use is followed.
	mostUsages = 10_000
)

// usage is how fast one limit is used.
type usage struct {
	used  int64
	at    time.Time
	ends  time.Time     // of the window, if it has edges
	sum   float64       // what was taken lately: the longer ago, the less it counts
	heeds time.Duration // how long it has been looked
}

// slotName is whose meter of which limit of a site it is.
type slotName struct {
	site string
	at   queue.Scope
}

// usages are those of the limits with long windows.
type usages struct {
	mu    sync.Mutex
	known map[slotName]*usage
}

// sampleOnce looks how much of the limits is used.
func (s *Server) sampleOnce() {
	u := &s.usages
	seen := map[slotName]bool{}
	s.eachWritten(func(l *written) {
		if !lasts(l.spec) || len(seen) >= mostUsages {
			return
		}
		name := slotName{l.Site, l.at}
		seen[name] = true
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.known == nil {
			u.known = map[slotName]*usage{}
		}
		one := u.known[name]
		if one == nil {
			// All that was not used before was since it was looked last.
			one = &usage{at: l.now.Add(-sampleEvery), used: l.used()}
			if !l.Shared {
				one.used = min(s.desk.usedBefore(name), one.used)
			}
			u.known[name] = one
		}
		one.heard(l.now, l.used(), *l.spec)
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
func (u *usages) rateOf(l *written) float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.known[slotName{l.Site, l.at}]; one != nil {
		return one.rate()
	}
	return 0
}

// foreseen are the windows whose use is foreseen.
const foreseen = 10 * time.Minute

// lasts tells whether a limit's window is long enough to be foreseen.
func lasts(spec *limit.Spec) bool {
	switch spec.As {
	case limit.Concurrency, limit.Adaptive, limit.Paced: // of which there is nothing to use up
		return false
	case limit.Quota:
		return true
	}
	return spec.Window >= foreseen
}

// heard is how much is used now.
func (u *usage) heard(now time.Time, used int64, spec limit.Spec) {
	took := now.Sub(u.at)
	if took <= 0 {
		return
	}
	more := float64(used - u.used)
	windows := took.Seconds() / max(spec.Window.Seconds(), 1)
	switch spec.As {
	case limit.Rolling:
		if u.heeds >= spec.Window { // what is over meanwhile does not count any more
			more += float64(u.used) * min(windows, 1)
		}
	case limit.Bucket:
		more += min(float64(u.used), float64(spec.Amount)*windows)
	case limit.FirstUse:
		if used < u.used/2 { // another window
			more = float64(used)
		}
	default:
		if !u.ends.IsZero() && !now.Before(u.ends) {
			more = float64(used)
		}
		if !now.Before(u.ends) {
			u.ends = edgeAfter(now, spec)
		}
	}
	// It was taken evenly, as far as anybody knows.
	old := math.Exp(-took.Seconds() / lately.Seconds())
	u.sum = u.sum*old + max(more, 0)*(1-old)/(took.Seconds()/lately.Seconds())
	u.used, u.at, u.heeds = used, now, u.heeds+took
}

// rate is per second.
func (u *usage) rate() float64 {
	part := max(u.heeds, atLeast).Seconds() / lately.Seconds()
	return u.sum / (lately.Seconds() * (1 - math.Exp(-part)))
}
