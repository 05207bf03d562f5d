package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/reference"
)

// trace records what the processes of one test ask a store and what they use. It is safe for
// concurrent use.
type trace struct {
	now   func() time.Time // the clock of the store
	order atomic.Int64     // counts begins and ends of operations, which orders them

	mu         sync.Mutex
	operations []operation
	uses       []use
}

// operation is one call of a store, or something that became of it.
type operation struct {
	Client      int
	Begin, End  int64     // by trace.order; End is math.MaxInt64 if there was no answer
	Since, Till time.Time // the same by the clock of the store

	Batch *store.Batch // of an exchange
	Reply *store.Reply // nil: there was no answer
	Beats bool         // a pulse
	Pulse *store.Pulse // nil: there was no answer
	Did   event        // what became of the store
	Who   string       // whose process has ended
}

// event is something that becomes of a store.
type event int

const (
	nothing event = iota
	ends          // a process, with what it may have taken
	loses         // everything
	evicts        // the budgets of the site
	forgets       // that there were some
	removes       // both
	renews        // the name of its generation
	saves         // a replica has what is there
	fails         // the replica takes over
)

// use is units that a process takes, and does not give back.
type use struct {
	At time.Time
	N  int64
}

// begin begins an operation.
func (h *trace) begin(o operation) operation {
	o.Begin, o.Since = h.order.Add(1), h.now()
	return o
}

// end ends an operation that was answered.
func (h *trace) end(o operation) {
	o.End, o.Till = h.order.Add(1), h.now()
	h.add(o)
}

// add adds an operation.
func (h *trace) add(o operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, o)
}

// became records an event, which do brings about.
func (h *trace) became(what event, who string, do func()) {
	o := h.begin(operation{Did: what, Who: who})
	do()
	h.end(o)
}

// took records a use.
func (h *trace) took(at time.Time, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uses = append(h.uses, use{at, n})
}

// recorded is a store whose operations are recorded.
type recorded struct {
	store.Store
	trace  *trace
	client int
}

// Exchange is one operation for each Batch.
func (r *recorded) Exchange(ctx context.Context, batches []store.Batch) ([]store.Reply, error) {
	list := make([]operation, len(batches))
	for i, b := range batches {
		b.Asks = slices.Clone(b.Asks)
		for j := range b.Asks {
			b.Asks[j].State = slices.Clone(b.Asks[j].State)
		}
		list[i] = r.trace.begin(operation{Client: r.client, Batch: &b})
	}
	replies, err := r.Store.Exchange(ctx, batches)
	for i, o := range list {
		if o.End = math.MaxInt64; err != nil {
			r.trace.add(o)
			continue
		}
		reply := replies[i]
		reply.Answers = slices.Clone(reply.Answers)
		o.Reply = &reply
		r.trace.end(o)
	}
	return replies, err
}

func (r *recorded) Pulse(ctx context.Context, m store.Member) (store.Pulse, error) {
	o := r.trace.begin(operation{Client: r.client, Beats: true})
	p, err := r.Store.Pulse(ctx, m)
	if err != nil {
		o.End = math.MaxInt64
		r.trace.add(o)
		return p, err
	}
	o.Pulse = &p
	r.trace.end(o)
	return p, err
}

// next does an operation in a Book, and says why it could not be like that.
func next(b *reference.Book, o *operation) (*reference.Book, string) {
	switch o.Did {
	case ends:
		return b.End(o.Who), ""
	case loses:
		return b.Lose(), ""
	case evicts, forgets, removes, renews:
		return b.Evict(o.Did == evicts || o.Did == removes, o.Did == forgets || o.Did == removes, o.Did == renews), ""
	case saves:
		return b.Save(), ""
	case fails:
		return b.FailOver(), ""
	}
	if o.Beats {
		now := o.Since
		if o.Pulse != nil {
			now = o.Pulse.Now
		}
		return b.Pulse(now, o.Pulse)
	}
	now := o.Since
	if o.Reply != nil {
		// It has a time at which it was under way.
		if now = o.Reply.Now; now.Before(o.Since.Truncate(time.Microsecond)) || now.After(o.Till) {
			return b, "it was done at " + now.String() + ", before it was asked or after it was answered"
		}
	}
	return b.Exchange(o.Batch, now, o.Reply)
}

// model is a store that does one operation after the other. An operation without an answer may be
// done at any time later, or never, which is the same as after all others.
var model = porcupine.Model{
	Init: func() any { return &reference.Book{} },
	Step: func(state, input, _ any) (bool, any) {
		b, wrong := next(state.(*reference.Book), input.(*operation))
		return wrong == "", b
	},
	Equal: func(a, b any) bool { return a.(*reference.Book).Same(b.(*reference.Book)) },
}

// linear checks that there is an order of all operations, each between its begin and its end, in which a
// store that does one after the other gives the same answers.
func (h *trace) linear(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]porcupine.Operation, len(h.operations))
	for i := range h.operations {
		o := &h.operations[i]
		list[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Begin, Return: o.End}
	}
	if porcupine.CheckOperations(model, list) {
		return
	}
	_, info := porcupine.CheckOperationsVerbose(model, list, 0)
	for _, orders := range info.PartialLinearizations() {
		longest := slices.MaxFunc(orders, func(a, b []int) int { return len(a) - len(b) })
		t.Errorf("no order of the %d operations explains their answers; after %d of them:%s", len(list), len(longest), h.stuck(longest))
	}
}

// stuck says why none of the operations that may come after the first ones in an order can.
func (h *trace) stuck(order []int) (why string) {
	b, done := &reference.Book{}, map[int]bool{}
	for _, i := range order {
		b, _ = next(b, &h.operations[i])
		done[i] = true
	}
	end := int64(math.MaxInt64) // of the first one that is left
	for i, o := range h.operations {
		if !done[i] {
			end = min(end, o.End)
		}
	}
	for i := range h.operations {
		if o := &h.operations[i]; !done[i] && o.Begin <= end {
			_, wrong := next(b, o)
			why += fmt.Sprintf("\n\tof %s, %d to %d: %s", o.who(), o.Begin, o.End, cmp.Or(wrong, "possible, but then others are not"))
		}
	}
	return why
}

// who is the instance of an operation.
func (o *operation) who() string {
	if o.Batch != nil {
		return o.Batch.Instance
	}
	return o.Who
}
