package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxHistograms bounds the sites with histograms of their own: a site's histograms are
	// 36 lines, and all its other series are a few.
	maxHistograms = 100
	// slotIdleTime is the time that a site must be idle before another may take its
	// histograms, and seriesIdleTime the time before a scrape leaves its series out.
	slotIdleTime   = 10 * time.Minute
	seriesIdleTime = time.Hour
)

// times are the histograms of a site, or those shared by all sites without.
type times struct{ took, waited prometheus.Histogram }

func newTimes() *times {
	return &times{
		took:   newHistogram("upstream_duration_seconds", "", answerBuckets),
		waited: newHistogram("queue_wait_seconds", "", waitBuckets),
	}
}

// histogramSlots counts the sites with histograms of their own. It is safe for concurrent
// use.
type histogramSlots struct {
	rest *times // shared by all other sites
	free atomic.Int64
}

func newPlaces(most int) *histogramSlots {
	p := &histogramSlots{rest: newTimes()}
	p.free.Store(int64(most))
	return p
}

// timesOf returns the site's histograms: its own if there is a slot, otherwise the shared
// ones.
func (s *Site) timesOf() *times {
	p := s.slots
	for s.successor.Load() == nil {
		if t := s.times.Load(); t != nil {
			return t // maybe made by a concurrent request
		}
		n := p.free.Load()
		if n <= 0 {
			break
		}
		if !p.free.CompareAndSwap(n, n-1) {
			continue
		}
		t := newTimes()
		if !s.times.CompareAndSwap(nil, t) {
			p.free.Add(1)
			continue
		}
		if s.successor.Load() != nil { // the site was replaced meanwhile, before it had histograms
			s.releaseTimes()
		}
		return t
	}
	if t := s.times.Load(); t != nil {
		return t
	}
	return p.rest
}

// releaseTimes ends the site's own histograms, so that another site may have some.
func (s *Site) releaseTimes() {
	if t := s.times.Load(); t != nil && t != s.slots.rest && s.times.CompareAndSwap(t, nil) {
		s.slots.free.Add(1)
	}
}

// idleState tells how long a site has been idle, as seen by scrapes.
type idleState struct {
	sum   atomic.Uint64 // sum of all counters at the last change
	since atomic.Int64  // time of that change in nanoseconds since 1970; 0: no scrape yet
}

// idleFor returns the time since the site became idle.
func (s *Site) idleFor(now time.Time) time.Duration {
	sum := s.in.Load() + s.out.Load() + s.requests.sum()
	for i := range s.unread {
		sum += s.unread[i].Load()
	}
	if since := s.idle.since.Load(); since != 0 && s.idle.sum.Load() == sum {
		return now.Sub(time.Unix(0, since))
	}
	s.idle.sum.Store(sum)
	s.idle.since.Store(now.UnixNano())
	return 0
}
