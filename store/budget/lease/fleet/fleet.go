// Package fleet runs many instances of accounts against one store, in virtual time: a
// thousand instances and an hour of their work are some seconds.
//
//	f := fleet.New(fleet.Options{Seed: 1, Budgets: budgets})
//	f.Store = reference.New(f.Now)
//	f.Start(100)
//	f.Request(7, fleet.Need{"requests": 1})
//	f.Run(time.Minute)
//
// Options.Taken is called with each take of an instance.
package fleet

import (
	"container/heap"
	"math/rand"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// Budget is a budget that the instances share.
type Budget struct {
	Key    string
	Spec   limit.Spec
	Outage lease.Outage
}

// Need has the units of each budget that a request takes.
type Need map[string]int64 // :: key of a budget → units

// Take is one take of an instance.
type Take struct {
	At       time.Time // by the clock of the fleet
	Instance int
	ID       string // of this life of the instance
	Key      string
	N        int64
	Waited   time.Duration
}

// Network describes the delay and loss of messages.
type Network struct {
	Delay   func(*rand.Rand) time.Duration // of each, one way; nil: none
	Loss    float64                        // the part that is lost, each way
	Twice   float64                        // the part that arrives once more
	Late    time.Duration                  // by how much later, at most
	Timeout time.Duration                  // for how long an answer is waited for; 0: 250 ms
}

// Options describe a fleet.
type Options struct {
	Site    string
	Seed    int64
	Begin   time.Time // 0: the beginning of 2026
	Budgets []Budget
	Network Network
	Clock   func(instance int, now time.Time) time.Time // what an instance's clock shows; nil: the time
	Taken   func(Take)                                  // called with each take; may be nil
	Account func(*lease.Account)                        // sees each account that is made; may be nil
	Owns    func(instance int) bool                     // Options.Owns of the instance; nil: none owns the site
}

// Fleet is instances, their network, and a clock. It is not safe for concurrent use.
type Fleet struct {
	Store store.Store
	Count Count
	Rand  *rand.Rand

	o      Options
	now    time.Time
	events events
	order  int
	nodes  []*node
	lives  int
	bad    string            // when not empty, what is wrong with the network: "cut" loses everything
	frozen bool              // the store does nothing
	later  []func()          // what arrived there meanwhile
	told   map[string]string // :: budget → birth mark after the loss that was told last
}

// Count counts the events of a Fleet.
type Count struct {
	Exchanges int // that the store answered
	Pulses    int
	Requests  int // that went
	Units     map[string]int64
	Failed    int // exchanges that the store answered with an error
}

// New makes a fleet without instances. It needs a Store before it starts.
func New(o Options) *Fleet {
	if o.Begin.IsZero() {
		o.Begin = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	if o.Site == "" {
		o.Site = "api.example"
	}
	if o.Network.Timeout == 0 {
		o.Network.Timeout = 250 * time.Millisecond
	}
	return &Fleet{
		Rand: rand.New(rand.NewSource(o.Seed)), o: o, now: o.Begin,
		Count: Count{Units: map[string]int64{}}, told: map[string]string{},
	}
}

// Now returns the fleet's time. A store has to have this clock.
func (f *Fleet) Now() time.Time { return f.now }

// Start adds instances.
func (f *Fleet) Start(n int) {
	for range n {
		nd := &node{f: f, index: len(f.nodes)}
		f.nodes = append(f.nodes, nd)
		nd.live()
	}
}

// Len returns the number of instances.
func (f *Fleet) Len() int { return len(f.nodes) }

// Request adds a request to an instance.
func (f *Fleet) Request(instance int, need Need) { f.request(instance, need, nil) }

func (f *Fleet) request(instance int, need Need, went func()) {
	f.nodes[instance].add(waiting{need, f.now, went})
}

// Waiting returns the number of requests that wait at an instance.
func (f *Fleet) Waiting(instance int) int { return len(f.nodes[instance].queue) }

// At calls do after a time.
func (f *Fleet) At(after time.Duration, do func()) {
	f.order++
	heap.Push(&f.events, event{at: f.now.Add(max(after, 0)), order: f.order, do: do})
}

// Run runs the fleet for a time.
func (f *Fleet) Run(d time.Duration) {
	end := f.now.Add(d)
	for len(f.events) > 0 && !f.events[0].at.After(end) {
		e := heap.Pop(&f.events).(event)
		f.now = e.at
		e.do()
	}
	f.now = end
}

// Crash ends an instance, with what it held and what waited, and starts another in its place.
func (f *Fleet) Crash(instance int) {
	nd := f.nodes[instance]
	nd.frozen = false
	nd.live()
}

// Freeze stops an instance for a while: what arrives for it waits.
func (f *Fleet) Freeze(instance int, d time.Duration) {
	nd := f.nodes[instance]
	if nd.frozen {
		return
	}
	nd.frozen = true
	life := nd.life
	f.At(d, func() {
		if nd.life == life {
			nd.thaw()
		}
	})
}

// Cut loses all messages, or no longer all.
func (f *Fleet) Cut(cut bool) {
	f.bad = ""
	if cut {
		f.bad = "cut"
	}
}

// Part separates an instance from the store: what it asks is lost, or what it is answered and told, or
// both.
func (f *Fleet) Part(instance int, asks, answers bool) {
	f.nodes[instance].mute, f.nodes[instance].deaf = asks, answers
}

// FreezeStore stops the store: what arrives there is done after ThawStore.
func (f *Fleet) FreezeStore() { f.frozen = true }

// ThawStore ends FreezeStore.
func (f *Fleet) ThawStore() {
	f.frozen = false
	later := f.later
	f.later = nil
	for _, do := range later {
		do()
	}
}

// serve calls do at the store, or after ThawStore.
func (f *Fleet) serve(do func()) {
	if f.frozen {
		f.later = append(f.later, do)
		return
	}
	do()
}

// Safe tells whether messages pass for a while without loss.
func (f *Fleet) Safe(d time.Duration) {
	loss := f.o.Network.Loss
	f.o.Network.Loss = 0
	f.At(d, func() { f.o.Network.Loss = max(loss, f.o.Network.Loss) })
}

func (f *Fleet) delay() time.Duration {
	if f.o.Network.Delay == nil {
		return 0
	}
	return f.o.Network.Delay(f.Rand)
}

func (f *Fleet) lost() bool { return f.bad == "cut" || f.Rand.Float64() < f.o.Network.Loss }

// pass brings a message, perhaps once more and later, or not at all. apart: to or from an instance that
// is separated.
func (f *Fleet) pass(apart bool, arrive func()) {
	if apart {
		return
	}
	if !f.lost() {
		f.At(f.delay(), arrive)
	}
	if f.o.Network.Twice > 0 && f.bad == "" && f.Rand.Float64() < f.o.Network.Twice {
		late := time.Duration(f.Rand.Int63n(int64(f.o.Network.Late) + 1))
		f.At(f.delay()+late, arrive)
	}
}

type event struct {
	at    time.Time
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

func name(life int) string { return "instance-" + strconv.Itoa(life) }
