package queue

import (
	"cmp"
	"time"

	"github.com/abide-proxy/abide/internal/heap"
	"github.com/abide-proxy/abide/status"
)

// waitlist is the order of the groups that one resource blocks. Priorities are kept apart,
// because aging moves them against each other as time passes, while the order in a
// priority only changes when something happens.
type waitlist struct {
	first     [numPriorities]heap.Heap[waiterAt, byRank]
	oldest    [numPriorities]heap.Heap[waiterAt, byOldest]
	size      int
	lastAdded int // index in group.waiters of the waiter that was added last
}

// waiter is the place of a group on the waitlist of a resource.
type waiter struct {
	group    *group
	resource *resource
	first    [numPriorities]int32
	old      [numPriorities]int32
}

// waiterAt is a waiter in the heaps of the priority p.
type waiterAt struct {
	*waiter
	p int
}

// wait puts a group on the resource's waitlist, once.
func (r *resource) wait(g *group) {
	if r.waitlist == nil {
		r.waitlist = r.agenda.borrow()
		r.noteDemand()
	}
	// lastAdded saves a group on a thousand waitlists the search for this waitlist among its
	// waiters.
	if last := r.waitlist.lastAdded; last < len(g.waiters) && g.waiters[last].resource == r {
		return
	}
	// A group is removed and added all the time, so its waiters are used again.
	n := len(g.waiters)
	if n < cap(g.waiters) && g.waiters[:n+1][n] != nil {
		g.waiters = g.waiters[:n+1]
		g.waiters[n].resource = r
	} else {
		g.waiters = append(g.waiters, &waiter{group: g, resource: r})
	}
	r.waitlist.add(g.waiters[n])
	r.waitlist.lastAdded = n
}

// stopWaiting removes a group from all waitlists.
func (g *group) stopWaiting() {
	for _, w := range g.waiters {
		r := w.resource
		r.waitlist.remove(w)
		if r.first == g {
			r.first = nil
			r.markDirty()
		}
		if r.waitlist.size == 0 && r != &r.agenda.open {
			r.agenda.spareWaitlists, r.waitlist = append(r.agenda.spareWaitlists, r.waitlist), nil
			r.markClean()
			r.wakeAt(time.Time{})
			r.noteDemand()
		}
	}
	g.waiters = g.waiters[:0]
}

// byRank orders the groups on a waitlist by what the client that is next in each has had.
type byRank struct{}

func (byRank) Before(a, b waiterAt) bool {
	return byServed{}.Before(a.group.priorities[a.p].clients.Top(), b.group.priorities[b.p].clients.Top())
}
func (byRank) Place(s waiterAt) *int32 { return &s.first[s.p] }

// byOldest orders the groups on a waitlist by their oldest holds.
type byOldest struct{}

func (byOldest) Before(a, b waiterAt) bool {
	return a.group.priorities[a.p].oldest.Top().seq < b.group.priorities[b.p].oldest.Top().seq
}
func (byOldest) Place(s waiterAt) *int32 { return &s.old[s.p] }

// update moves a waiter to its place in one priority.
func (w *waitlist) update(s *waiter, p int) {
	at := waiterAt{s, p}
	if s.group.priorities[p].clients.Empty() {
		w.first[p].Remove(at)
		w.oldest[p].Remove(at)
		return
	}
	w.first[p].Put(at)
	w.oldest[p].Put(at)
}

func (w *waitlist) add(s *waiter) {
	for p := range numPriorities {
		w.update(s, p)
	}
	w.size++
}

func (w *waitlist) remove(s *waiter) {
	for p := range numPriorities {
		w.first[p].Remove(waiterAt{s, p})
		w.oldest[p].Remove(waiterAt{s, p})
	}
	w.size--
}

// rank is the order in which holds go: by level, then by what their client has had, then by
// arrival.
type rank struct {
	level  int
	served float64
	seq    uint64
}

func (r rank) before(o rank) bool {
	return cmp.Or(cmp.Compare(r.level, o.level), cmp.Compare(r.served, o.served), cmp.Compare(r.seq, o.seq)) < 0
}

// level is a priority after aging: one step more urgent for each aging that the oldest hold
// of the priority has waited. All holds of the priority gain by that: if only the old holds
// gained, a client with a long queue would go before fresh requests of another client for no
// other reason than its queue.
func level(p int, oldest, now time.Time, aging time.Duration) int {
	if aging <= 0 {
		return p
	}
	if waited := now.Sub(oldest); waited >= aging {
		return int(max(int64(p)-int64(waited/aging), 0))
	}
	return p
}

// candidate is a group that may be the next, with the priority of its first
// hold.
type candidate struct {
	group    *group
	priority int
	rank     rank
}

func (c candidate) hold() *hold { return c.group.priorities[c.priority].clients.Top().holds.Top() }

// best is the first group of the waitlist and also, which is another group or nil. The
// candidate's group is nil if there is none.
func (w *waitlist) best(now time.Time, aging time.Duration, also *group) candidate {
	var found candidate
	for p := range numPriorities {
		var first *clientQueue
		var oldest *hold
		if !w.first[p].Empty() {
			first = w.first[p].Top().group.priorities[p].clients.Top()
			oldest = w.oldest[p].Top().group.priorities[p].oldest.Top()
		}
		if also != nil && !also.priorities[p].clients.Empty() {
			if f := also.priorities[p].clients.Top(); first == nil || (byServed{}).Before(f, first) {
				first = f
			}
			if h := also.priorities[p].oldest.Top(); oldest == nil || h.seq < oldest.seq {
				oldest = h
			}
		}
		if first == nil {
			continue
		}
		c := candidate{first.group, p, rank{level(p, oldest.added, now, aging), first.served, first.holds.Top().seq}}
		if found.group == nil || c.rank.before(found.rank) {
			found = c
		}
	}
	return found
}

// nextAging returns the time at which the level of a priority on the waitlist changes next; zero is never, or
// if it has holds of one priority only.
func (w *waitlist) nextAging(now time.Time, aging time.Duration) time.Time {
	var next time.Time
	mixed := 0
	for p := range numPriorities {
		if w.oldest[p].Empty() {
			continue
		}
		mixed++
		oldest := w.oldest[p].Top().group.priorities[p].oldest.Top().added
		if aging <= 0 || level(p, oldest, now, aging) == 0 {
			continue
		}
		waited := max(now.Sub(oldest), 0)
		next = status.Earlier(next, oldest.Add((waited/aging+1)*aging))
	}
	if mixed < 2 {
		return time.Time{}
	}
	return next
}

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
			in.clients.Put(f)
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
	s.drop(last, &Refusal{Reason: siteFull})
	return last
}
