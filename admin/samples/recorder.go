// Package samples keeps what the page draws of the last 15 minutes: requests and bytes of each
// site, how many requests waited, and the states of tokens. All of it is in memory.
//
// The usual call:
//
//	r := samples.New(samples.Sources{Sites: m.Sites, Tokens: proxy.Tokens, Waiting: held})
//	go r.Run(ctx)
//	last := r.Snapshot(time.Now())
package samples

import (
	"context"
	"sync"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
)

const (
	// Step is the time that a point of a Course, and of a Timeline, stands for.
	Step = 10 * time.Second
	// Points is the number of points in memory.
	Points = 90
	// Kept is the age of the oldest point.
	Kept = Points * Step

	// every is the time from one sample to the next.
	every = time.Second
	// maxSites is the largest number of sites with a course. The others have none.
	maxSites = 2000
	// maxTokens is the largest number of tokens with a timeline. The others have none.
	maxTokens = 2000
)

// Sources are the functions that are sampled.
type Sources struct {
	Sites   func() []metrics.SiteCount
	Tokens  func() status.Tokens
	Waiting func() int // how many requests wait
}

// Recorder takes samples. It is safe for concurrent use.
type Recorder struct {
	from Sources

	mu      sync.Mutex
	last    time.Time // the last sample
	total   course
	waiting series
	sites   map[string]*course     // :: site, at most maxSites
	tokens  map[TokenKey]*timeline // at most maxTokens
}

// New makes a Recorder without samples. It starts no goroutine.
func New(from Sources) *Recorder {
	return &Recorder{from: from, sites: map[string]*course{}, tokens: map[TokenKey]*timeline{}}
}

// Run takes a sample each second until ctx is done.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		r.Take(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Take takes a sample, unless there is one of the same second.
func (r *Recorder) Take(now time.Time) {
	if !r.due(now) {
		return
	}
	counts, tokens, waiting := r.from.Sites(), r.from.Tokens(), r.from.Waiting()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting.highest(now, float32(waiting))
	r.takeSites(now, counts)
	r.takeTokens(now, tokens)
}

// due tells whether a sample is to be taken, and counts on that it is.
func (r *Recorder) due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) < every/2 {
		return false
	}
	r.last = now
	return true
}

// takeSites adds what was counted of each site. A site that is no longer counted is forgotten.
func (r *Recorder) takeSites(now time.Time, counts []metrics.SiteCount) {
	var all Counters
	seen := make(map[string]bool, len(counts))
	for _, one := range counts {
		c := Counters{one.Requests, one.In, one.Out}
		all.add(c)
		seen[one.Name] = true
		known := r.sites[one.Name]
		if known == nil {
			if len(r.sites) >= maxSites {
				continue
			}
			known = &course{}
			r.sites[one.Name] = known
		}
		known.add(now, c)
	}
	r.total.add(now, all)
	for name := range r.sites {
		if !seen[name] {
			delete(r.sites, name)
		}
	}
}

// takeTokens adds the state of each token. A token that has left its pool is forgotten.
func (r *Recorder) takeTokens(now time.Time, tokens status.Tokens) {
	seen := map[TokenKey]bool{}
	for _, p := range tokens.Pools {
		for i := range p.Tokens {
			key := TokenKey{p.Name, p.Tokens[i].Label}
			seen[key] = true
			known := r.tokens[key]
			if known == nil {
				if len(r.tokens) >= maxTokens {
					continue
				}
				known = &timeline{}
				r.tokens[key] = known
			}
			known.add(now, &p.Tokens[i])
		}
	}
	for key := range r.tokens {
		if !seen[key] {
			delete(r.tokens, key)
		}
	}
}

// Snapshot returns all points until now. It shares nothing with the Recorder.
type Snapshot struct {
	End     time.Time // of the last step of Tokens, which is not over. The others have steps that are over
	Total   Course
	Waiting []float32 // the most in each step
	Sites   map[string]Course
	Tokens  map[TokenKey]Timeline
}

// Snapshot has all points until now.
func (r *Recorder) Snapshot(now time.Time) Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Snapshot{
		End: now.Truncate(Step).Add(Step), Total: r.total.read(now), Waiting: r.waiting.read(now.Add(-Step), 1),
		Sites: make(map[string]Course, len(r.sites)), Tokens: make(map[TokenKey]Timeline, len(r.tokens)),
	}
	for name, one := range r.sites {
		s.Sites[name] = one.read(now)
	}
	for key, one := range r.tokens {
		s.Tokens[key] = one.read(now)
	}
	return s
}
