package queue

import (
	"sort"
	"time"
)

// Keeps is what keeps a hold.
type Keeps struct {
	Limit string    // the slot's name
	Why   string    // of a cooldown: who asked for it, or that it was just over
	Until time.Time // when that slot lets it go; zero: when something is finished, or nobody knows
	First bool      // the slot has enough, but for those before it
	Asks  bool      // the slot's meter waits for the answer of a store: nobody knows yet what it has
}

// Waiting is one hold as an operator sees it.
type Waiting struct {
	Hold *Hold
	Keeps
	Level int       // its priority after aging
	Place int       // 1 is next, among those that need the same slot
	ETA   time.Time // as far as is known; zero is not known

	// Soonest is no later than it goes, if nobody before it leaves.
	Soonest time.Time

	// Of the hold, when it was looked at:
	needs [][]Need
	class int
	since time.Time // added
	grant uint64    // the number of its last grant
	later time.Time // for a hold that rests: until when
}

// String names the limit, and why it keeps others if that is not its amount.
func (k Keeps) String() string {
	if k.Why == "" {
		return k.Limit
	}
	return k.Limit + " (" + k.Why + ")"
}

// label names what keeps others at the slot.
func (s *Slot) label(now time.Time) string { return Keeps{Limit: s.name, Why: s.why(now)}.String() }

// why is why the slot keeps others, if that is not its amount.
func (s *Slot) why(now time.Time) string {
	switch {
	case s.cool.After(now):
		return s.coolWhy
	case !s.full(now):
		return ""
	case s.ramp.after == "":
		return "recovering"
	}
	return "recovering after " + s.ramp.after
}

// keeps says what keeps a hold that waits or rests.
func (s *Scheduler) keeps(now time.Time, h *Hold) Keeps {
	k, _ := s.keeper(now, h)
	return k
}

// keeper is keeps, with the slot if it is one.
func (s *Scheduler) keeper(now time.Time, h *Hold) (found Keeps, slot *Slot) {
	if h.state == resting {
		return Keeps{Limit: "retry", Until: h.later}, nil
	}
	asking := false
	for i, needs := range h.Needs {
		var k Keeps
		var by *Slot
		asks := false
		for _, n := range needs {
			at := n.Slot.when(now, n.N)
			switch {
			case at.After(now) && (k.Limit == "" || k.First || at.After(k.Until)):
				k, by, asks = Keeps{Limit: n.Slot.name, Until: at}, n.Slot, n.Slot.asking(now, at, n.N)
				k.Asks = asks && n.Slot.asks(now, n.N)
				if n.Slot.away(now) && !n.Slot.cool.After(now) {
					asks, k.Asks = true, true
				}
				if n.Slot.cool.Equal(at) || n.Slot.full(now) {
					k.Why = n.Slot.why(now)
				}
			case k.Limit == "" && n.Slot.bench != nil:
				k, by = Keeps{Limit: n.Slot.name, Until: n.Slot.wake, First: true}, n.Slot
			}
		}
		if i == 0 || !k.Until.IsZero() && k.Until.Before(found.Until) {
			found, slot, asking = k, by, asks
		}
	}
	if asking || found.Until.Sub(now) > far {
		found.Until = time.Time{}
	}
	return found, slot
}

// Why says what keeps a hold, and when it may go. It looks at the whole queue:
// it is for people, not for every request.
func (s *Scheduler) Why(now time.Time, h *Hold) (Waiting, bool) {
	if h.state != waiting && h.state != resting {
		return Waiting{}, false
	}
	for _, w := range s.Holds(now) {
		if w.Hold == h {
			return w, true
		}
	}
	return Waiting{}, false
}

// Holds are all that wait, in the order in which they would go if every slot
// had enough. It takes O(n log n).
func (s *Scheduler) Holds(now time.Time) []Waiting { return s.line(now, nil) }

// line is as Holds, with one more that is not there, unless it is nil.
func (s *Scheduler) line(now time.Time, guest *Hold) []Waiting {
	list := s.lineUp(now, guest)
	place(list)
	predict(now, list, func(look func(time.Time)) { look(now) })
	return list
}

