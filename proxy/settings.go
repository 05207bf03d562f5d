package proxy

import (
	"context"
	"slices"
	"sync"
	"time"
)

// inspectEvery is how often the settings of a store are looked at while it answers.
const inspectEvery = 10 * time.Minute

// settings are what is to be changed about the server of a store, as it was last looked at.
type settings struct {
	mu       sync.Mutex
	warnings []string
	looked   time.Time
	outages  uint64 // that had begun then
}

func (s *settings) now() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warnings
}

// inspect looks at the settings of the store when it has come back, and once in a while.
// The log is told what is new, and after an outage all: it may be another server.
func (d *desk) inspect(ctx context.Context) {
	server, is := d.store.(interface {
		Warnings(ctx context.Context) []string
	})
	h := &d.health
	h.mu.Lock()
	outages, away := h.count, !h.since.IsZero()
	h.mu.Unlock()
	s, now := &d.settings, time.Now()
	if !is || away || d.members.Load() == nil {
		return
	}
	s.mu.Lock()
	known, back := s.warnings, s.outages != outages
	due := s.looked.IsZero() || back || now.Sub(s.looked) >= inspectEvery
	s.mu.Unlock()
	if !due {
		return
	}
	within, cancel := context.WithTimeout(ctx, patienceOfPulse)
	defer cancel()
	list := server.Warnings(within)
	s.mu.Lock()
	s.warnings, s.looked, s.outages = list, now, outages
	s.mu.Unlock()
	for _, one := range list {
		if back || !slices.Contains(known, one) {
			d.log.Warnf("the store can be used, but: %s", one)
		}
	}
}
