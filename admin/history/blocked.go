package history

import (
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/store"
)

// blockedGrowth finds how much the blocked times of limits have grown since the last call. The
// zero value has seen none.
type blockedGrowth struct{ seen map[blockedKey]queue.Blocked }

// since is the growth since the last call. A time that is less than before has begun again: its
// site was forgotten in between.
func (g *blockedGrowth) since(now []queue.Blocked) []store.Blocked {
	seen := make(map[blockedKey]queue.Blocked, len(now))
	var list []store.Blocked
	for _, one := range now {
		key := blockedKey{one.Site, one.Limit}
		seen[key] = one
		before := g.seen[key]
		if one.Seconds < before.Seconds || one.Busy < before.Busy {
			before = queue.Blocked{}
		}
		held, busy := one.Seconds-before.Seconds, one.Busy-before.Busy
		if held > 0 {
			list = append(list, store.Blocked{Site: one.Site, Limit: one.Limit, Held: seconds(held), Busy: seconds(busy)})
		}
	}
	g.seen = seen
	return list
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
