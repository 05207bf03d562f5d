package broadcast

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// mostUnmet bounds the sites that this instance has not met and of which it remembers
	// cooldowns, and unmetNotes the cooldowns of each.
	mostUnmet  = 10_000
	unmetNotes = 16
	// missedFor is the time after the beginning of listening in which an instance asks for the
	// cooldowns of a site that it meets: it has not heard those that began before.
	missedFor = time.Hour
	// fleetQuestions bounds such questions a second of all instances together.
	fleetQuestions = 2000
)

// unmetSites are sites to which this instance has sent nothing yet. It remembers their
// cooldowns, of which others tell, until its first request.
type unmetSites struct {
	listens atomic.Pointer[time.Time] // since when all notes are heard; nil: they are not
	allowed *rate.Limiter             // questions
	count   atomic.Int64              // of told, to be read without the lock

	mu    sync.Mutex
	told  map[string]map[string]store.Note // :: site → key of a note →
	asked map[string]chan struct{}         // :: site → closed when the answer is there
}

func newUnmetSites() *unmetSites {
	return &unmetSites{
		allowed: rate.NewLimiter(fleetQuestions, fleetQuestions),
		told:    map[string]map[string]store.Note{}, asked: map[string]chan struct{}{},
	}
}

// remember stores the cooldowns among the notes of a site. Where there are too many sites,
// a site is forgotten whose cooldowns end soon.
func (u *unmetSites) remember(now time.Time, site string, notes []store.Note) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, n := range notes {
		if !strings.HasPrefix(n.Key, noteOfCooldown+store.Separator) || !n.Until.After(now) {
			continue
		}
		known := u.told[site]
		if known == nil {
			if len(u.told) >= mostUnmet {
				u.drop()
			}
			known = map[string]store.Note{}
			u.told[site] = known
		}
		if old, there := known[n.Key]; there && old.Until.After(n.Until) || !there && len(known) >= unmetNotes {
			continue
		}
		known[n.Key] = n
	}
	u.count.Store(int64(len(u.told)))
}

// drop forgets, of a few sites, the one whose cooldowns end first.
func (u *unmetSites) drop() {
	const few = 8
	var first string
	var over time.Time
	seen := 0
	for site, notes := range u.told {
		last := time.Time{}
		for _, n := range notes {
			last = status.Later(last, n.Until)
		}
		if seen == 0 || last.Before(over) {
			first, over = site, last
		}
		if seen++; seen == few {
			break
		}
	}
	delete(u.told, first)
}

// of returns the notes that are remembered of a site.
func (u *unmetSites) of(site string) (notes []store.Note) {
	if u.count.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Values(u.told[site]))
}

func (u *unmetSites) forget(site string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.told, site)
	u.count.Store(int64(len(u.told)))
}

// question begins the question for a site's cooldowns. done is nil if another request asks
// already; otherwise the caller asks, and calls done.
func (u *unmetSites) question(site string) (answered <-chan struct{}, done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.asked[site]; c != nil {
		return c, nil
	}
	c := make(chan struct{})
	u.asked[site] = c
	return c, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.asked, site)
		close(c)
	}
}

// misses reports whether there may be cooldowns that this instance has not heard of.
func (u *unmetSites) misses(now time.Time) bool {
	since := u.listens.Load()
	return since == nil || now.Sub(*since) < missedFor
}

// allows reports whether this instance, one of so many, may ask one more question.
func (u *unmetSites) allows(now time.Time, members int) bool {
	part := max(fleetQuestions/members, 1)
	u.allowed.SetLimitAt(now, rate.Limit(float64(fleetQuestions)/float64(members)))
	u.allowed.SetBurstAt(now, part)
	return u.allowed.AllowN(now, 1)
}
