package queue

import (
	"slices"
	"sort"
	"time"

	"github.com/abide-proxy/abide/status"
)

// SiteWaiting summarizes the requests that wait at one site.
type SiteWaiting struct {
	Site    string
	Held    int // requests that wait
	Clients int // whose they are

	// Last returns when the last of them is expected to go; zero: not known. It plays what waits through, and must be called without a lock.
	Last func() time.Time

	// Of the request whose wait began first:
	Client  string
	Since   time.Time // when this wait of it began
	Blocker           // with the title of the limit, which does not say whose it is
}

// Waiting sums up the requests that wait at each site. It costs little per site: it looks
// at the first request of each group of requests, not at all of them.
func (g *Gate) Waiting() (list []SiteWaiting) {
	if g.held.Load() == 0 {
		return nil
	}
	g.each(func(s *site, now time.Time) {
		if s.sched.held > 0 {
			list = append(list, s.waiting(now))
		}
	})
	return list
}

func (s *site) waiting(now time.Time) SiteWaiting {
	var first *hold
	see := func(h *hold) {
		if first == nil || h.owner.asked.Before(first.owner.asked) {
			first = h
		}
	}
	for _, g := range s.sched.groups {
		for p := range g.priorities {
			if old := &g.priorities[p].oldest; !old.Empty() {
				see(old.Top())
			}
		}
	}
	for _, h := range s.sched.delayed.Items() {
		see(h)
	}
	found := SiteWaiting{Site: s.name, Last: s.last, Held: s.sched.held}
	for _, c := range s.sched.clients.byName {
		if c.holds > 0 {
			found.Clients++
		}
	}
	if first != nil {
		found.Client, found.Since, found.Blocker = first.name, first.owner.asked, titledBlocker(now, first)
	}
	return found
}

// HeldRequest is one request that waits, as shown to the operator. Counts are by status.HeldCount,
// and a summary of a site is a SiteWaiting.
type HeldRequest struct {
	Site, Client string
	Priority     int
	Since        time.Time
	Blocker
	Place int       // 1 is next, among those that need the same limits
	ETA   time.Time // when it goes; zero: not known
}

// HeldRequests are the requests that wait at a site, in order; "" is every site. When each goes
// is found out without the lock of its site, which is only taken to look at its limits.
func (g *Gate) HeldRequests(name string) []HeldRequest {
	var list []HeldRequest
	for _, s := range g.sites() {
		if name != "" && s.name != name {
			continue
		}
		for _, w := range s.predicted() {
			list = append(list, HeldRequest{s.name, w.was.name, w.was.priority, w.was.added, w.Blocker, w.Place, w.ETA})
		}
	}
	return list
}

// HeldCounts counts the requests that wait at a site; "" is every site. It asks no limit.
func (g *Gate) HeldCounts(name string) map[status.HeldCount]int {
	counts := map[status.HeldCount]int{}
	if g.held.Load() == 0 {
		return counts
	}
	g.each(func(s *site, _ time.Time) {
		if name != "" && s.name != name {
			return
		}
		for _, h := range s.sched.all() {
			counts[status.HeldCount{Site: s.name, Client: h.name, Priority: h.priority}]++
		}
	})
	return counts
}

// predicted are the requests that wait, in order, with when each goes. That is found out
// without the lock of the site, which is only taken to look at its limits.
func (s *site) predicted() []heldView {
	_, now := s.lock()
	if s.sched.held == 0 || s.gone {
		s.mu.Unlock()
		return nil
	}
	all := s.sched.snapshot(now, nil)
	s.mu.Unlock()
	return all.inOrder(s.locked)
}

// last returns when the last of the requests that wait is expected to go; zero: not known.
func (s *site) last() (last time.Time) {
	for _, w := range s.predicted() {
		if w.ETA.IsZero() {
			return time.Time{}
		}
		last = status.Later(last, w.ETA)
	}
	return last
}

// locked calls look under the lock of the site.
func (s *site) locked(look func(now time.Time)) {
	_, now := s.lock()
	defer s.mu.Unlock()
	look(now)
}

// refuseAfter refuses the requests that cannot go before the end, or only one that has come back, whose caller
// does not wait yet. It finds them without the lock of the site; requests that have gone meanwhile are not refused.
func (s *site) refuseAfter(end time.Time, only *hold) (refused int) {
	late := slices.DeleteFunc(s.predicted(), func(w heldView) bool {
		return !w.Soonest.After(end) || only != nil && w.hold != only
	})
	if len(late) == 0 {
		return 0
	}
	_, now := s.lock()
	defer s.mu.Unlock()
	for _, w := range late {
		if w.hold.grant.number == w.was.grant.number && s.sched.cancel(now, w.hold) {
			w.hold.refusal = &Refusal{Reason: Draining}
			if only == nil {
				w.hold.owner.wake()
			}
			refused++
		}
	}
	s.step(now)
	return refused
}

