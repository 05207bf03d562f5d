package queue

import "time"

// agenda lists what the scheduler has to look at next. Resources report to it.
type agenda struct {
	dirty []*resource             // resources whose first group may go
	wakes heap[*resource, byWake] // resources that time alone makes dirty
	open  resource                // no real one: its waitlist has the groups that nothing is known to block

	blocking        []*resource // resources that block a hold and that Gate.UpdateExternal may change, and some that blocked one
	listed          int         // the length of blocking after it was pruned last
	externalChanges uint64      // number of calls of Gate.UpdateExternal
	demanding       []*resource // resources whose demand may have changed

	bytesChanged   bool         // a byte request may be granted
	grants         uint64       // number of grants so far
	blockedTimes   blockedTimes // by limit
	spareWaitlists []*waitlist  // empty ones, to be used again
}

// recheckExternal marks the resources dirty that block a hold and that Gate.UpdateExternal
// may have changed.
func (a *agenda) recheckExternal() {
	a.bytesChanged = true
	a.externalChanges++
	a.pruneBlocking()
	for _, res := range a.blocking {
		res.markDirty()
	}
}

// pruneBlocking drops the resources from blocking that block no hold any more.
func (a *agenda) pruneBlocking() {
	list := a.blocking[:0]
	for _, res := range a.blocking {
		if res.listed = res.waitlist != nil; res.listed {
			list = append(list, res)
		}
	}
	clear(a.blocking[len(list):])
	a.blocking, a.listed = list, len(list)
}

// tellDemand tells the meters whose demand may have changed how many units wait for them
// now.
func (a *agenda) tellDemand(now time.Time) {
	for i, res := range a.demanding {
		a.demanding[i], res.noted = nil, false
		if res.demand != nil {
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
