package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/heap"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/status"
)

// need is an amount that a hold takes from a resource.
type need struct {
	resource *resource
	n        int64
	of       Unit
	refuse   bool // see Limit.Refuse
}

// hold is a request that waits or runs. Its caller sets the fields down to owner before
// scheduler.add, and does not change them after that. A hold is added once; when it has been
// granted, scheduler.finish ends it or scheduler.giveBack makes it wait again. The site's lock
// guards it.
type hold struct {
	name     string
	weight   int   // the client's share; 0 is 1
	priority int   // 0 (most urgent) to 7: see clampPriority; level is the priority after aging
	cost     int64 // counts against the client's share; 0 is 1

	// deadline is the time at which the hold stops waiting; zero is never. The hold is refused as soon
	// as it is certain that it would wait for longer.
	deadline time.Time

	// needs are the alternatives, at least one. The hold is granted when all needs of one alternative can
	// be taken at once. No resource is twice in the same alternative.
	needs [][]need

	// order chooses among the alternatives that are ready; nil takes the first.
	order Ranking

	owner   *Permit  // of a Gate; nil in tests of the scheduler alone
	choices *choices // of its needs; nil: no other hold has these needs
	sorted  *choices // the same while it waits for any of them; nil: it waits for each resource by itself

	state   state
	missed  int32 // number of changes of bound
	seq     uint64
	added   time.Time
	refusal *Refusal
	grant   grant // the latest

	// The latest wait:
	entered    time.Time     // when it joined the group where it waits, or waited last
	later      time.Time     // end of its delay
	answerIn   time.Duration // how long after added it waits for the answer of a store, also past its deadline; 0: not past it
	bound      *resource     // the resource that blocked it last
	blockedBy  string        // title of the limit that blocked it for longest, "" if it never waited
	blockedFor time.Duration // by that limit

	// Its place in the queue:
	client                                      *client
	queue                                       *clientQueue
	group                                       *group
	inQueue, inPriority, inDelayed, inDeadlines int32
}

// grant describes one grant of a hold.
type grant struct {
	number     uint64        // of the site's grants
	choice     int32         // :: index into hold.needs
	forced     bool          // nothing was taken for it
	unreserved bool          // the bytes that it took were given back
	offered    bool          // byte requests may take the bytes that it took
	probes     bool          // it was granted in a slow start, and has no answer yet
	taken      time.Time     // when it was granted, or was sent: the time by which meters find what it took
	late       time.Duration // from the grant to taken
	charge     float64       // what was added to client.served for it
}

// at is the time of the grant.
func (g *grant) at() time.Time { return g.taken.Add(-g.late) }

type state uint8

const (
	stateOutside state = iota // not added yet, or over
	stateWaiting              // in its group
	stateDelayed              // until later
	stateGranted
)

// clampPriority brings the priority between mostUrgent and leastUrgent.
func (h *hold) clampPriority() { h.priority = min(max(h.priority, mostUrgent), leastUrgent) }

func (h *hold) fairCost() int64 { return max(h.cost, 1) }

func (h *hold) fairWeight() float64 { return float64(max(h.weight, 1)) }

// ends returns the time at which a hold that waits is refused.
func (h *hold) ends() time.Time {
	if by := h.added.Add(h.answerIn); h.answerIn > 0 && by.After(h.deadline) {
		return by
	}
	return h.deadline
}

// want adds what a hold needs, times by (1 or -1), to what is queued at its resources.
func (h *hold) want(by int64) {
	if h.sorted != nil {
		h.sorted.want(h.priority, by)
		return
	}
	for _, alternative := range h.needs {
		for _, n := range alternative {
			n.resource.want(h.priority, by, n.n)
		}
	}
}

// answered counts the answer of a site to a granted request that is not over yet, so that
// requests which wait for that answer in a slow start can go before the body has passed. A
// refusal is counted by finish or giveBack, together with its cooldown.
func (h *hold) answered(now time.Time, o limit.Outcome) {
	if h.state == stateGranted && o != limit.Refused {
		h.countAnswer(now, o == limit.Success)
	}
}

// takes tells whether a granted hold has taken bytes of a resource.
func (h *hold) takes(of *resource) bool {
	return slices.ContainsFunc(h.needs[h.grant.choice], func(n need) bool { return n.of == Bytes && n.n > 0 && n.resource == of })
}

// countAnswer counts the answer to a hold in all slow starts that it was granted in, once.
func (h *hold) countAnswer(now time.Time, success bool) {
	if !h.grant.probes {
		return
	}
	h.grant.probes = false
	for _, n := range h.needs[h.grant.choice] {
		if n.resource.cooldown.countAnswer(now, h.grant.number, success) {
			n.resource.markDirty()
		}
	}
}

// noteBlocked records a limit that has blocked the hold, unless another limit did for longer.
func (h *hold) noteBlocked(limit string, kept time.Duration) {
	if kept >= h.blockedFor {
		h.blockedBy, h.blockedFor = limit, kept
	}
}

// mostMisses is the number of times that one resource is found ready and another not until a hold may
// reserve the first.
const mostMisses = 8

