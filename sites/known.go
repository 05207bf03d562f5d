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

// SavedLimits lists the limits that were saved before the start and of which no request has asked since,
// those of the first sites by name, without those of tokens that are not there any more. It changes nothing.
func (s *Sites) SavedLimits(now time.Time) (list []SavedLimit) {
	known := map[string]*Site{}
	for _, key := range s.saved.keys(kindOfLedger, mostSaved) {
		parts := append(strings.SplitN(key, store.Separator, 3), "")
		name, slot, whose := parts[0], parts[1], parts[2]
		site, looked := known[name]
		if !looked {
			if site = s.Find(name); site == nil {
				site = &Site{routes: routes.New()}
				_ = site.routes.Restore(s.saved.look(kindOfRoutes, name)) // without a valid state no limit is known
			}
			known[name] = site
		}
		id, _ := s.ID(slot)
		l, exists := site.LimitOf(id)
		if of := s.names.Local(name, slot, whose); exists && len(of) > 0 {
			q := site.Limit(&l, ledger.Reserve{})
			if m := q.Source.NewMeter(); m.Restore(now, s.saved.look(kindOfLedger, key)) == nil {
				list = append(list, SavedLimit{name, q.Title, site.Route(id), queue.Scope{Limit: slot, Key: of[0]}, m})
			}
		}
	}
	return list
}

// LimitOf returns a limit of the site by its ID; false: it does not exist.
func (s *Site) LimitOf(id string) (l routes.Limit, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes.Limit(id)
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
			if known, version := site.forget(); known {
				gate.Replan(name, version)
				forgotten = append(forgotten, name)
			}
		}
	}
	return forgotten
}

// forget makes the site one that has never answered, and returns the version of that. It reports whether the
// site was none before.
func (s *Site) forget() (known bool, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known = !s.routes.Fresh() || s.routes.Limited(); known {
		s.routes.Forget()
		s.refused, s.common, s.block, s.answers = refusals{}, common{}, block{}, answers{}
		s.history, s.findings = nil, nil
		s.slow.Store(false)
		s.blocks.Store(false)
		s.known.Store(false)
	}
	return known, s.since + s.routes.Version()
}
