package queue

import "time"

// longest returns the limit that blocked the group for longest between two times, and for
// how long; of limits with equal times, the last. It allocates nothing, because it is called
// for each hold that leaves.
func (g *group) longest(from, to time.Time) (limit string, longest time.Duration) {
	if to.After(from) && len(g.history) > 0 {
		if last := g.history[len(g.history)-1]; !last.from.After(from) {
			return last.time.name, to.Sub(from) // the usual case
		}
	}
	var total [mostBlockedSince]struct {
		time *blockedTime
		kept time.Duration
	}
	for i := len(g.history) - 1; i >= 0 && to.After(from); i-- {
		blockedSince := g.history[i]
		begun := blockedSince.from
		if begun.Before(from) {
			begun = from
		}
		at := 0
		for total[at].time != nil && total[at].time != blockedSince.time {
			at++
		}
		total[at].time = blockedSince.time
		total[at].kept += to.Sub(begun)
		if limit == "" || total[at].kept > longest {
			limit, longest = blockedSince.time.name, total[at].kept
		}
		to = begun
	}
	if limit == "" {
		limit = g.blocked.name
	}
	return limit, longest
}

// countBlocked adds the holds of a group to the blocked time of a resource: what blocks the
// first hold blocks the others too.
func (g *group) countBlocked(now time.Time, res *resource) {
	t := res.blockedTime()
	if t == g.blocked {
		return
	}
	if g.blocked != nil {
		g.blocked.change(now, -g.size)
	}
	t.change(now, g.size)
	g.blocked = t
	if len(g.history) == mostBlockedSince {
		g.history = g.history[:copy(g.history, g.history[mostBlockedSince/2:])]
	}
	g.history = append(g.history, blockedSince{t, now})
}
