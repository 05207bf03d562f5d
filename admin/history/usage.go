package history

import (
	"sync"

	"github.com/abide-proxy/abide/store"
)

// usageCounts counts requests as they end.
type usageCounts struct {
	mu   sync.Mutex
	sums map[store.UsageKey]*store.Usage
}

func (c *usageCounts) count(u store.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums == nil {
		c.sums = map[store.UsageKey]*store.Usage{}
	}
	usageRows.addTo(c.sums, u, mostUsage)
}

// list is what was counted since the last call of take.
func (c *usageCounts) list() []store.Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]store.Usage, 0, len(c.sums))
	for _, one := range c.sums {
		list = append(list, *one)
	}
	return list
}

// take is what was counted since the last call.
func (c *usageCounts) take() []store.Usage {
	c.mu.Lock()
	taken := c.sums
	c.sums = nil
	c.mu.Unlock()
	list := make([]store.Usage, 0, len(taken))
	for _, one := range taken {
		list = append(list, *one)
	}
	return list
}
