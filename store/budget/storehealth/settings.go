package storehealth

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/store"
)

// inspectEvery is how often the settings of a store are read while it answers.
const inspectEvery = 10 * time.Minute

// settings are the warnings about the settings of a store, as they were read last.
type settings struct {
	log *logrus.Logger

	mu      sync.Mutex
	list    []string
	read    time.Time
	outages uint64 // that had begun when they were read
}

func (s *settings) warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

// due tells whether the settings are to be read: after each outage, since that may be
// another server, and each inspectEvery. back is that there was an outage.
func (s *settings) due(now time.Time, outages uint64) (due, back bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	back = s.outages != outages
	return s.read.IsZero() || back || now.Sub(s.read) >= inspectEvery, back
}

// Inspect reads the settings of a store if that is due, and logs the warnings that are
// new; after an outage all of them. A store without settings has no warnings.
func (h *Health) Inspect(ctx context.Context, of store.Store, patience time.Duration) {
	server, ok := of.(interface {
		Warnings(ctx context.Context) []string
	})
	outages, away := h.begun()
	now, s := time.Now(), &h.settings
	due, back := s.due(now, outages)
	if !ok || away || !due {
		return
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list := server.Warnings(within)
	s.mu.Lock()
	known := s.list
	s.list, s.read, s.outages = list, now, outages
	s.mu.Unlock()
	for _, one := range list {
		if back || !slices.Contains(known, one) {
			s.log.Warnf("the store can be used, but: %s", one)
		}
	}
}
