package queue

import "time"

// SiteHolds is what waits at one site, in short.
type SiteHolds struct {
	Site    string
	Held    int // requests that wait
	Clients int // whose they are

	// Of the request whose wait began first:
	Client string
	Since  time.Time // when this wait of it began
	Keeps            // with the title of the limit, which does not say whose it is
}

// Waiting visits each site where requests wait. It costs little per site: it looks
// at the first request of each group of requests, not at all of them. visit is called
// without a lock.
func (g *Gate) Waiting(visit func(SiteHolds)) {
	if g.held.Load() == 0 {
		return
	}
	var list []SiteHolds
	g.each(func(s *site) {
		if held, _ := s.sched.Len(); held > 0 {
			list = append(list, s.waiting(time.Now()))
		}
	})
	for _, one := range list {
		visit(one)
	}
}

func (s *site) waiting(now time.Time) SiteHolds {
	var first *Hold
	see := func(h *Hold) {
		if first == nil || h.owner.asked.Before(first.owner.asked) {
			first = h
		}
	}
	for _, l := range s.sched.lanes {
		for p := range l.classes {
			if old := &l.classes[p].old; !old.empty() {
				see(old.top())
			}
		}
	}
	for _, h := range s.sched.rests.items {
		see(h)
	}
	found := SiteHolds{Site: s.name}
	found.Held, _ = s.sched.Len()
	for _, c := range s.sched.clients {
		if c.holds > 0 {
			found.Clients++
		}
	}
	if first != nil {
		found.Client, found.Since, found.Keeps = first.Client, first.owner.asked, s.sched.titled(now, first)
	}
	return found
}

// titled is what keeps a hold, with the title of the limit in place of its name.
func (s *Scheduler) titled(now time.Time, h *Hold) Keeps {
	k, slot := s.keeper(now, h)
	if slot != nil {
		k.Limit = slot.title
	}
	return k
}