// lineUp is the line without places and times.
func (s *Scheduler) lineUp(now time.Time, guest *Hold) []Waiting {
	return s.snapshot(now, guest).line()
}

// snapshot is what waits at a site at one moment, in no order. It is taken under the lock
// of the site, and may be used without it, but for the holds.
type snapshot struct {
	now    time.Time
	aging  time.Duration
	holds  []snapped
	turns  map[*client]float64
	oldest [classes]*snapped
}

// snapped is a hold in a snapshot.
type snapped struct {
	Waiting
	client *client
	seq    uint64
	pays   float64 // in turns
}

// snapshot takes one, with one more hold that is not there, unless it is nil.
func (s *Scheduler) snapshot(now time.Time, guest *Hold) *snapshot {
	all := &snapshot{
		now: now, aging: s.options.Aging, turns: map[*client]float64{},
		holds: make([]snapped, 0, s.waiting+s.resting+1),
	}
	known := map[*[]Need]Keeps{} // :: needs that several holds have → what keeps those that do not rest
	add := func(h *Hold, c *client) {
		one := snapped{
			Waiting: Waiting{Hold: h, needs: h.Needs, class: h.class, since: h.added, grant: h.grant},
			client:  c, seq: h.seq, pays: float64(h.cost()) / h.weight(),
		}
		switch {
		case h.state == resting:
			one.Keeps, one.later = s.keeps(now, h), h.later
		case len(h.Needs) == 0:
			one.Keeps = s.keeps(now, h)
		default:
			k, seen := known[&h.Needs[0]]
			if !seen {
				k = s.keeps(now, h)
				known[&h.Needs[0]] = k
			}
			one.Keeps = k
		}
		all.holds = append(all.holds, one)
		all.turns[c] = c.turn
	}
	for _, l := range s.lanes {
		for p := range l.classes {
			for _, h := range l.classes[p].old.items {
				add(h, h.client)
			}
		}
	}
	for _, h := range s.rests.items {
		add(h, h.client)
	}
	if guest != nil {
		c := s.clients[guest.Client]
		if c == nil {
			c = &client{turn: s.virtual}
		}
		guest.class, guest.seq, guest.added = min(max(guest.Priority, Urgent), Patient), s.seq+1, now
		add(guest, c)
	}
	return all
}

// line puts what waits in the order in which it would go.
func (a *snapshot) line() []Waiting {
	own := make(map[*client][]*snapped, len(a.turns))
	for i := range a.holds {
		h := &a.holds[i]
		if old := a.oldest[h.class]; old == nil || h.seq < old.seq {
			a.oldest[h.class] = h
		}
		own[h.client] = append(own[h.client], h)
	}
	list, ranks := make([]Waiting, 0, len(a.holds)), make([]rank, 0, len(a.holds))
	for c, holds := range own {
		sort.Slice(holds, func(i, j int) bool {
			return rank{holds[i].class, 0, holds[i].seq}.before(rank{holds[j].class, 0, holds[j].seq})
		})
		turn := a.turns[c]
		for _, h := range holds {
			h.Level = level(h.class, a.oldest[h.class].since, a.now, a.aging)
			list, ranks = append(list, h.Waiting), append(ranks, rank{h.Level, turn, h.seq})
			turn += h.pays
		}
	}
	sort.Sort(byRanks{list, ranks})
	return list
}

// place fills in places, given the order.
func place(list []Waiting) {
	before := map[*Slot]int{}
	for i := range list {
		w := &list[i]
		for _, needs := range w.needs {
			for _, n := range needs {
				w.Place = max(w.Place, before[n.Slot]+1)
			}
		}
		if len(w.needs) == 0 {
			continue
		}
		for _, n := range w.needs[0] {
			before[n.Slot]++
		}
	}
}

type byRanks struct {
	list  []Waiting
	ranks []rank
}

func (b byRanks) Len() int           { return len(b.list) }
func (b byRanks) Less(i, j int) bool { return b.ranks[i].before(b.ranks[j]) }
func (b byRanks) Swap(i, j int) {
	b.list[i], b.list[j] = b.list[j], b.list[i]
	b.ranks[i], b.ranks[j] = b.ranks[j], b.ranks[i]
}
