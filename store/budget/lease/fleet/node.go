package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

var errNoAnswer = errors.New("no answer")

// node is one instance: an account, and requests that wait in the order of their arrival.
type node struct {
	f     *Fleet
	index int
	life  int
	id    string

	account    *lease.Account
	meters     map[string]limit.Meter
	generation string
	ready      bool // a pulse was answered
	members    int
	seq        uint64

	queue  []waiting
	wake   time.Time // when a step is planned
	frozen bool
	mail   []func() // what arrived meanwhile
	trip   int      // the exchange that is under way

	mute, deaf bool // see Fleet.Part
}

type waiting struct {
	need Need
	came time.Time
	went func() // may be nil
}

// live begins a new life.
func (nd *node) live() {
	f := nd.f
	f.lives++
	*nd = node{f: f, index: nd.index, life: f.lives, id: name(f.lives), members: 1, mute: nd.mute, deaf: nd.deaf}
	nd.account = lease.NewAccount(f.o.Site, lease.Options{
		Instance: nd.id,
		Seq:      func() uint64 { nd.seq++; return nd.seq },
		Members:  func() int { return nd.members },
		Owns:     func() bool { return f.o.Owns != nil && f.o.Owns(nd.index) },
	})
	if f.o.Account != nil {
		f.o.Account(nd.account)
	}
	nd.meters = map[string]limit.Meter{}
	for _, b := range f.o.Budgets {
		nd.meters[b.Key] = nd.account.Shared(b.Key, b.Spec, b.Outage)
	}
	nd.pulse(nd.life)
}

func (nd *node) now() time.Time {
	if nd.f.o.Clock == nil {
		return nd.f.now
	}
	return nd.f.o.Clock(nd.index, nd.f.now)
}

// when calls do unless this life has ended; a frozen node calls it later.
func (nd *node) when(life int, do func()) {
	switch {
	case nd.life != life:
	case nd.frozen:
		nd.mail = append(nd.mail, func() { nd.when(life, do) })
	default:
		do()
	}
}

func (nd *node) thaw() {
	nd.frozen = false
	mail := nd.mail
	nd.mail = nil
	for _, do := range mail {
		do()
	}
	nd.step()
}

// pulse registers the instance with the store, and repeats that.
func (nd *node) pulse(life int) {
	nd.when(life, func() {
		again := store.Beat(nd.members)
		if nd.mute || nd.f.lost() {
			again = 100 * time.Millisecond
		} else {
			nd.f.At(nd.f.delay(), func() {
				nd.f.serve(func() {
					nd.f.Count.Pulses++
					p, err := nd.f.Store.Pulse(context.Background(), store.Member{ID: nd.id, Lifetime: store.Lifetime(nd.members)})
					nd.f.At(nd.f.delay(), func() {
						if err == nil && !nd.deaf {
							nd.when(life, func() { nd.beat(p) })
						}
					})
				})
			})
		}
		nd.f.At(again, func() { nd.pulse(life) })
	})
}

func (nd *node) beat(p store.Pulse) {
	if nd.generation == "" && p.Since < store.RecoveryTime || nd.generation != "" && nd.generation != p.Generation {
		nd.account.NewGeneration(nd.now(), p.Generation)
	}
	nd.generation, nd.ready, nd.members = p.Generation, true, p.Members
	nd.step()
}

func (nd *node) add(w waiting) {
	nd.queue = append(nd.queue, w)
	if !nd.frozen {
		nd.step()
	}
}

// step admits requests and exchanges with the store.
func (nd *node) step() {
	if nd.frozen || !nd.ready {
		return
	}
	now := nd.now()
	next := nd.admit(now)
	if b, ok := nd.account.Batch(now); ok {
		nd.exchange(b)
	}
	if due := nd.account.Due(); !due.IsZero() && (next.IsZero() || due.Before(next)) {
		next = due
	}
	if next.IsZero() || next.Sub(now) > 365*24*time.Hour {
		return
	}
	wait := max(next.Sub(now), time.Microsecond)
	if at := nd.f.now.Add(wait); nd.wake.Before(nd.f.now) || !nd.wake.After(nd.f.now) || at.Before(nd.wake) {
		nd.wake = at
		life := nd.life
		nd.f.At(wait, func() { nd.when(life, nd.step) })
	}
}

