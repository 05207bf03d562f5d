// Package queue decides who goes next and when.
//
// A Scheduler is one site's queue as a state machine without a clock:
//
//	s := queue.NewScheduler(queue.Options{Aging: 30 * time.Second})
//	site := s.Slot("900 requests per 15m", meter)
//	hold := &queue.Hold{Client: "news", Priority: 3, Needs: [][]queue.Need{{{Slot: site, N: 1}}}}
//	err := s.Add(now, hold)
//	turn := s.Next(now) // what goes now, what was refused, when to ask again
//	s.Finish(now, hold, queue.Result{Outcome: limit.Success})
//
// A Gate is the shell around many of them, with locks, timers and contexts:
//
//	permit, err := gate.Wait(ctx, queue.Request{Site: "example.com", Priority: 3, Needs: …})
//	defer permit.Finish(queue.Result{Outcome: limit.Success})
package queue

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Options of a Scheduler.
type Options struct {
	// Aging is how long the oldest hold of a priority waits until its priority
	// gains a step; 0 is never.
	Aging time.Duration

	// Live tells whether anybody still waits for a hold. One that nobody does
	// leaves without taking anything. nil is always.
	Live func(*Hold) bool
}

// Scheduler is the queue of one site. It takes the time as an argument and does
// no I/O. It is not safe for concurrent use. NewScheduler makes one.
type Scheduler struct {
	options Options

	slots   map[*Slot]struct{}
	lanes   map[string]*lane
	clients map[string]*client
	virtual float64 // the turn of the last grant
	seq     uint64
	grants  uint64 // how many there were
	slotID  uint32

	waiting, resting, granted int

	now   time.Time // of the last event
	tolls map[string]*toll

	blocking []*Slot   // that keep holds and may change with Gate.With, and some that did
	listed   int       // how many were left by the last look at them
	minded   []*Slot   // whose meters may have to hear of another demand
	draws    []*draw   // that wait, in order of arrival
	lent     []*Hold   // whose bytes they may have
	thirsty  []*Slot   // that keep some of them
	sated    []*Slot   // scratch: those before
	parched  bool      // these are worth another look
	revived  uint64    // times that Gate.With may have changed slots
	drawsAt  time.Time // and then at the latest; zero is not by time alone

	open      Slot    // whose bench has the lanes that nothing is known to keep
	hot       []*Slot // whose first may go
	wakes     heap[*Slot, byWake]
	rests     heap[*Hold, byReturn]
	deadlines heap[*Hold, byDeadline]
	late      int  // how many of these have answerIn
	answered  bool // something that they wait for may be known now

	key    []byte // scratch, as are the next two
	ready  []int
	blocks []block
	turn   Turn
	spare  []*bench // that became empty
	tidied int      // how many clients were left by the last tidying
}

// NewScheduler makes the queue of one site.
func NewScheduler(o Options) *Scheduler {
	s := &Scheduler{options: o}
	s.open = Slot{s: s, name: "open"}
	return s
}

// Slot makes a slot. The meter may be nil for something that only cools; fresh
// makes another meter like it, unused, and may be nil: then waits are not
// foreseen beyond what the meter says.
func (s *Scheduler) Slot(name string, m limit.Meter, fresh func() limit.Meter) *Slot {
	s.slotID++
	slot := &Slot{name: name, title: name, meter: m, fresh: fresh, id: s.slotID, s: s}
	slot.demand, _ = m.(Demanding)
	if s.slots == nil {
		s.slots = map[*Slot]struct{}{}
	}
	s.slots[slot] = struct{}{}
	return slot
}

// Forget drops a slot if nothing would change by making it anew, and tells
// whether it did.
func (s *Scheduler) Forget(now time.Time, slot *Slot) bool {
	if !slot.idle(now) {
		return false
	}
	delete(s.slots, slot)
	return true
}

// Len is how many holds wait, and how many requests are granted and unfinished.
func (s *Scheduler) Len() (held, granted int) { return s.waiting + s.resting, s.granted }

// Errors of a caller that lost track of a hold.
var (
	ErrNotGranted = errors.New("the hold is not granted")
	ErrInUse      = errors.New("the hold was added before")
)

