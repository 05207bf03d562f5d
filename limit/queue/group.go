package queue

// group is the queue of the holds that need the same resources. Only its first hold
// matters to the rest of the site: what blocks the first blocks the others too.
type group struct {
	key        string        // :: its resources' numbers
	resources  [][]*resource // :: alternative → resources
	priorities [numPriorities]priorityQueue
	waiters    []*waiter // its places on waitlists; on agenda.open when nothing is known to block it
	size       int
	blocked    *blockedTime   // the blocked time that counts its holds; nil until it is known what blocks them
	history    []blockedSince // what blocked it, oldest first; the last is blocked
}

// priorityQueue are the holds of one priority in a group.
type priorityQueue struct {
	clients heap[*clientQueue, byServed] // first: the client that was served least
	oldest  heap[*hold, byAge]           // first: the hold that came first
}

// clientQueue are the holds of one client in one priority of a group.
type clientQueue struct {
	client   *client
	group    *group
	priority int
	served   float64 // copy of client.served: the items of a heap may only change one at a time
	holds    heap[*hold, byArrival]

	inPriority int32
}

type byServed struct{}

func (byServed) before(a, b *clientQueue) bool {
	if a.served != b.served {
		return a.served < b.served
	}
	return a.holds.top().seq < b.holds.top().seq
}
func (byServed) place(f *clientQueue) *int32 { return &f.inPriority }

// add puts a hold at its place.
func (g *group) add(h *hold) {
	c := &g.priorities[h.priority]
	before := c.first()
	f := h.client.queue(g, h.priority)
	f.holds.push(h)
	if c.clients.has(f) {
		c.clients.fix(f)
	} else {
		c.clients.push(f)
	}
	c.oldest.push(h)
	h.queue, h.group = f, g
	g.size++
	g.updateWaiters(h.priority, before)
}

// remove takes a hold out of the group, wherever it is.
func (g *group) remove(h *hold) {
	c, f := &g.priorities[h.priority], h.queue
	before := c.first()
	f.holds.remove(h)
	if f.holds.empty() {
		c.clients.remove(f)
		delete(f.client.queues, queueKey{g, h.priority})
	} else {
		c.clients.fix(f)
	}
	c.oldest.remove(h)
	h.queue, h.group = nil, nil
	g.size--
	g.updateWaiters(h.priority, before)
}

// foremost is what orders a priority of a group on the waitlists.
type foremost struct {
	next, oldest *hold
	served       float64
}

func (c *priorityQueue) first() foremost {
	if c.clients.empty() {
		return foremost{}
	}
	f := c.clients.top()
	return foremost{f.holds.top(), c.oldest.top(), f.served}
}

// updateWaiters tells the waitlists where the group waits that one of its priorities has changed,
// if its first or its oldest hold is another one.
func (g *group) updateWaiters(p int, before foremost) {
	if g.priorities[p].first() == before {
		return
	}
	for _, s := range g.waiters {
		s.resource.waitlist.update(s, p)
		s.resource.markDirty()
	}
}
