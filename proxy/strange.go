package proxy

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/store"
)

const (
	// mostStrange is of how many sites that this instance has not met cooldowns are
	// remembered, and strangeNotes how many of each.
	mostStrange  = 10_000
	strangeNotes = 16
	// missedFor is how long after it began to listen an instance asks for the cooldowns of
	// a site that it meets: it has not heard those that began before.
	missedFor = time.Hour
	// fleetQuestions is how many such questions a second all instances ask together, and
	// patienceOfQuestion how long a request waits for the answer at most.
	fleetQuestions     = 2000
	patienceOfQuestion = 500 * time.Millisecond
)

// strangeSites are sites that this instance has not met. What others tell of their
// cooldowns is remembered until the first request of this instance comes.
type strangeSites struct {
	listens atomic.Pointer[time.Time] // since when all news are heard; nil: they are not
	allowed *rate.Limiter             // questions
	count   atomic.Int64              // of told, to be read without the lock

	mu    sync.Mutex
	told  map[string]map[string]store.Note // :: site → key →
	asked map[string]chan struct{}         // :: site → closed when the answer is there
}

func newStrangeSites() *strangeSites {
	return &strangeSites{
		allowed: rate.NewLimiter(fleetQuestions, fleetQuestions),
		told:    map[string]map[string]store.Note{}, asked: map[string]chan struct{}{},
	}
}

// remember keeps the cooldowns among the notes of a site. Where there are too many sites,
// one goes whose cooldowns are over soon.
func (s *strangeSites) remember(now time.Time, site string, notes []store.Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range notes {
		if !strings.HasPrefix(n.Key, noteOfCooldown+between) || !n.Until.After(now) {
			continue
		}
		known := s.told[site]
		if known == nil {
			if len(s.told) >= mostStrange {
				s.drop()
			}
			known = map[string]store.Note{}
			s.told[site] = known
		}
		if old, there := known[n.Key]; there && old.Until.After(n.Until) || !there && len(known) >= strangeNotes {
			continue
		}
		known[n.Key] = n
	}
	s.count.Store(int64(len(s.told)))
}

// drop forgets that of a few sites whose cooldowns are over first.
func (s *strangeSites) drop() {
	const few = 8
	var first string
	var over time.Time
	seen := 0
	for site, notes := range s.told {
		last := time.Time{}
		for _, n := range notes {
			if n.Until.After(last) {
				last = n.Until
			}
		}
		if seen == 0 || last.Before(over) {
			first, over = site, last
		}
		if seen++; seen == few {
			break
		}
	}
	delete(s.told, first)
}

// of are the notes that are remembered of a site.
func (s *strangeSites) of(site string) (notes []store.Note) {
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range maps.Values(s.told[site]) {
		notes = append(notes, n)
	}
	return notes
}

func (s *strangeSites) forget(site string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.told, site)
	s.count.Store(int64(len(s.told)))
}

// question is the question for a site's cooldowns that is under way. Whoever makes it
// asks, and calls done.
func (s *strangeSites) question(site string) (answered <-chan struct{}, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.asked[site]; c != nil {
		return c, nil
	}
	c := make(chan struct{})
	s.asked[site] = c
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asked, site)
		close(c)
	}
}

// misses tells whether cooldowns may be standing that this instance has not heard of.
func (s *strangeSites) misses(now time.Time) bool {
	since := s.listens.Load()
	return since == nil || now.Sub(*since) < missedFor
}

// allows tells whether one more question may be asked by one of so many instances.
func (s *strangeSites) allows(now time.Time, members int) bool {
	part := max(fleetQuestions/members, 1)
	s.allowed.SetLimitAt(now, rate.Limit(float64(fleetQuestions)/float64(members)))
	s.allowed.SetBurstAt(now, part)
	return s.allowed.AllowN(now, 1)
}

// told has an account hear notes, and everything that depends on them. False says that
// the site is not remembered.
func (d *desk) told(a *account, notes []store.Note) bool {
	var news []store.Note
	known := d.gate.With(a.site, func(now time.Time) { news = a.Told(now, notes) })
	if len(news) > 0 && d.heard != nil {
		d.heard(a.site, news)
	}
	return known
}

// toldOfStrange hears notes of a site that has no account. They are remembered first:
// a request may come before the site is looked for.
func (d *desk) toldOfStrange(site string, notes []store.Note) {
	d.strange.remember(time.Now(), site, notes)
	if d.gate.Knows(site) && d.heard != nil {
		d.heard(site, notes)
		d.strange.forget(site)
	}
}

// meet is called before a request goes to a site. What others have told of the site
// holds for the request. At a site that this instance has not met, and of which news may
// have been missed, it asks the store, unless the request waits for a lease anyway: the
// answer to that brings the same.
func (d *desk) meet(ctx context.Context, q *queue.Request) {
	if notes := d.strange.of(q.Site); len(notes) > 0 {
		d.heard(q.Site, notes)
		d.strange.forget(q.Site)
	}
	now := time.Now()
	if !d.shared || q.Observe || !d.strange.misses(now) || leases(q.Limits) || d.gate.Knows(q.Site) || d.health.failing() > 0 {
		return
	}
	patience := patienceOfQuestion
	if q.Wait > 0 {
		patience = min(patience, q.Wait)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answered, done := d.strange.question(q.Site)
	if done == nil {
		select {
		case <-answered:
		case <-within.Done():
		}
		return
	}
	defer done()
	if !d.strange.allows(now, d.size()) {
		return
	}
	replies, err := d.store.Exchange(within, []store.Batch{{Site: q.Site, Instance: d.instance}})
	if ctx.Err() == nil {
		d.measure("exchange", err == nil, time.Since(now))
	}
	if err == nil && len(replies) == 1 && len(replies[0].Notes) > 0 {
		d.heard(q.Site, replies[0].Notes)
	}
}

// leases tells whether a request needs a lease, whichever way it goes.
func leases(ways [][]queue.Limit) bool {
	for _, limits := range ways {
		found := false
		for i := range limits {
			found = found || limits[i].Keep != nil && limits[i].Spec != nil
		}
		if !found {
			return false
		}
	}
	return len(ways) > 0
}
