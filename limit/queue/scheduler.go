// Package queue decides which request goes next and when.
//
// A Gate holds the requests of many sites, with locks, timers and contexts:
//
//	permit, err := gate.Wait(ctx, queue.Request{Site: "example.com", Priority: 3, Limits: …})
//	defer permit.Finish(queue.Result{Outcome: limit.Success})
//
// Each site has a scheduler, which is a state machine without a clock. It takes the time
// as an argument, does no I/O and is guarded by the lock of its site:
//
//	s := newScheduler(30 * time.Second)
//	all := s.newResource("900 requests per 15m", meter, nil)
//	h := &hold{name: "news", priority: 3, needs: [][]need{{{resource: all, n: 1}}}}
//	s.add(now, h)
//	d := s.next(now) // what is granted now, what is refused, when to ask again
//	s.finish(now, h, Result{Outcome: limit.Success})
package queue

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/abide-proxy/abide/internal/heap"
	"github.com/abide-proxy/abide/limit"
)

// scheduler is the queue of one site. It takes the time as an argument and does
// no I/O. The lock of its site guards it. newScheduler makes one.
type scheduler struct {
	// aging is the time the oldest hold of a priority waits until its priority
	// gains a step; 0 is never.
	aging time.Duration
	// live tells whether the caller of a hold still waits. A hold whose caller has gone
	// leaves without taking anything. nil is always.
	live func(*hold) bool

	agenda    agenda
	clients   clients
	byteQueue byteQueue

	resources map[*resource]struct{}
	groups    map[string]*group
	delayed   heap.Heap[*hold, byDelay]
	seq       uint64
	lastID    uint32

	held, granted int // holds that wait, and requests that are granted and not finished

	// Deadlines:
	ends heap.Heap[*hold, byDeadline] // the holds that do not wait forever

	now       time.Time // of the last event
	decisions decisions

	// Scratch memory of a single call:
	key    []byte
	ready  []int
	blocks blocks
}

// decisions are the results of a call of scheduler.next. The slices are valid until the next call of
// scheduler.next.
type decisions struct {
	granted []*hold
	refused []*hold // hold.refusal says why
	bytes   []*ByteWait
	again   time.Time // when to ask again if nothing else happens; zero is never
}

// newScheduler makes the queue of one site.
func newScheduler(aging time.Duration) *scheduler {
	s := &scheduler{aging: aging}
	s.byteQueue.agenda = &s.agenda
	s.agenda.open = resource{agenda: &s.agenda, name: "open"}
	return s
}

// newResource makes a resource. The meter may be nil for something that only cools; fresh
// makes another meter like it, unused, and may be nil: then waits are only estimated as far
// as the meter tells.
func (s *scheduler) newResource(name string, m limit.Meter, fresh func() limit.Meter) *resource {
	s.lastID++
	res := &resource{name: name, title: name, meter: m, fresh: fresh, id: s.lastID, agenda: &s.agenda}
	res.remote, _ = m.(Remote)
	if s.resources == nil {
		s.resources = map[*resource]struct{}{}
	}
	s.resources[res] = struct{}{}
	return res
}

// forget drops a resource if nothing would change by making it anew, and tells
// whether it did.
func (s *scheduler) forget(now time.Time, res *resource) bool {
	if !res.forgettable(now) {
		return false
	}
	delete(s.resources, res)
	return true
}

var errNotGranted = errors.New("the hold is not granted")

func (s *scheduler) stamp(now time.Time, h *hold) {
	s.seq++
	h.clampPriority()
	h.seq, h.added = s.seq, now
	h.bound, h.missed, h.refusal = nil, 0, nil
}

// add puts a hold into the queue.
func (s *scheduler) add(now time.Time, h *hold) {
	s.setClock(now)
	s.stamp(now, h)
	s.countWaiting(h)
	s.enter(h)
}

// countWaiting counts a hold among those that wait, wherever it will stand.
func (s *scheduler) countWaiting(h *hold) {
	s.held++
	c := s.clients.of(h.name)
	c.holds++
	c.cost += h.fairCost()
	c.share = h.fairWeight()
	h.client = c
	s.want(h)
	if !h.deadline.IsZero() {
		s.ends.Push(h)
	}
}