// Try grants a hold at once if nobody waits for anything that it needs, and
// tells whether it did. It is Add and Next for the usual case.
func (s *Scheduler) Try(now time.Time, h *Hold) bool {
	if h.state != outside || len(s.hot) > 0 {
		return false
	}
	if first := s.nextAt(); !first.IsZero() && !first.After(now) {
		return false // something else is due first
	}
	if len(h.Needs) == 0 {
		h.Needs = nothing
	}
	if went, sure := s.tryChoices(now, h); sure {
		return went
	}
	s.ready = s.ready[:0]
	for i, alternative := range h.Needs {
		if !free(now, alternative) {
			continue
		}
		s.ready = append(s.ready, i)
		if h.Pick == nil {
			break
		}
	}
	if len(s.ready) == 0 {
		return false
	}
	s.stamp(now, h)
	s.take(now, h, s.pick(h))
	return true
}

func free(now time.Time, needs []Need) bool {
	for _, n := range needs {
		if n.Slot.bench != nil || n.Slot.when(now, n.N).After(now) {
			return false
		}
	}
	return true
}

// nothing is what a hold needs that needs nothing.
var nothing = [][]Need{nil}

func (s *Scheduler) stamp(now time.Time, h *Hold) {
	s.seq++
	h.seq, h.added, h.class = s.seq, now, min(max(h.Priority, Urgent), Patient)
	h.bound, h.missed, h.refusal = nil, 0, nil
}

// Add puts a hold in the queue. It is refused with a *Refusal when it could
// never go, or by all that is known not before its deadline.
func (s *Scheduler) Add(now time.Time, h *Hold) error {
	if h.state != outside {
		return ErrInUse
	}
	if r := s.foresee(now, h); r != nil {
		return r
	}
	s.add(now, h)
	return nil
}

// add is Add for what has been foreseen to go.
func (s *Scheduler) add(now time.Time, h *Hold) {
	s.tick(now)
	s.stamp(now, h)
	s.join(h)
	s.enter(h)
}

// join counts a hold among those that wait, wherever it will stand.
func (s *Scheduler) join(h *Hold) {
	c := s.clients[h.Client]
	if c == nil {
		s.tidyAll()
		c = &client{name: h.Client, turn: s.virtual}
		if s.clients == nil {
			s.clients = map[string]*client{}
		}
		s.clients[h.Client] = c
	}
	c.holds++
	c.cost += h.cost()
	c.share = h.weight()
	h.client = c
	s.want(h, 1)
	if !h.Deadline.IsZero() {
		s.deadlines.push(h)
	}
}

// want counts what a hold wants at its slots.
func (s *Scheduler) want(h *Hold, by int64) {
	for _, alternative := range h.Needs {
		for _, n := range alternative {
			n.Slot.users += int(by)
			n.Slot.queued[h.class] += by * n.N
			n.Slot.mind()
		}
	}
}

// part is the opposite of join.
func (s *Scheduler) part(h *Hold) {
	c := h.client
	c.holds--
	c.cost -= h.cost()
	s.want(h, -1)
	if s.deadlines.has(h) {
		s.deadlines.remove(h)
	}
	if h.answerIn > 0 {
		h.answerIn = 0
		s.late--
	}
}

// enter puts a hold in its lane, a new one if need be.
func (s *Scheduler) enter(h *Hold) {
	key := s.key[:0]
	for _, alternative := range h.Needs {
		for _, n := range alternative {
			id := uint64(n.Slot.id) << 1
			if n.Refuse {
				id++ // the first of those that do not wait says nothing of those that do
			}
			key = binary.AppendUvarint(key, id)
		}
		key = append(key, 0) // no slot has the number zero
	}
	s.key = key
	l := s.lanes[string(key)]
	if l == nil {
		l = &lane{key: string(key), slots: make([][]*Slot, len(h.Needs))}
		for i, alternative := range h.Needs {
			for _, n := range alternative {
				l.slots[i] = append(l.slots[i], n.Slot)
			}
		}
		if s.lanes == nil {
			s.lanes = map[string]*lane{}
		}
		s.lanes[l.key] = l
		s.open.seatLane(l)
		s.open.stir()
	}
	h.entered = s.now
	l.enter(h)
	if l.toll != nil {
		l.toll.count(s.now, 1)
	}
	h.state = waiting
	s.waiting++
}

// leave takes a hold out of wherever it waits.
func (s *Scheduler) leave(h *Hold) {
	if h.state == resting {
		s.rests.remove(h)
		s.toll(tollOfRetry).count(s.now, -1)
		h.keptBy(tollOfRetry, s.now.Sub(h.entered))
		s.resting--
		return
	}
	l := h.lane
	l.leave(h)
	if l.toll != nil {
		l.toll.count(s.now, -1)
		h.keptBy(l.longest(h.entered, s.now))
	}
	s.waiting--
	if l.holds == 0 {
		l.raise()
		delete(s.lanes, l.key)
	}
}

