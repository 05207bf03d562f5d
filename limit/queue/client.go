package queue

import "time"

// client is one client of a site, for fairness between the clients.
type client struct {
	name   string
	served float64 // cost of its grants divided by its weight: the client with the least is next
	holds  int     // how many of its holds wait or are delayed
	cost   int64   // of these holds
	share  float64 // its weight, by its last hold
	queues map[queueKey]*clientQueue
}

type queueKey struct {
	group    *group
	priority int
}

func (c *client) queue(g *group, p int) *clientQueue {
	key := queueKey{g, p}
	f := c.queues[key]
	if f == nil {
		f = &clientQueue{client: c, group: g, priority: p, served: c.served}
		if c.queues == nil {
			c.queues = map[queueKey]*clientQueue{}
		}
		c.queues[key] = f
	}
	return f
}

// setServed changes what the client has had, in every group where it waits: usually one or
// two, at most the routes of the site.
func (c *client) setServed(served float64) {
	c.served = served
	for _, f := range c.queues {
		in := &f.group.priorities[f.priority]
		before := in.first()
		f.served = served
		if in.clients.Has(f) {
			in.clients.Fix(f)
			f.group.updateWaiters(f.priority, before)
		}
	}
}

func (h *hold) refund() {
	if h.client != nil && h.grant.charge > 0 {
		h.client.setServed(h.client.served - h.grant.charge)
		h.grant.charge = 0
	}
}

// clients are the clients of a site that have a hold or have had more than others.
type clients struct {
	byName map[string]*client
	served float64 // the start of the latest grant: what a new client begins with
	tidied int     // number of clients after the last tidyAll
}

// of is the client of a name, a new one if need be.
func (all *clients) of(name string) *client {
	c := all.byName[name]
	if c == nil {
		all.tidyAll()
		c = &client{name: name, served: all.served}
		if all.byName == nil {
			all.byName = map[string]*client{}
		}
		all.byName[name] = c
	}
	return c
}

// tidy forgets a client without holds that has not had more than others.
func (all *clients) tidy(c *client) {
	if c != nil && c.holds == 0 && (c.served <= all.served || len(all.byName) > 4096) {
		delete(all.byName, c.name)
	}
}

// tidyAll calls tidy for all clients, if there are twice as many as after the last call.
func (all *clients) tidyAll() {
	if len(all.byName) < max(64, 2*all.tidied) {
		return
	}
	for _, c := range all.byName {
		all.tidy(c)
	}
	all.tidied = len(all.byName)
}

// fairShare is the part of what waits that goes before a new hold of a client: of
// others no more than their share while its own are served.
func (all *clients) fairShare(h *hold) float64 {
	cost, total, before := float64(h.fairCost()), 0.0, 0.0
	if c := all.byName[h.name]; c != nil {
		cost += float64(c.cost)
		before = float64(c.cost)
	}
	for name, c := range all.byName {
		total += float64(c.cost)
		if name != h.name {
			before += min(float64(c.cost), cost*c.share/h.fairWeight())
		}
	}
	if total == 0 {
		return 0
	}
	return min(before/total, 1)
}

// greediest is the client with the most holds for its weight; nil if every other client
// has fewer than the client of that name would have with one more.
func (all *clients) greediest(name string, weight int) (greedy *client) {
	load := 1.0
	if c := all.byName[name]; c != nil {
		load += float64(c.holds)
	}
	load /= float64(max(weight, 1))
	for _, c := range all.byName {
		switch {
		case c.name == name || len(c.queues) == 0 || float64(c.holds-1)/c.share < load:
		case greedy == nil || float64(c.holds)/c.share > float64(greedy.holds)/greedy.share:
			greedy = c
		}
	}
	return greedy
}

// evict makes room in a full queue for a hold of a client: it removes the newest of the
// least urgent holds of the client with the most holds for its weight, and returns it. It
// returns nil if every other client would have fewer holds for its weight than this
// client. Without evict, a client that fills the queue would exclude all others.
func (s *scheduler) evict(now time.Time, name string, weight int) *hold {
	s.setClock(now)
	greedy := s.clients.greediest(name, weight)
	if greedy == nil {
		return nil
	}
	var last *hold
	for _, f := range greedy.queues {
		for _, h := range f.holds.Items() {
			if last == nil || h.priority > last.priority || h.priority == last.priority && h.seq > last.seq {
				last = h
			}
		}
	}
	s.refuse(last, &Refusal{Reason: siteFull})
	s.decisions.refused = s.decisions.refused[:len(s.decisions.refused)-1] // the caller has it
	return last
}