// want counts what a hold needs at its resources, and finds out where it waits.
func (s *scheduler) want(h *hold) {
	if h.sorted = s.choices(h); h.sorted != nil && h.sorted.each {
		h.sorted = nil
	}
	h.want(1)
}

// uncountWaiting is the opposite of countWaiting.
func (s *scheduler) uncountWaiting(h *hold) {
	s.held--
	c := h.client
	c.holds--
	c.cost -= h.fairCost()
	h.want(-1)
	s.ends.Remove(h)
	h.answerIn = 0
}

// enter puts a hold in its group, a new one if need be.
func (s *scheduler) enter(h *hold) {
	key := s.key[:0]
	if h.sorted != nil {
		key = binary.AppendUvarint(append(key, 0), uint64(h.sorted.waiting.id))
	} else {
		for _, alternative := range h.needs {
			for _, n := range alternative {
				id := uint64(n.resource.id) << 1
				if n.refuse {
					id++ // the first of those that do not wait says nothing of those that do
				}
				key = binary.AppendUvarint(key, id)
			}
			key = append(key, 0) // no resource has the number zero
		}
	}
	s.key = key
	g := s.groups[string(key)]
	if g == nil {
		g = &group{key: string(key), choices: h.sorted}
		if h.sorted != nil {
			h.sorted.group = g
		}
		if s.groups == nil {
			s.groups = map[string]*group{}
		}
		s.groups[g.key] = g
		s.agenda.open.wait(g)
		s.agenda.open.markDirty()
	}
	h.entered = s.now
	g.add(h)
	g.countHeld(s.now, 1)
	h.state = stateWaiting
}

// leave takes a hold out of wherever it waits.
func (s *scheduler) leave(h *hold) {
	if h.state == stateDelayed {
		s.delayed.Remove(h)
		s.agenda.blockedTimes.of(retryLimit).change(s.now, -1)
		h.noteBlocked(retryLimit, s.now.Sub(h.entered))
		return
	}
	g := h.group
	g.remove(h)
	g.countHeld(s.now, -1)
	h.noteBlocked(g.longest(h.entered, s.now))
	if g.size == 0 {
		g.stopWaiting()
		delete(s.groups, g.key)
		if g.choices != nil {
			g.choices.group = nil
		}
	}
}

// cancel takes a hold that waits out of the queue, and tells whether it did.
// Nothing is spent by it.
func (s *scheduler) cancel(now time.Time, h *hold) bool {
	if h.state != stateWaiting && h.state != stateDelayed {
		return false
	}
	s.setClock(now)
	s.drop(h, nil)
	return true
}

// finish ends a granted request, with what it truly cost.
func (s *scheduler) finish(now time.Time, h *hold, r Result) error {
	if h.state != stateGranted {
		return errNotGranted
	}
	s.release(now, h, r)
	if r.Unsent {
		h.refund()
	}
	h.state = stateOutside
	if h.client != nil {
		s.clients.tidy(h.client)
	}
	return nil
}

func (s *scheduler) release(now time.Time, h *hold, r Result) {
	s.byteQueue.withdraw(h)
	h.countAnswer(now, r.Outcome == limit.Success && !r.Unsent)
	for _, n := range h.needs[h.grant.choice] {
		if h.grant.forced || h.grant.unreserved && n.of == Bytes {
			n.n = 0
		}
		n.resource.finish(now, h, n, r)
	}
	s.granted--
	h.grant.forced, h.grant.unreserved = false, false
}

// giveBack puts a granted request that has to be sent again back at its place: it keeps
// its priority, its arrival and its place among its client's requests. It is delayed until
// later, if that is in the future. The result is that of the try that is over, and needs
// are those of the next try.
func (s *scheduler) giveBack(now time.Time, h *hold, r Result, later time.Time, needs [][]need) error {
	if h.state != stateGranted {
		return errNotGranted
	}
	s.setClock(now)
	s.release(now, h, r)
	h.state, h.needs, h.blockedFor = stateOutside, needs, 0
	if refusal := neverFits(now, needs); refusal != nil {
		return refusal
	}
	if !h.deadline.IsZero() && later.After(h.deadline) {
		return &Refusal{Reason: TooLong, Limit: "retry", RetryAt: later}
	}
	h.refusal = nil
	h.refund()
	s.countWaiting(h)
	if later.After(now) {
		h.later, h.entered, h.state = later, s.now, stateDelayed
		s.delayed.Push(h)
		s.agenda.blockedTimes.of(retryLimit).change(s.now, 1)
		return nil
	}
	s.enter(h)
	return nil
}

