package queue

import "time"

// SiteWaiting is what waits at one site, in short.
type SiteWaiting struct {
	Site    string
	Held    int // requests that wait
	Clients int // whose they are

	// Of the request whose wait began first:
	Client  string
	Since   time.Time // when this wait of it began
	Blocker           // with the title of the limit, which does not say whose it is
}

// VisitWaiting visits each site where requests wait. It costs little per site: it looks
// at the first request of each group of requests, not at all of them. visit is called
// without a lock.
func (g *Gate) VisitWaiting(visit func(SiteWaiting)) {
	if g.held.Load() == 0 {
		return
	}
	var list []SiteWaiting
	g.each(func(s *site) {
		if held, _ := s.sched.size(); held > 0 {
			list = append(list, s.waiting(g.clock.Now()))
		}
	})
	for _, one := range list {
		visit(one)
	}
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
			if old := &g.priorities[p].oldest; !old.empty() {
				see(old.top())
			}
		}
	}
	for _, h := range s.sched.delayed.items {
		see(h)
	}
	found := SiteWaiting{Site: s.name}
	found.Held, _ = s.sched.size()
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

// HeldRequest is one request that waits, as shown to the operator. Counts are by HeldCount,
// and a summary of a site is a SiteWaiting.
type HeldRequest struct {
	Site, Client string
	Priority     int
	Since        time.Time
	heldView
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
			list = append(list, HeldRequest{Site: s.name, Client: w.hold.name, Priority: w.priority, Since: w.since, heldView: w})
		}
	}
	return list
}

// HeldCount is the key by which the requests that wait are counted: those of one client and
// priority at one site.
type HeldCount struct {
	Site, Client string
	Priority     int
}

// HeldCounts counts the requests that wait at a site; "" is every site. It asks no limit.
func (g *Gate) HeldCounts(name string) map[HeldCount]int {
	counts := map[HeldCount]int{}
	if g.held.Load() == 0 {
		return counts
	}
	g.each(func(s *site) {
		if name != "" && s.name != name {
			return
		}
		for _, h := range s.sched.all() {
			counts[HeldCount{s.name, h.name, h.priority}]++
		}
	})
	return counts
}
