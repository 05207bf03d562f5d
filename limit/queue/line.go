package queue

import (
	"sort"
	"time"
)

// heldView is one hold as an operator sees it.
type heldView struct {
	hold *hold
	Blocker
	level int       // priority after aging: see level
	Place int       // 1 is next, among those that need the same resource
	ETA   time.Time // when it goes; zero: not known

	// Soonest is the earliest time at which it can go, if no hold before it leaves.
	Soonest time.Time

	// Copies of the hold's fields at the time of the snapshot:
	needs    [][]need
	priority int
	since    time.Time // hold.added
	grant    uint64    // the number of its last grant
	later    time.Time // end of the delay of a delayed hold; zero for other holds
}

// snapshot is what waits at a site at one moment, in no order. It is taken under the lock
// of the site and may be used without the lock, but for the holds.
type snapshot struct {
	now    time.Time
	aging  time.Duration
	holds  []snapped
	turns  map[*client]float64
	oldest [numPriorities]*snapped
}

// snapped is a hold in a snapshot.
type snapped struct {
	heldView
	client *client
	seq    uint64
	pays   float64 // in turns
}

// snapshot copies what waits, and adds guest, a hold that is not in the queue; nil adds none.
func (s *scheduler) snapshot(now time.Time, guest *hold) *snapshot {
	all := &snapshot{
		now: now, aging: s.options.aging, turns: map[*client]float64{},
		holds: make([]snapped, 0, s.numWaiting+s.numDelayed+1),
	}
	known := map[*[]need]Blocker{} // :: needs that several holds have → what blocks those that are not delayed
	add := func(h *hold, c *client) {
		item := snapped{
			heldView: heldView{hold: h, needs: h.needs, priority: h.priority, since: h.added, grant: h.grant},
			client:   c, seq: h.seq, pays: float64(h.fairCost()) / h.fairWeight(),
		}
		switch {
		case h.state == stateDelayed:
			item.Blocker, item.later = blockerOf(now, h), h.later
		case len(h.needs) == 0:
			item.Blocker = blockerOf(now, h)
		default:
			k, seen := known[&h.needs[0]]
			if !seen {
				k = blockerOf(now, h)
				known[&h.needs[0]] = k
			}
			item.Blocker = k
		}
		all.holds = append(all.holds, item)
		all.turns[c] = c.served
	}
	for _, g := range s.groups {
		for p := range g.priorities {
			for _, h := range g.priorities[p].oldest.items {
				add(h, h.client)
			}
		}
	}
	for _, h := range s.delayed.items {
		add(h, h.client)
	}
	if guest != nil {
		c := s.clients.byName[guest.name]
		if c == nil {
			c = &client{served: s.served}
		}
		guest.clampPriority()
		guest.seq, guest.added = s.seq+1, now
		add(guest, c)
	}
	return all
}

// line puts what waits in the order in which it would go.
func (a *snapshot) line() []heldView {
	own := make(map[*client][]*snapped, len(a.turns))
	for i := range a.holds {
		h := &a.holds[i]
		if old := a.oldest[h.priority]; old == nil || h.seq < old.seq {
			a.oldest[h.priority] = h
		}
		own[h.client] = append(own[h.client], h)
	}
	list, ranks := make([]heldView, 0, len(a.holds)), make([]rank, 0, len(a.holds))
	for c, holds := range own {
		sort.Slice(holds, func(i, j int) bool {
			return rank{holds[i].priority, 0, holds[i].seq}.before(rank{holds[j].priority, 0, holds[j].seq})
		})
		turn := a.turns[c]
		for _, h := range holds {
			h.level = level(h.priority, a.oldest[h.priority].since, a.now, a.aging)
			list, ranks = append(list, h.heldView), append(ranks, rank{h.level, turn, h.seq})
			turn += h.pays
		}
	}
	sort.Sort(byRanks{list, ranks})
	return list
}

// place fills in places, given the order.
func place(list []heldView) {
	before := map[*resource]int{}
	for i := range list {
		w := &list[i]
		for _, needs := range w.needs {
			for _, n := range needs {
				w.Place = max(w.Place, before[n.resource]+1)
			}
		}
		if len(w.needs) == 0 {
			continue
		}
		for _, n := range w.needs[0] {
			before[n.resource]++
		}
	}
}

type byRanks struct {
	list  []heldView
	ranks []rank
}

func (b byRanks) Len() int           { return len(b.list) }
func (b byRanks) Less(i, j int) bool { return b.ranks[i].before(b.ranks[j]) }
func (b byRanks) Swap(i, j int) {
	b.list[i], b.list[j] = b.list[j], b.list[i]
	b.ranks[i], b.ranks[j] = b.ranks[j], b.ranks[i]
}
