package sites

import (
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/store"
)

// mostSaved bounds the saved limits that are listed.
const mostSaved = 2000

// SavedLimit is a learned limit that was saved before the start, and of which no request has asked since.
type SavedLimit struct {
	Site, Title, Route string
	At                 queue.Scope // of its meters in this process
	Meter              limit.Meter
}

// VisitSavedLimits visits the limits that were saved before the start and of which no request has asked since,
// those of the first sites by name, without those of tokens that are not there any more. What was restored
// to show it is kept until a request asks for it. visit must not keep the meter.
func (s *Sites) VisitSavedLimits(now time.Time, visit func(SavedLimit)) {
	s.showing.Lock()
	defer s.showing.Unlock()
	for _, key := range s.saved.keys(kindOfLedger, mostSaved) {
		name, budget, _ := strings.Cut(key, store.Separator)
		slot, whose, _ := strings.Cut(budget, store.Separator)
		site, of := s.shown(name), s.names.Local(name, slot, whose)
		id, _ := s.ID(slot)
		l, exists := site.LimitOf(id)
		d := s.saved.look(kindOfLedger, key)
		if !exists || len(of) == 0 || d == nil {
			continue
		}
		q := site.Limit(&l, ledger.Reserve{})
		if d.restored == nil {
			if m := q.Source.NewMeter(); m.Restore(now, d.value) == nil {
				d.restored = m
			}
		}
		if m, valid := d.restored.(limit.Meter); valid {
			visit(SavedLimit{name, q.Title, site.Route(id), queue.Scope{Limit: slot, Key: of[0]}, m})
		}
	}
}

// shown returns a site to show its saved limits. The caller holds showing.
func (s *Sites) shown(name string) *Site {
	if site := s.Find(name); site != nil {
		return site
	}
	d := s.saved.look(kindOfRoutes, name)
	if d == nil {
		return &Site{routes: routes.New()}
	}
	site, known := d.restored.(*Site)
	if !known {
		site = &Site{routes: routes.New()}
		_ = site.routes.Restore(d.value) // without a valid state no limit is known
		site.routes.Follow(s.dialect(name))
		d.restored = site
	}
	return site
}

// LimitOf returns a limit of the site by its ID; false: it does not exist.
func (s *Site) LimitOf(id string) (l routes.Limit, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.routes.Limit(id)
	return l, l.ID != ""
}

// Forget forgets what was learned of the sites of a host, on whichever port, and of others. Requests that wait
// at a gate keep their places. It returns the sites of which something was known.
func (s *Sites) Forget(gate *queue.Gate, host string, others ...string) (forgotten []string) {
	for _, name := range s.Known(mostStored) {
		if port, cut := strings.CutPrefix(name, host+":"); cut && !strings.Contains(port, ":") {
			others = append(others, name)
		}
	}
	others = append(others, host)
	slices.Sort(others)
	for _, name := range slices.Compact(others) {
		if site := s.Recall(name); site != nil {
			if known, version := site.forget(s.dialect(name)); known {
				gate.Replan(name, version)
				forgotten = append(forgotten, name)
			}
		}
	}
	return forgotten
}

// forget makes the site one that has never answered, read by a dialect, and returns the version of that. It reports
// whether the site was none before.
func (s *Site) forget(dialect string) (known bool, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known = s.routes.Forget(dialect); known {
		s.block, s.answers = block{}, answers{}
		s.history, s.findings = nil, nil
		s.slow.Store(false)
		s.blocks.Store(false)
		s.known.Store(false)
	}
	return known, s.since + s.routes.Version()
}