// heldView is one hold as an operator sees it.
type heldView struct {
	hold *hold
	was  hold // the hold at the time of the snapshot
	Blocker
	rank  rank      // by its level
	Place int       // 1 is next, among those that need the same resource
	ETA   time.Time // when it goes; zero: not known

	// Soonest is the earliest time at which it can go, if no hold before it leaves.
	Soonest time.Time
	longest string // name of the resource that it has waited for longest when it goes; "": not known
	turn    int    // its number among the holds that go, in the order in which they go; 0: not known
}

// snapshot lists the holds of a site at one moment, in no order. It is taken under the lock
// of the site and may be used without the lock, but for the holds.
type snapshot struct {
	now    time.Time
	aging  time.Duration
	holds  []heldView
	turns  map[*client]float64
	served float64 // clients.served
	oldest [numPriorities]*heldView
}

// snapshot copies what waits, and adds guest, a hold that is not in the queue; nil adds none.
func (s *scheduler) snapshot(now time.Time, guest *hold) *snapshot {
	all := &snapshot{
		now: now, aging: s.aging, served: s.clients.served, turns: map[*client]float64{},
		holds: make([]heldView, 0, s.held+1),
	}
	known := map[*[]need]Blocker{} // :: needs that several holds have → what blocks those that are not delayed
	add := func(h *hold, c *client) {
		item := heldView{hold: h, was: *h}
		item.was.client = c
		if h.state == stateDelayed {
			item.Blocker, _ = blocker(now, h)
		} else {
			k, seen := known[&h.needs[0]]
			if !seen {
				k, _ = blocker(now, h)
				known[&h.needs[0]] = k
			}
			item.Blocker = k
		}
		all.holds = append(all.holds, item)
		all.turns[c] = c.served
	}
	for _, h := range s.all() {
		add(h, h.client)
	}
	if guest != nil {
		c := s.clients.byName[guest.name]
		if c == nil {
			c = &client{served: s.clients.served}
		}
		guest.clampPriority()
		guest.seq, guest.added = s.seq+1, now
		add(guest, c)
	}
	return all
}

// inOrder returns the holds in the order in which they go, with when each goes.
func (a *snapshot) inOrder(live liveView) []heldView {
	a.predict(live)
	line := a.line()
	sort.SliceStable(line, func(i, j int) bool { return line[i].turn > 0 && (line[j].turn == 0 || line[i].turn < line[j].turn) })
	place(line)
	for i := range line {
		if w := &line[i]; w.Place > 1 && w.was.state != stateDelayed && w.longest != "" && w.longest != w.Limit {
			w.Blocker = Blocker{Limit: w.longest, Until: w.ETA, Behind: true, Any: w.Any, Title: w.Title} // those before it use that up
		}
	}
	return line
}

// line puts what waits in the order in which it would go if every resource had enough.
func (a *snapshot) line() []heldView {
	byClient := make(map[*client][]*heldView, len(a.turns))
	for i := range a.holds {
		h := &a.holds[i]
		if old := a.oldest[h.was.priority]; old == nil || h.was.seq < old.was.seq {
			a.oldest[h.was.priority] = h
		}
		byClient[h.was.client] = append(byClient[h.was.client], h)
	}
	list := make([]heldView, 0, len(a.holds))
	for c, holds := range byClient {
		sort.Slice(holds, func(i, j int) bool {
			return rank{holds[i].was.priority, 0, holds[i].was.seq}.before(rank{holds[j].was.priority, 0, holds[j].was.seq})
		})
		turn := a.turns[c]
		for _, h := range holds {
			h.rank = rank{level(h.was.priority, a.oldest[h.was.priority].was.added, a.now, a.aging), turn, h.was.seq}
			list = append(list, *h)
			turn += float64(h.was.fairCost()) / h.was.fairWeight()
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].rank.before(list[j].rank) })
	return list
}

// place fills in places, given the order.
func place(list []heldView) {
	before := map[*resource]int{}
	for i := range list {
		w := &list[i]
		for _, needs := range w.was.needs {
			for _, n := range needs {
				w.Place = max(w.Place, before[n.resource]+1)
			}
		}
		for _, n := range w.was.needs[0] {
			before[n.resource]++
		}
	}
}