// Cancel takes a hold that waits out of the queue, and tells whether it did.
// Nothing is spent by it.
func (s *Scheduler) Cancel(now time.Time, h *Hold) bool {
	if h.state != waiting && h.state != resting {
		return false
	}
	s.tick(now)
	s.leave(h)
	s.part(h)
	s.tidy(h.client)
	h.state = outside
	return true
}

// tidy forgets a client for whom nothing waits and who owes no turn.
func (s *Scheduler) tidy(c *client) {
	if c != nil && c.holds == 0 && (c.turn <= s.virtual || len(s.clients) > 4096) {
		delete(s.clients, c.name)
	}
}

// tidyAll does so for all clients when there are twice as many as the last time.
func (s *Scheduler) tidyAll() {
	if len(s.clients) < max(64, 2*s.tidied) {
		return
	}
	for _, c := range s.clients {
		s.tidy(c)
	}
	s.tidied = len(s.clients)
}

// Sent says that a granted request goes out only now, and tells whether that is
// later than it was granted: so much later can it arrive.
func (s *Scheduler) Sent(now time.Time, h *Hold) bool {
	if h.state != granted || h.forced || now.Sub(h.taken) < time.Millisecond {
		return false
	}
	for _, n := range h.Needs[h.choice] {
		n.Slot.postpone(now, h, n)
	}
	h.late += now.Sub(h.taken)
	h.taken = now
	return true
}

// Finish ends a granted request, with what it truly cost.
func (s *Scheduler) Finish(now time.Time, h *Hold, r Result) error {
	if h.state != granted {
		return ErrNotGranted
	}
	s.release(now, h, r)
	if r.Unsent {
		s.refund(h)
	}
	h.state = outside
	if h.client != nil {
		s.tidy(h.client)
	}
	return nil
}

func (s *Scheduler) release(now time.Time, h *Hold, r Result) {
	s.unlend(h)
	s.landed(now, h, r.Outcome == limit.Success && !r.Unsent)
	for _, n := range h.Needs[h.choice] {
		if h.forced || h.unreserved && n.Of == Bytes {
			n.N = 0
		}
		n.Slot.finish(now, h, n, r)
	}
	s.granted--
	h.forced, h.unreserved = false, false
}

func (s *Scheduler) refund(h *Hold) {
	if h.client != nil && h.charge > 0 {
		h.client.pay(h.client.turn - h.charge)
		h.charge = 0
	}
}

// Return puts a granted request that has to be sent again back at its place: it
// keeps its priority, its arrival and its client's turn. It rests until later,
// if that is in the future. The result is that of the try that is over, and needs
// are those of the next one.
func (s *Scheduler) Return(now time.Time, h *Hold, r Result, later time.Time, needs [][]Need) error {
	if h.state != granted {
		return ErrNotGranted
	}
	s.tick(now)
	s.release(now, h, r)
	h.state, h.Needs, h.keptFor = outside, needs, 0
	if refusal := beyond(now, needs); refusal != nil {
		return refusal
	}
	if !h.Deadline.IsZero() && later.After(h.Deadline) {
		return &Refusal{Reason: TooLong, Limit: "retry", RetryAt: later}
	}
	h.refusal = nil
	s.refund(h)
	s.join(h)
	if later.After(now) {
		h.later, h.entered, h.state = later, s.now, resting
		s.rests.push(h)
		s.toll(tollOfRetry).count(s.now, 1)
		s.resting++
		return nil
	}
	s.enter(h)
	return nil
}

// Replan gives a hold that waits other needs, after a reload. It keeps its place,
// unless it could never go: then it is refused, and false is answered.
func (s *Scheduler) Replan(now time.Time, h *Hold, needs [][]Need) bool {
	if h.state != waiting && h.state != resting {
		return true // a granted one finishes with what it took
	}
	s.tick(now)
	if r := beyond(now, needs); r != nil {
		s.refuse(h, r)
		s.turn.Refused = s.turn.Refused[:len(s.turn.Refused)-1] // the caller has it
		return false
	}
	lies := h.state == waiting
	if lies {
		s.leave(h)
	}
	s.want(h, -1)
	h.Needs = needs
	s.want(h, 1)
	if lies {
		s.enter(h)
	}
	return true
}

// all are the holds that wait.
func (s *Scheduler) all() []*Hold {
	list := make([]*Hold, 0, s.waiting+s.resting)
	for _, l := range s.lanes {
		for p := range l.classes {
			list = append(list, l.classes[p].old.items...)
		}
	}
	return append(list, s.rests.items...)
}
