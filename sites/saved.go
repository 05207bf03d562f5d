package sites

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
)

// KeepFrom makes the Persistence save a gate's cooldowns and meters of learned limits, and the
// routes of sites, and restores the cooldowns of before a restart. Call it before the
// Persistence runs.
func (s *Sites) KeepFrom(gate *queue.Gate) {
	if s.saved == nil {
		return
	}
	cooling := &cooldowns{gate: gate, names: s.names}
	cooling.restore(time.Now(), s.saved.TakeAll(kindOfCooldown))
	s.saved.Add(Source{Kind: kindOfCooldown, Urgent: true, Remove: true, Find: cooling.find})
	s.saved.Add(Source{Kind: kindOfLedger, Find: func(now time.Time, to Found) { s.findMeters(gate, now, to) }})
	var renewed time.Time // when routes that had not changed were written last
	s.saved.Add(Source{Kind: kindOfRoutes, Unwritten: s.notSaved, Find: func(now time.Time, to Found) {
		again := now.Sub(renewed) > lasting/2
		if again {
			renewed = now
		}
		s.visit(func(name string, site *Site) { to.Add(name, site.unsaved(again), now.Add(lasting)) })
	}})
}

// findMeters adds the meters of learned limits.
func (s *Sites) findMeters(gate *queue.Gate, now time.Time, to Found) {
	gate.VisitResources(func(_ time.Time, at queue.ResourceInfo) {
		if _, learned := s.ID(at.At.Limit); !learned || !s.names.Lasting(at.At.Key) || len(to) >= mostStored {
			return
		}
		state := at.State
		if at.Meter != nil {
			state = at.Meter.State()
		}
		to.Add(resourceKey(s.names, at.Site, at.At), state, now.Add(lasting))
	})
}

func (s *Sites) notSaved(name string) {
	if site := s.Find(name); site != nil {
		site.notSaved()
	}
}

// HasMeter reports whether a saved meter of a learned limit has not been restored yet.
func (s *Sites) HasMeter(site string, at queue.Scope) bool {
	return s.saved != nil && s.saved.has(kindOfLedger, resourceKey(s.names, site, at))
}

// restoreMeter restores a new meter of a learned limit after a restart. It is called under
// the queue's lock of the site.
func (s *Sites) restoreMeter(site string, at queue.Scope, m limit.Meter) limit.Meter {
	restored := false
	if s.saved != nil {
		if state := s.saved.Take(kindOfLedger, resourceKey(s.names, site, at)); state != nil {
			restored = m.Restore(time.Now(), state) == nil // an invalid state is ignored
		}
	}
	if s.share != nil {
		s.share(site, at, m, restored)
	}
	return m
}

// cooldown is the stored form of a cooldown. It is stored as JSON: do not change the keys.
type cooldown struct {
	Site  string    `json:"site"`
	Limit string    `json:"limit,omitempty"`
	Key   string    `json:"key,omitempty"`
	Until time.Time `json:"until"`
	Why   string    `json:"why,omitempty"`
	At    time.Time `json:"at,omitzero"` // when it was first written
}

// cooldowns persists the cooldowns of a gate. It is not safe for concurrent use.
type cooldowns struct {
	gate    *queue.Gate
	names   Names
	written map[string]cooldown // :: key of the document → last written
}

// find adds the cooldowns that last longest.
func (c *cooldowns) find(now time.Time, to Found) {
	var all []cooldown
	c.gate.VisitCooldowns(func(site string, at queue.Scope, until time.Time, why string) {
		if c.names.Lasting(at.Key) {
			all = append(all, cooldown{site, at.Limit, at.Key, until, why, now})
		}
	})
	slices.SortFunc(all, func(a, b cooldown) int { return b.Until.Compare(a.Until) })
	written := make(map[string]cooldown, min(len(all), mostStored))
	for _, one := range all[:min(len(all), mostStored)] {
		key := resourceKey(c.names, one.Site, queue.Scope{Limit: one.Limit, Key: one.Key})
		one.Key = c.names.Stable(one.Site, one.Key)
		if old, known := c.written[key]; known && old.Until.Equal(one.Until) {
			one.At = old.At
		}
		written[key] = one
	}
	c.written = written
	for key, one := range written {
		if value, err := json.Marshal(one); err == nil {
			to.Add(key, value, one.Until)
		}
	}
}

// restore applies the cooldowns of before a restart. If the clock was set back meanwhile, a
// cooldown keeps its original length.
func (c *cooldowns) restore(now time.Time, all map[string][]byte) {
	for _, value := range all {
		var item cooldown
		if json.Unmarshal(value, &item) != nil {
			continue
		}
		item.Until = item.Until.Add(min(now.Sub(item.At), 0))
		if item.Until.After(now) {
			for _, key := range c.names.Local(item.Site, item.Limit, item.Key) {
				c.gate.Cool(item.Site, queue.Scope{Limit: item.Limit, Key: key}, item.Until, item.Why)
			}
		}
	}
}

// resourceKey returns the name of a queue resource, the same in every process.
func resourceKey(names Names, site string, at queue.Scope) string {
	return site + store.Separator + store.BudgetKey(at.Limit, names.Stable(site, at.Key))
}
