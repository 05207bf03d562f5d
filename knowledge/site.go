package knowledge

import (
	"slices"
	"sync"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
	"github.com/abide-proxy/abide/routes"
	"github.com/abide-proxy/abide/store"
)

// Site is the knowledge about one site: its routes, and refusals that no announced limit
// explains. It is safe for concurrent use.
type Site struct {
	external func(site string, at queue.Scope, m limit.Meter) limit.Meter // makes the external meters of its limits; nil: nothing is saved or shared
	since    uint64                                                       // versions begin after it: the queue knows those of an evicted site

	mu       sync.Mutex
	routes   *routes.Table
	saved    uint64 // version that was saved
	refused  refusals
	accepted successRate
	passed   uint64                    // answers that were no refusals
	rates    map[string]float64        // :: ID of a hidden limit → successes per second when it was found
	findings map[string]ledger.Finding // :: name and budget of a hidden limit → last finding
	titles   titles
}

// Class returns the class of a request's route, and the version of the knowledge.
func (s *Site) Class(method, host, path string, entity int) (*routes.Class, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes.Class(method, host, path, entity), s.since + s.routes.Version()
}

// Version grows with every change of the site's limits.
func (s *Site) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since + s.routes.Version()
}

// Route is the name of a limit for operators: the site's name of it, or its routes.
func (s *Site) Route(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return routeOf(s.routes, id)
}

// Title is the name of a limit wherever limits are shown. other is used for an unknown
// limit.
func (s *Site) Title(id, other string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.titles.of(s.routes, id, other)
}

// Limit makes the queue's limit. The reserve of an announced limit is not used.
func (s *Site) Limit(l *routes.Limit, reserve ledger.Reserve) queue.Limit {
	source := &meterSource{site: s}
	switch l.Kind {
	case routes.Hidden:
		source.hidden = l.ID
	default:
		source.options = ledger.Options{Reserve: reserve, Unit: l.Unit, ShortLived: l.Entity != ""}
	}
	return queue.Limit{Name: learnedPrefix + l.ID, Title: s.Title(l.ID, l.Title), N: 1, Source: source}
}

// First is the limit that lets one request of an unknown route go alone; of the whole site
// if nothing is known.
func (s *Site) First(c *routes.Class) queue.Limit {
	key := c.Route
	if len(c.Limits) == 0 && s.fresh() {
		key = ""
	}
	return queue.Limit{Name: FirstRequest, Title: "the first request of a route goes alone", Key: key, N: 1, Source: firstRequest{}}
}

// fresh tells whether the site has never answered.
func (s *Site) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes.Fresh()
}

// rate is how many requests had succeeded per second when a hidden limit was found.
func (s *Site) rate(id string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rates[id]
}

// identity is the limit's name, the same in all instances.
func (s *Site) identity(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes.Identity(id)
}

// identified lists the limits with such a name.
func (s *Site) identified(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(s.routes.IDs(), func(id string) bool { return s.routes.Identity(id) != name })
}

// finding is what was found last of a hidden limit.
func (s *Site) finding(name, whose string) (f ledger.Finding, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, known = s.findings[name+store.Separator+whose]
	return f, known
}

// setFinding saves a finding, and tells whether it changed the limits of routes.
func (s *Site) setFinding(name, whose string, f ledger.Finding) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.findings == nil || len(s.findings) >= mostRefusals {
		s.findings = map[string]ledger.Finding{}
	}
	s.findings[name+store.Separator+whose] = f
	return s.routes.AdoptHidden(name)
}

// learn applies an answer to the routes.
func (s *Site) learn(now time.Time, c *routes.Class, budget string, sent time.Time, l *learn.Lesson) routes.Learned {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.Throttled {
		s.accepted.add(now)
		s.passed++
	}
	return s.routes.Learn(now, c, budget, sent, l)
}

// explain applies what the ledger of a limit made of an answer.
func (s *Site) explain(now time.Time, c *routes.Class, budget, id string, sent time.Time, n ledger.Surprise) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes.Explain(now, c, budget, id, sent, n)
}

// sharedRefusal records that a route was refused with a budget, and tells whether the limit
// is common to several budgets: see refusals.shared.
func (s *Site) sharedRefusal(now time.Time, route, budget string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused.shared(now, route, budget)
}

// unexplained records a refusal that no announced limit explains. The second makes a hidden
// limit: of the route, or of the whole site if nothing is announced. It returns the limit's
// ID, "" if there is none yet.
func (s *Site) unexplained(now time.Time, c *routes.Class, sent time.Time) (id string, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wide := s.routes.Silent()
	what := c.Template
	if wide {
		what = ""
	}
	if !s.refused.unexplained(now, what, sent) {
		return "", false
	}
	id, changed = s.routes.AddHidden(c, wide)
	if _, known := s.rates[id]; !known {
		if s.rates == nil {
			s.rates = map[string]float64{}
		}
		s.rates[id] = s.accepted.perSecond(now)
	}
	return id, changed
}

// passes is how many answers were no refusals.
func (s *Site) passes() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed
}

// unsaved is the state to save: if the version was not saved yet, or always if again is
// set; nil: nothing to save.
func (s *Site) unsaved(again bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.routes.Version()
	if v == s.saved && (v == 0 || !again) {
		return nil
	}
	s.saved = v
	return s.routes.State()
}

// notSaved makes the state be saved again.
func (s *Site) notSaved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = 0
}
