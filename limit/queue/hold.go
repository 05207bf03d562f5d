package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
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

	// deadline is when the hold stops waiting; zero is never. The hold is refused as soon
	// as it is certain that it would wait for longer.
	deadline time.Time

	// needs are the alternatives. The hold is granted when all needs of one alternative can
	// be taken at once. No resource is twice in the same alternative.
	needs [][]need

	// chooser chooses among the alternatives that are ready; nil takes the first.
	chooser Chooser

	owner   *caller  // of a Gate; nil in tests of the scheduler alone
	choices *choices // of its needs; nil: no other hold has these needs

	state   state
	awaited bool  // others may wait for the answer; only the permit uses it, without a lock
	missed  int32 // number of changes of waitRecord.bound
	seq     uint64
	added   time.Time
	refusal *Refusal

	grantRecord
	waitRecord
	position
}

// grantRecord describes the latest grant of a hold.
type grantRecord struct {
	choice     int32         // :: index into needs
	forced     bool          // granted without taking anything
	unreserved bool          // the bytes that it took were given back
	offered    bool          // byte requests may take the bytes that it took
	probes     bool          // it was granted in a slow start, and has no answer yet
	grant      uint64        // the number of the grant
	taken      time.Time     // when it was granted, or was sent: the time by which meters find what it took
	late       time.Duration // from the grant to taken
	charge     float64       // what was added to client.served for it
}

// grantedAt is the time of the grant.
func (g *grantRecord) grantedAt() time.Time { return g.taken.Add(-g.late) }

// waitRecord describes the latest wait of a hold.
type waitRecord struct {
	entered    time.Time     // when it joined the group where it waits, or waited last
	later      time.Time     // end of its delay
	answerIn   time.Duration // how long after added it waits for the answer of a store, also past its deadline; 0: not past it
	bound      *resource     // the resource that blocked it last
	blockedBy  string        // title of the limit that blocked it for longest, "" if it never waited
	blockedFor time.Duration // by that limit
}

// position is where a hold waits.
type position struct {
	client *client
	queue  *clientQueue
	group  *group

	inQueue, inPriority, inDelayed, inDeadlines int32
}

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

// byArrival orders the holds of a client queue.
type byArrival struct{}

func (byArrival) before(a, b *hold) bool { return a.seq < b.seq }
func (byArrival) place(h *hold) *int32   { return &h.inQueue }

// byAge orders the holds of one priority of a group.
type byAge struct{}

func (byAge) before(a, b *hold) bool { return a.seq < b.seq }
func (byAge) place(h *hold) *int32   { return &h.inPriority }

// byDelay orders the delayed holds by their return.
type byDelay struct{}

func (byDelay) before(a, b *hold) bool { return a.later.Before(b.later) }
func (byDelay) place(h *hold) *int32   { return &h.inDelayed }

// noteBlocked records a limit that has blocked the hold, unless another limit did for longer.
func (h *hold) noteBlocked(limit string, kept time.Duration) {
	if kept >= h.blockedFor {
		h.blockedBy, h.blockedFor = limit, kept
	}
}

// want adds what a hold needs, times by (1 or -1), to what is queued at its resources.
func (h *hold) want(by int64) {
	for _, alternative := range h.needs {
		for _, n := range alternative {
			n.resource.users += int(by)
			n.resource.queued[h.priority] += by * n.n
			n.resource.noteDemand()
		}
	}
}

// sent records that a granted request is sent only now. It returns whether that is later
// than the grant by a millisecond or more: then meters count the request from now on.
func (h *hold) sent(now time.Time) bool {
	if h.state != stateGranted || h.forced || now.Sub(h.taken) < time.Millisecond {
		return false
	}
	for _, n := range h.needs[h.choice] {
		n.resource.postpone(now, h, n)
	}
	h.late += now.Sub(h.taken)
	h.taken = now
	return true
}

// answered counts the answer of a site to a granted request that is not over yet, so that
// requests which wait for that answer in a slow start can go before the body has passed. A
// refusal is counted by finish or giveBack, together with its cooldown.
func (h *hold) answered(now time.Time, o limit.Outcome) {
	if h.state == stateGranted && o != limit.Refused {
		h.countAnswer(now, o == limit.Success)
	}
}
