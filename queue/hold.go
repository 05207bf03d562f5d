package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Priorities run from 0, the most urgent, to 7, as in RFC 9218.
const (
	Urgent          = 0
	DefaultPriority = 3
	Patient         = 7

	classes = Patient + 1
)

// Unit is what the amount of a Need counts, which says how it is settled.
type Unit uint8

// The units.
const (
	Requests Unit = iota // the amount is certain
	Cost                 // settled with Result.Cost
	Bytes                // settled with Result.Bytes
)

// Need is an amount of what a slot has.
type Need struct {
	Slot   *Slot
	N      int64
	Of     Unit
	Refuse bool // see Limit.Refuse
}

// Hold is a request that waits. Its exported fields are the caller's and do not
// change after Add. A Hold is used once; what it becomes when it is granted is
// finished with Scheduler.Finish.
type Hold struct {
	Client   string
	Weight   int   // the client's share; 0 is 1
	Priority int   // 0 (most urgent) to 7
	Cost     int64 // what fairness counts for it; 0 is 1

	// Deadline is when it stops waiting; zero is never. It is refused as soon as
	// it is certain that it would have to wait for longer.
	Deadline time.Time

	// Needs are alternatives. It goes when everything of one of them can be
	// taken at once. No slot is twice in the same alternative.
	Needs [][]Need

	// Pick chooses among the alternatives that are ready, by their index, when
	// there are more than one. nil takes the first.
	Pick func(ready []int) int

	owner   *Permit    // of a Gate
	order   Preference // the same as Pick, if it is not nil
	choices *choices   // of its Needs; nil: no other hold has them

	choice     int32 // :: index into Needs, once granted
	missed     int32 // how often what kept it last changed
	state      state
	forced     bool // granted without taking anything
	unreserved bool // what it took of bytes has gone back
	lent       bool // draws may have it
	asks       bool // it was granted on a ramp, and has no answer yet
	class      int  // Priority within its bounds
	seq        uint64
	added      time.Time
	taken      time.Time     // when it was granted, or went out: meters know it by that
	late       time.Duration // how much later than its grant that is
	later      time.Time     // when it may come back to its lane
	charge     float64       // what the client paid for it, in turns
	grant      uint64        // the number of its grant

	answerIn time.Duration // it waits so long after added for a store, though its deadline is over; 0: it does not

	bound *Slot // what kept it last

	// Of its last wait, or of the one that goes on:
	kept    string        // title of the limit that kept it for longest, "" if it never waited
	keptFor time.Duration // by that limit
	entered time.Time     // when it began to wait where it waits, or waited last

	client *client
	flow   *flow
	lane   *lane

	refusal *Refusal

	inFlow, inClass, inLater, inDeadlines int32
}

type state uint8

const (
	outside state = iota // not added yet, or over
	waiting              // in its lane
	resting              // until later
	granted
)

// Choice is the alternative of Needs that a granted hold took.
func (h *Hold) Choice() int { return int(h.choice) }

// Added is when it began to wait.
func (h *Hold) Added() time.Time { return h.added }

// Granted is when it was granted last.
func (h *Hold) Granted() time.Time { return h.taken }

// Refusal is why the scheduler let it go without a grant, or nil.
func (h *Hold) Refusal() *Refusal { return h.refusal }

func (h *Hold) cost() int64 { return max(h.Cost, 1) }

func (h *Hold) weight() float64 { return float64(max(h.Weight, 1)) }

// Result is how a granted request ended.
type Result struct {
	Outcome limit.Outcome

	// Unsent says that nothing of it has reached the server: everything that it
	// took is given back.
	Unsent bool

	// Cost and Bytes are the true ones; 0 is as estimated.
	Cost, Bytes int64

	// Exact says that Bytes is true also when it is 0.
	Exact bool
}

// byArrival orders the holds of a flow.
type byArrival struct{}

func (byArrival) before(a, b *Hold) bool { return a.seq < b.seq }
func (byArrival) place(h *Hold) *int32   { return &h.inFlow }

// byAge orders the holds of one priority of a lane.
type byAge struct{}

func (byAge) before(a, b *Hold) bool { return a.seq < b.seq }
func (byAge) place(h *Hold) *int32   { return &h.inClass }

// byReturn orders the holds that rest.
type byReturn struct{}

func (byReturn) before(a, b *Hold) bool { return a.later.Before(b.later) }
func (byReturn) place(h *Hold) *int32   { return &h.inLater }
