package sites

import (
	"encoding/json"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
)

// cooldown is the persisted form of a cooldown. It is stored as JSON: keep the keys.
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
	all := longest{most: mostKept}
	c.gate.VisitCooldowns(func(site string, at queue.Scope, until time.Time, why string) {
		if c.names.Lasting(at.Key) {
			all.add(cooldown{site, at.Limit, at.Key, until, why, now})
		}
	})
	written := make(map[string]cooldown, len(all.list))
	for _, one := range all.list {
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

// resourceKey is the name of a queue resource, the same in every process.
func resourceKey(names Names, site string, at queue.Scope) string {
	return site + store.Separator + store.BudgetKey(at.Limit, names.Stable(site, at.Key))
}
