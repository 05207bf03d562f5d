package sites

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/status"
)

// Site is the knowledge about one site: its routes, and refusals that no announced limit
// explains. It is safe for concurrent use.
type Site struct {
	external func(site string, at queue.Scope, m limit.Meter) limit.Meter // makes the external meters of its limits; nil: nothing is saved or shared
	since    uint64                                                       // versions begin after it: the queue knows those of an evicted site

	// slow is true while few requests have succeeded and no limit is announced. It is read for
	// each request, without the lock.
	slow   atomic.Bool
	flying atomic.Int64 // requests in flight
	blocks atomic.Bool  // it has refused everything when it was asked last
	known  atomic.Bool  // the URL of a success is known, and not old

	mu       sync.Mutex
	routes   *routes.Table
	saved    uint64 // version that was saved
	block    block
	answers  answers
	history  map[string]ledger.History // :: ID of a hidden limit → accepted requests before the last refusal
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

// Route returns the name of a limit for operators: the site's name of it, or its routes.
func (s *Site) Route(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return routeOf(s.routes, id)
}

// Title returns the name of a limit wherever limits are shown; other for an unknown limit.
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

// First returns the limit that lets one request of an unknown route go alone; of the whole site
// if nothing is known.
func (s *Site) First(c *routes.Class) queue.Limit {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := c.Route
	if len(c.Limits) == 0 && s.routes.Fresh() {
		key = ""
	}
	return queue.Limit{Name: FirstRequest, Title: "the first request of a route goes alone", Key: key, N: 1, Source: brief(func() limit.Meter { return ledger.NewUnknownRoute() })}
}

// Answered reports whether a request to the site has succeeded since the start.
func (s *Site) Answered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.answers.latest.IsZero()
}

// SlowStarts reports whether few requests may be in flight: the site announces no limits, and has
// answered few requests. A refusal does not end that: other tokens would go all at once.
func (s *Site) SlowStarts() bool { return s.slow.Load() }

// SlowStart returns the limit of requests in flight while SlowStarts is true.
func (s *Site) SlowStart() queue.Limit {
	return queue.Limit{Name: SlowStart, Title: "few at once until the site has answered more", N: 1, Source: brief(func() limit.Meter { return ledger.NewSlowStart(s.successes()) })}
}

// historyOf returns the history before the last refusal by a hidden limit, for the meter that is
// made then.
func (s *Site) historyOf(id string) ledger.History {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history[id]
}

// learn applies an answer to the routes.
func (s *Site) learn(a *Answer) routes.Learned {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.Lesson.Throttled && !a.Failed && !a.Denied {
		s.answers.add(a.At, a.Sent, a.Class.Template, a.Budget, a.Origin)
		if s.block.succeeded(); s.block.successes%knownLasts == 0 {
			s.known.Store(false)
		}
	}
	learned := s.routes.Learn(a.At, a.Class, a.Budget, a.Sent, a.Lesson)
	s.slow.Store(s.answers.successes < ledger.SlowStartSuccesses && !s.routes.Announces())
	return learned
}

// hidden is a limit that no announcement explains, as far as a refusal shows it.
type hidden struct {
	limit   routes.Limit
	alone   bool // it is the route's, though the site announces nothing
	near    bool // see answers.refused
	again   bool // the same limit has refused another route before
	changed bool // the limits of some routes
}

// hidden makes a hidden limit for a refusal that no announced limit explains. It is one of the route if the site announces
// limits, or seems to refuse no other. site: it is certainly one of the site; together: of all credentials.
func (s *Site) hidden(a *Answer, together, site bool) (h hidden) {
	s.mu.Lock()
	defer s.mu.Unlock()
	route, proved, p := a.Class.Template, s.answers.ofRoute(unlikeFor), &s.answers.pace
	if p.outruns() {
		s.routes.Prove(p.of)
		*p = pace{}
	}
	all, near := s.answers.refused(a.At, a.Sent, route, a.Budget)
	ofRoute := false
	if s.routes.Silent() {
		known := s.routes.HiddenOf(a.Class)
		ofRoute = !site && !p.closed() && (known.Proved || s.answers.ofRoute(unlikeFor))
		h.alone = ofRoute || !site && !known.Others && (known.Own || s.answers.ofRoute(unlikeAtFirst) || s.answers.only(route))
		if !h.alone {
			h.again, route = s.routes.Widen(s.answers.mostly(p.of)) && !proved, "" // what has refused the other route refuses this one
		}
		if !ofRoute {
			p.refuse(a.At, route, &s.answers.all)
		}
	}
	id, added := s.routes.AddHidden(a.Class, route == "")
	if ofRoute {
		s.routes.Prove(route)
	}
	united, joined := s.routes.Unite(id, together || all && !h.alone)
	if s.history == nil {
		s.history = map[string]ledger.History{}
	}
	s.history[id] = s.answers.history(a.At, route, a.Budget, united)
	h.limit, h.near, h.changed = routes.Limit{ID: id, Title: status.HiddenTitle, Kind: routes.Hidden, Site: united}, near, h.again || added || joined
	return h
}