// misses tells whether a hold may reserve the resources that are ready while it waits for
// the rest. Two meters that other requests empty in turns would block a request that needs
// both forever. So a hold that has often found one ready and the other not may block the
// first for other holds, for an eighth of the time that it has waited. So may one that only waits for the first
// answer of its route, which is soon there: less urgent holds would use up what they share meanwhile.
func (h *hold) misses(now time.Time, only block) bool {
	if len(h.needs) > 1 || only.behind {
		return false
	}
	if h.bound != nil && h.bound != only.resource {
		h.missed++
	}
	h.bound = only.resource
	return h.missed >= mostMisses && only.at.Sub(now) <= now.Sub(h.added)/8 || only.resource.unknown(now, 1)
}

// byArrival orders the holds of a client queue.
type byArrival struct{}

func (byArrival) Before(a, b *hold) bool { return a.seq < b.seq }
func (byArrival) Place(h *hold) *int32   { return &h.inQueue }

// byAge orders the holds of one priority of a group.
type byAge struct{}

func (byAge) Before(a, b *hold) bool { return a.seq < b.seq }
func (byAge) Place(h *hold) *int32   { return &h.inPriority }

// byDelay orders the delayed holds by their return.
type byDelay struct{}

func (byDelay) Before(a, b *hold) bool { return a.later.Before(b.later) }
func (byDelay) Place(h *hold) *int32   { return &h.inDelayed }

// byDeadline orders the holds that do not wait forever.
type byDeadline struct{}

func (byDeadline) Before(a, b *hold) bool { return a.ends().Before(b.ends()) }
func (byDeadline) Place(h *hold) *int32   { return &h.inDeadlines }

// group is the queue of the holds that need the same resources. Only its first hold
// matters to the rest of the site: what blocks the first blocks the others too.
type group struct {
	key        string   // :: its resources' numbers
	choices    *choices // its holds wait for any of these; nil: for each resource by itself
	priorities [numPriorities]priorityQueue
	waiters    []*waiter // its places on waitlists; on agenda.open when nothing is known to block it
	size       int
	history    []blockedSince // what blocked it, oldest first; the last counts its holds
}

// priorityQueue are the holds of one priority in a group.
type priorityQueue struct {
	clients heap.Heap[*clientQueue, byServed] // first: the client that was served least
	oldest  heap.Heap[*hold, byAge]           // first: the hold that came first
}

// clientQueue are the holds of one client in one priority of a group.
type clientQueue struct {
	client   *client
	group    *group
	priority int
	served   float64 // copy of client.served: the items of a heap may only change one at a time
	holds    heap.Heap[*hold, byArrival]

	inPriority int32
}

type byServed struct{}

func (byServed) Before(a, b *clientQueue) bool {
	if a.served != b.served {
		return a.served < b.served
	}
	return a.holds.Top().seq < b.holds.Top().seq
}

func (byServed) Place(f *clientQueue) *int32 { return &f.inPriority }

// add puts a hold at its place.
func (g *group) add(h *hold) {
	c := &g.priorities[h.priority]
	before := c.first()
	f := h.client.queue(g, h.priority)
	f.holds.Push(h)
	c.clients.Put(f)
	c.oldest.Push(h)
	h.queue, h.group = f, g
	g.size++
	g.updateWaiters(h.priority, before)
}

// remove takes a hold out of the group, wherever it is.
func (g *group) remove(h *hold) {
	c, f := &g.priorities[h.priority], h.queue
	before := c.first()
	f.holds.Remove(h)
	if f.holds.Empty() {
		c.clients.Remove(f)
		delete(f.client.queues, queueKey{g, h.priority})
	} else {
		c.clients.Put(f)
	}
	c.oldest.Remove(h)
	h.queue, h.group = nil, nil
	g.size--
	g.updateWaiters(h.priority, before)
}

// foremost orders a priority of a group on the waitlists.
type foremost struct {
	next, oldest *hold
	served       float64
}

func (c *priorityQueue) first() foremost {
	if c.clients.Empty() {
		return foremost{}
	}
	f := c.clients.Top()
	return foremost{f.holds.Top(), c.oldest.Top(), f.served}
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

// longest returns the limit that blocked the group for longest between two times, and for
// how long; of limits with equal times, the last. It allocates nothing, because it is called
// for each hold that leaves.
func (g *group) longest(from, to time.Time) (limit string, longest time.Duration) {
	if len(g.history) == 0 {
		return "", 0
	}
	if last := g.history[len(g.history)-1]; !last.from.After(from) || !to.After(from) {
		return last.time.name, max(to.Sub(from), 0) // the usual case
	}
	var total [mostBlockedSince]struct {
		time *blockedTime
		kept time.Duration
	}
	for i := len(g.history) - 1; i >= 0 && to.After(from); i-- {
		blockedSince := g.history[i]
		begun := status.Later(from, blockedSince.from)
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
	return limit, longest
}

// countHeld changes the number of the group's holds that are counted where it is known what blocks them.
func (g *group) countHeld(now time.Time, by int) {
	if n := len(g.history); n > 0 {
		g.history[n-1].time.change(now, by)
	}
}

// countBlocked adds the holds of a group to the blocked time of a block: what blocks the
// first hold blocks the others too.
func (g *group) countBlocked(now time.Time, b block) {
	t := b.resource.blockedTime()
	if b.storing {
		t = b.resource.agenda.blockedTimes.of(storeLimit)
	}
	if n := len(g.history); n > 0 && g.history[n-1].time == t {
		return
	}
	g.countHeld(now, -g.size)
	t.change(now, g.size)
	if len(g.history) == mostBlockedSince {
		g.history = g.history[:copy(g.history, g.history[mostBlockedSince/2:])]
	}
	g.history = append(g.history, blockedSince{t, now})
}
