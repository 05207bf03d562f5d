package sites

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/routes"
)

// KeepFrom makes the Persistence save what a gate knows of sites, and restores the
// cooldowns of before a restart. Call it before the Persistence runs.
func (s *Sites) KeepFrom(gate *queue.Gate) {
	if s.kept == nil {
		return
	}
	cooling := &cooldowns{gate: gate, names: s.names}
	cooling.restore(time.Now(), s.kept.TakeAll(kindOfCooldown))
	s.kept.Add(Source{Kind: kindOfCooldown, Urgent: true, Remove: true, Find: cooling.find})
	s.kept.Add(Source{Kind: kindOfLedger, Find: func(now time.Time, to Found) { s.findMeters(gate, now, to) }})
	var renewed time.Time // when routes that had not changed were written last
	s.kept.Add(Source{Kind: kindOfRoutes, Unwritten: s.notSaved, Find: func(now time.Time, to Found) {
		again := now.Sub(renewed) > keptFor/2
		if again {
			renewed = now
		}
		s.findRoutes(now, again, to)
	}})
}

// findMeters adds the meters of learned limits.
func (s *Sites) findMeters(gate *queue.Gate, now time.Time, to Found) {
	gate.VisitResources(func(_ time.Time, at queue.ResourceInfo) {
		if _, learned := s.ID(at.At.Limit); !learned || !s.names.Lasting(at.At.Key) || len(to) >= mostKept {
			return
		}
		state := at.State
		if at.Meter != nil {
			state = at.Meter.State()
		}
		to.Add(resourceKey(s.names, at.Site, at.At), state, now.Add(keptFor))
	})
}

// findRoutes adds the routes of all sites, or of those whose routes have changed.
func (s *Sites) findRoutes(now time.Time, all bool, to Found) {
	s.visit(func(name string, site *Site) { to.Add(name, site.unsaved(all), now.Add(keptFor)) })
}

func (s *Sites) notSaved(name string) {
	if site := s.Find(name); site != nil {
		site.notSaved()
	}
}

// HasMeter tells whether a saved meter of a learned limit has not been restored yet.
func (s *Sites) HasMeter(site string, at queue.Scope) bool {
	return s.kept != nil && s.kept.has(kindOfLedger, resourceKey(s.names, site, at))
}

// restoreMeter restores a new meter of a learned limit after a restart. It is called under
// the queue's lock of the site.
func (s *Sites) restoreMeter(site string, at queue.Scope, m limit.Meter) limit.Meter {
	restored := false
	if s.kept != nil {
		if state := s.kept.Take(kindOfLedger, resourceKey(s.names, site, at)); state != nil {
			restored = m.Restore(time.Now(), state) == nil // an invalid state is ignored
		}
	}
	if s.share != nil {
		s.share(site, at, m, restored)
	}
	return m
}

// restoreRoutes restores the routes of a site.
func (s *Sites) restoreRoutes(site string, r *routes.Table) {
	if state := s.kept.Take(kindOfRoutes, site); state != nil {
		_ = r.Restore(state) // an invalid state is ignored
	}
}
