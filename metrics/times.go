package metrics

import (
	"sync"
	"sync/atomic"
	"time"
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
type times struct {
	took, waited mergeableHistogram

	mu       sync.RWMutex // read-locked while a value is observed
	released bool         // the site has given it up: nothing is observed any more
}

func newTimes() *times {
	return &times{
		took:   mergeableHistogram{Histogram: newHistogram("upstream_duration_seconds", "", answerBuckets), desc: durationDesc},
		waited: mergeableHistogram{Histogram: newHistogram("queue_wait_seconds", "", waitBuckets), desc: waitDesc},
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

// observe adds a duration to the site's present histogram.
func (s *Site) observe(d time.Duration, which func(*times) *mergeableHistogram) {
	t := s.timesOf()
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.released {
		t = s.slots.rest // never released
	}
	observe(which(t), d)
}

func (t *times) answers() *mergeableHistogram { return &t.took }
func (t *times) waits() *mergeableHistogram   { return &t.waited }

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

// releaseTimes moves all present and future observations to the shared histograms.
func (s *Site) releaseTimes() {
	t := s.times.Load()
	if t == nil || t == s.slots.rest || !s.times.CompareAndSwap(t, nil) {
		return
	}
	t.mu.Lock()
	t.released = true
	t.mu.Unlock()
	s.slots.rest.took.add(read(&t.took))
	s.slots.rest.waited.add(read(&t.waited))
	s.slots.free.Add(1)
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
