package queue

import (
	"time"

	"github.com/abide-proxy/abide/internal/heap"
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
		r.noteBlocking()
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
	listed, empty := w.first[p].Has(at), s.group.priorities[p].clients.Empty()
	switch {
	case listed && empty:
		w.first[p].Remove(at)
		w.oldest[p].Remove(at)
	case listed:
		w.first[p].Fix(at)
		w.oldest[p].Fix(at)
	case !empty:
		w.first[p].Push(at)
		w.oldest[p].Push(at)
	}
}

func (w *waitlist) add(s *waiter) {
	for p := range numPriorities {
		w.update(s, p)
	}
	w.size++
}

func (w *waitlist) remove(s *waiter) {
	for p := range numPriorities {
		if at := (waiterAt{s, p}); w.first[p].Has(at) {
			w.first[p].Remove(at)
			w.oldest[p].Remove(at)
		}
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
	if r.level != o.level {
		return r.level < o.level
	}
	if r.served != o.served {
		return r.served < o.served
	}
	return r.seq < o.seq
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
		at := oldest.Add((waited/aging + 1) * aging)
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if mixed < 2 {
		return time.Time{}
	}
	return next
}
