package history

import (
	"time"

	"github.com/abide-proxy/abide/store"
)

// Bounds of what is counted apart at one time. Above them rows are counted together, as those
// of store.Others.
const (
	mostSites   = 10_000
	mostUsage   = 5_000
	mostBlocked = 5_000
)

// sums are counts of one time. The zero value is empty.
type sums struct {
	traffic map[string]*store.Traffic
	usage   map[store.UsageKey]*store.Usage
	blocked map[blockedKey]*store.Blocked
}

func (s *sums) add(h store.History) {
	if s.traffic == nil {
		*s = sums{map[string]*store.Traffic{}, map[store.UsageKey]*store.Usage{}, map[blockedKey]*store.Blocked{}}
	}
	for _, one := range h.Traffic {
		trafficRows.addTo(s.traffic, one, mostSites)
	}
	for _, one := range h.Usage {
		usageRows.addTo(s.usage, one, mostUsage)
	}
	for _, one := range h.Blocked {
		blockedRows.addTo(s.blocked, one, mostBlocked)
	}
}

// at is the counts as those of a minute.
func (s *sums) at(minute time.Time) store.History {
	return store.History{
		Traffic: trafficRows.list(s.traffic, minute), Usage: usageRows.list(s.usage, minute), Blocked: blockedRows.list(s.blocked, minute),
	}
}