// replan gives a hold that waits other needs, after a reload. It keeps its place,
// unless it could never go: then it is refused, and false is answered.
func (s *scheduler) replan(now time.Time, h *hold, needs [][]need) bool {
	if h.state != stateWaiting && h.state != stateDelayed {
		return true // a granted one finishes with what it took
	}
	s.setClock(now)
	if r := neverFits(now, needs); r != nil {
		s.drop(h, r)
		return false
	}
	queued := h.state == stateWaiting
	if queued {
		s.leave(h)
	}
	h.want(-1)
	h.needs = needs
	s.want(h)
	if queued {
		s.enter(h)
	}
	return true
}

// all are the holds that wait.
func (s *scheduler) all() []*hold {
	list := make([]*hold, 0, s.held)
	for _, g := range s.groups {
		for p := range g.priorities {
			list = append(list, g.priorities[p].oldest.Items()...)
		}
	}
	return append(list, s.delayed.Items()...)
}

// setClock is the time of what happens, which never goes back.
func (s *scheduler) setClock(now time.Time) {
	if now.After(s.now) {
		s.now = now
	}
}

// restsAnd tells whether nothing waits or is in flight, and all resources are so.
func (s *scheduler) restsAnd(so func(*resource, time.Time) bool, now time.Time) bool {
	if s.held+s.granted > 0 {
		return false
	}
	for res := range s.resources {
		if !so(res, now) {
			return false
		}
	}
	return true
}

// recheckExternal marks the resources dirty that Gate.UpdateExternal may have changed.
func (s *scheduler) recheckExternal() {
	s.agenda.bytesChanged = true
	for res := range s.resources {
		if res.external || res.remote != nil {
			res.markDirty()
		}
	}
}

// clear drops the holds of the latest decisions, so that an inactive site keeps no
// requests in memory.
func (d *decisions) clear() {
	clear(d.granted)
	clear(d.refused)
	clear(d.bytes)
	d.granted, d.refused, d.bytes = d.granted[:0], d.refused[:0], d.bytes[:0]
}

// agenda lists what the scheduler has to look at next. Resources report to it.
type agenda struct {
	dirty []*resource                  // resources whose first group may go
	wakes heap.Heap[*resource, byWake] // resources that time alone makes dirty
	open  resource                     // no real one: its waitlist has the groups that nothing is known to block

	demanding []*resource // resources whose demand may have changed

	bytesChanged   bool         // a byte request may be granted
	grants         uint64       // number of grants so far
	blockedTimes   blockedTimes // by limit
	spareWaitlists []*waitlist  // empty ones, to be used again
}

// tellDemand tells the meters whose demand may have changed how many units wait for them
// now.
func (a *agenda) tellDemand(now time.Time) {
	for i, res := range a.demanding {
		a.demanding[i], res.noted = nil, false
		if res.remote != nil {
			res.tellDemand(now, res.demandNow())
		}
	}
	a.demanding = a.demanding[:0]
}

// firstDirty is the group that comes first of those on the waitlists of dirty resources.
// Its group is nil if there is none.
func (a *agenda) firstDirty(now time.Time, aging time.Duration) candidate {
	var found candidate
	for i := 0; i < len(a.dirty); {
		res := a.dirty[i]
		if res.waitlist == nil || res.waitlist.size == 0 {
			res.markClean() // puts another resource at i
			continue
		}
		if c := res.waitlist.best(now, aging, nil); found.group == nil || c.rank.before(found.rank) {
			found = c
		}
		i++
	}
	return found
}

// borrow returns an empty waitlist, a spare one if there is any.
func (a *agenda) borrow() *waitlist {
	last := len(a.spareWaitlists) - 1
	if last < 0 {
		return new(waitlist)
	}
	w := a.spareWaitlists[last]
	a.spareWaitlists[last] = nil
	a.spareWaitlists = a.spareWaitlists[:last]
	return w
}