// successes returns the number of requests that have succeeded.
func (s *Site) successes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers.successes
}

// Begin notes that a request is sent, and returns the number in flight with it. End must follow.
func (s *Site) Begin() (level int64) { return s.flying.Add(1) }

// End notes that a request is answered, or will not be, and returns the number of requests in flight with it.
func (s *Site) End() (level int64) { return s.flying.Add(-1) + 1 }

// Forbidden takes an answer 403 to a request of a host, of which no header and no text says
// more, or a success that may be a refusal, and returns its meaning. again: the request was refused before.
func (s *Site) Forbidden(now time.Time, host string, page Page, again bool) Access {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.block.forbidden(now, host, page, again)
}

// Alike reports whether a page that is the answer to a URL may be a refusal: see block.alike.
func (s *Site) Alike(url string, page Page) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.block.alike(url, page)
}

// Verified takes whether a request that succeeded before seems to be refused, and reports whether it is.
func (s *Site) Verified(now time.Time, refused bool) (blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block.verified(now, refused)
	s.blocks.Store(s.block.blocked)
	return s.block.blocked
}

// Misjudged takes back that what was verified is the site's own answer.
func (s *Site) Misjudged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block.trust = time.Time{}
	s.block.own = slices.DeleteFunc(s.block.own, func(p Page) bool { return p == s.block.page })
}

// Succeeded counts a success that looked like a refusal.
func (s *Site) Succeeded(now, sent time.Time, route, budget, origin string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.add(now, sent, route, budget, origin)
	s.block.streak = 0
}

// acceptedAfter reports whether a request that was sent after a time has succeeded, under the hidden limit of a class.
func (s *Site) acceptedAfter(at time.Time, c *routes.Class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.routes.HiddenOf(c).Own {
		return of(&s.answers.routes, c.Template).sent.After(at)
	}
	return s.answers.all.sent.After(at)
}

// Known returns the URL, without its host, of a request to a host that succeeded before; "" if
// there is none.
func (s *Site) Known(host string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.block.host != host {
		return ""
	}
	return s.block.known
}

// Blocks reports whether the site has refused everything when it was asked last. It takes no
// lock.
func (s *Site) Blocks() bool { return s.blocks.Load() }

// WantsKnown reports whether the URL of a success is wanted: the one that is known is old. It
// takes no lock.
func (s *Site) WantsKnown() bool { return !s.known.Load() }

// SetKnown sets the URL, without its host, of a request that has succeeded, and the look of the answer.
func (s *Site) SetKnown(host, url string, page Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block.host, s.block.known, s.block.knownPage = host, url, page
	s.known.Store(true)
}

// Closes reports whether an origin of the site has refused requests by closing connections lately: an idle connection that is closed
// then may be a refusal.
func (s *Site) Closes(now time.Time, origin string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := of(&s.answers.origins, origin)
	return u.closings > 0 && now.Sub(u.closedAt) < longestAnswering
}

// unsaved returns the state to save: if the version was not saved yet, or always if again is
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

// meterSource makes the meters of a learned limit.
type meterSource struct {
	site    *Site
	hidden  string         // ID of a hidden limit; "": announced
	options ledger.Options // of an announced limit
}

// NewMeter makes an empty meter.
func (l *meterSource) NewMeter() limit.Meter {
	if l.hidden != "" {
		return ledger.NewHiddenRate(l.site.historyOf(l.hidden))
	}
	return ledger.New(l.options)
}

// External restores a new meter after a restart, and shares it with the fleet.
func (l *meterSource) External(site string, at queue.Scope, _ limit.Spec, m limit.Meter) limit.Meter {
	if l.site.external == nil {
		return nil
	}
	return l.site.external(site, at, m)
}

// brief makes meters that are neither saved nor shared: they count for the first answers only.
type brief func() limit.Meter

// NewMeter makes a meter.
func (m brief) NewMeter() limit.Meter { return m() }

// External returns nil.
func (brief) External(string, queue.Scope, limit.Spec, limit.Meter) limit.Meter { return nil }

// The names of the queue's resources. A learned limit has an ID in its process, which
// changes with a restart, and a name that is the same in every instance of a fleet. The
// queue's resources have the ID.
const (
	// learnedPrefix begins the names of resources that are learned limits.
	learnedPrefix = "learned "
	// FirstRequest is the resource that lets the first request of a route go alone.
	FirstRequest = "first "
	// SlowStart is the resource that lets few requests go at once to a site that has
	// answered few.
	SlowStart = "slow start "
)