// admit admits requests in order. It returns the time at which the first of the others may go.
func (nd *node) admit(now time.Time) (next time.Time) {
	for len(nd.queue) > 0 {
		w := nd.queue[0]
		at := now
		for _, b := range nd.f.o.Budgets {
			t, ok := nd.meters[b.Key].When(now, w.need[b.Key])
			if !ok {
				t = limit.Unknown
			}
			if t.After(at) {
				at = t
			}
		}
		if at.After(now) {
			nd.demand(now)
			return at
		}
		nd.queue = nd.queue[1:]
		nd.f.Count.Requests++
		for _, b := range nd.f.o.Budgets {
			n := w.need[b.Key]
			if n == 0 {
				continue
			}
			nd.meters[b.Key].Take(now, n)
			nd.f.Count.Units[b.Key] += n
			if nd.f.o.Taken != nil {
				nd.f.o.Taken(Take{nd.f.now, nd.index, nd.id, b.Key, n, nd.f.now.Sub(w.came)})
			}
		}
		if w.went != nil {
			nd.f.At(0, w.went)
		}
	}
	return time.Time{}
}

func (nd *node) demand(now time.Time) {
	for _, b := range nd.f.o.Budgets {
		n := int64(0)
		for _, w := range nd.queue {
			n += w.need[b.Key]
		}
		nd.meters[b.Key].(interface{ Demand(time.Time, int64) }).Demand(now, n)
	}
}

// exchange sends a batch. A late answer may still be received.
func (nd *node) exchange(b store.Batch) {
	f, life := nd.f, nd.life
	nd.trip++
	trip := nd.trip
	f.pass(nd.mute, func() {
		f.serve(func() { nd.answer(b, life, trip) })
	})
	f.At(f.o.Network.Timeout, func() {
		nd.when(life, func() {
			if nd.trip == trip {
				nd.hear(nil, errNoAnswer)
			}
		})
	})
}

// answer passes a batch to the store. A reply without an error may arrive later, and more
// than once.
func (nd *node) answer(b store.Batch, life, trip int) {
	f := nd.f
	f.Count.Exchanges++
	replies, err := f.Store.Exchange(context.Background(), []store.Batch{b})
	if err != nil {
		f.Count.Failed++
	} else {
		f.tellLost(replies[0].Answers)
	}
	f.pass(nd.deaf, func() {
		nd.when(life, func() {
			switch {
			case err != nil && nd.trip == trip:
				nd.hear(nil, err)
			case err == nil && nd.trip >= trip:
				nd.hear(&replies[0], nil)
			}
		})
	})
}

// tellLost tells all instances that the store has lost a budget, as the store publishes
// that: once for each loss, after which the budget has another birth mark.
func (f *Fleet) tellLost(answers []store.Answer) {
	lost := false
	for _, a := range answers {
		if a.Status == store.Foreign && a.Recovery > store.RecoveryTime-time.Millisecond && f.told[a.Key] != a.Birth {
			f.told[a.Key], lost = a.Birth, true
		}
	}
	if !lost {
		return
	}
	for _, nd := range f.nodes {
		life := nd.life
		f.pass(nd.deaf, func() {
			nd.when(life, func() {
				nd.account.Restate(nd.now())
				nd.step()
			})
		})
	}
}

func (nd *node) hear(r *store.Reply, err error) {
	if err != nil {
		nd.trip++ // an exchange that is over
	}
	nd.account.Receive(nd.now(), r, err)
	nd.step()
}
