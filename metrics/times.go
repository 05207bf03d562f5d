package metrics

import (
	"sync/atomic"
	"time"
)

const (
	// mostTimes is how many sites have histograms of their own: one site's are 36 lines,
	// and all other series of it are a few.
	mostTimes = 100
	// timesRest is for how long nothing must have happened at a site until another may
	// have its place among these, and seriesRest until a scrape leaves its series out.
	timesRest  = 10 * time.Minute
	seriesRest = time.Hour
)

// times are the histograms of a site, or of all sites that have none of their own.
type times struct {
	took, waited histogram
	gone         atomic.Bool // its site has given it up
}

func newTimes() *times { return &times{waited: histogram{of: waiting}} }

// places are those of the sites that have histograms of their own. They are safe for
// concurrent use.
type places struct {
	rest *times // of all others
	free atomic.Int64
}

func newPlaces(most int) *places {
	p := &places{rest: newTimes()}
	p.free.Store(int64(most))
	return p
}

// settle brings to the rest what was observed in histograms that were given up
// meanwhile. Whoever observes calls it after observing, and whoever gives up moves
// everything after saying so: one of the two moves what was observed.
func (p *places) settle(t *times) {
	if t != p.rest && t.gone.Load() {
		t.took.moveTo(&p.rest.took)
		t.waited.moveTo(&p.rest.waited)
	}
}

// timed are the histograms that count what happens at the site now: its own if there is
// a place.
func (s *Site) timed() *times {
	p := s.places
	for s.successor.Load() == nil {
		if t := s.times.Load(); t != nil {
			return t // perhaps of another request that came at the same time
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
		if s.successor.Load() != nil { // it has made room meanwhile, and saw none
			s.giveUpTimes()
		}
		return t
	}
	if t := s.times.Load(); t != nil {
		return t
	}
	return p.rest
}

// giveUpTimes has what was and will be observed counted with that of the rest.
func (s *Site) giveUpTimes() {
	t := s.times.Load()
	if t == nil || t == s.places.rest || !s.times.CompareAndSwap(t, nil) {
		return
	}
	t.gone.Store(true)
	s.places.settle(t)
	s.places.free.Add(1)
}

// quiet tells for how long nothing has happened at a site, as far as scrapes can tell.
type quiet struct {
	sum   atomic.Uint64 // of all that is counted, when it had changed last
	since atomic.Int64  // when that was, in nanoseconds since 1970; 0: no scrape has seen it
}

// idleFor is for how long nothing has happened at the site.
func (s *Site) idleFor(now time.Time) time.Duration {
	sum := s.in.Load() + s.out.Load() + s.requests.sum()
	for i := range s.unread {
		sum += s.unread[i].Load()
	}
	if since := s.quiet.since.Load(); since != 0 && s.quiet.sum.Load() == sum {
		return now.Sub(time.Unix(0, since))
	}
	s.quiet.sum.Store(sum)
	s.quiet.since.Store(now.UnixNano())
	return 0
}
