package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/status"
)

// resource is one meter of a site (of all requests, of a client, of a route, of a token), and
// the cooldown of the same. The lock of its site guards it.
type resource struct {
	// The fields that every request reads come first, so that they are in few lines of the
	// processor's cache.
	meter    limit.Meter        // nil: only a cooldown
	inFlight int64              // taken by what is not finished
	changed  time.Time          // when the meter last replaced another
	fresh    func() limit.Meter // makes an unused meter like it; nil: waits are not estimated beyond what the meter says
	pace     pace
	users    int // number of holds, permits and byte sources that refer to it

	// What waits for it:
	waitlist     *waitlist            // nil while no group waits for it
	dirtyAt      int                  // index in agenda.dirty plus one
	held         int64                // bytes that connections hold: see Draw.Hold
	waitingBytes int64                // bytes that byte requests wait for because of it
	queued       [numPriorities]int64 // units that waiting holds want, by priority
	first        *group               // first group of the waitlist, if it is known to wait
	wake         time.Time            // when time alone makes it dirty; zero is never
	inWake       int32
	blocked      *blockedTime // nil until it blocks a hold

	cooldown cooldown

	name   string
	title  string // name without the key
	agenda *agenda
	id     uint32

	// What the meter knows of what waits:
	remote   Remote // the meter, if it gets what it has from elsewhere; nil otherwise
	told     int64  // units that the meter was told last
	noted    bool   // in agenda.demanding
	external bool   // Gate.UpdateExternal may change the meter

	choices []*choice // alternatives that need it

	pending      []byte    // state for its next meter; see site.restore
	pendingUntil time.Time // when pending is worth nothing any more
}

// pace is the rate at which a resource lets units pass when it is never idle.
type pace struct {
	known bool
	whole int64         // the most that can be taken together
	each  time.Duration // for one unit; 0 is not known, as for what is in flight
}

// label names the resource, and why it blocks holds if the reason is not its amount.
func (r *resource) label(now time.Time) string {
	return Blocker{Limit: r.name, Why: r.cooldown.why(now)}.String()
}

// left returns the number of units that could be taken at once, or that are left as far as a store or the
// site tells; -1 if there is no meter.
func (r *resource) left(now time.Time) int64 {
	switch {
	case r.cooldown.until.After(now), r.cooldown.awaitsAnswer(now):
		return 0
	case r.meter == nil:
		return -1
	}
	if shared, ok := r.meter.(interface{ Rest(now time.Time) int64 }); ok {
		return shared.Rest(now)
	}
	return r.meter.Left(now)
}

// forgettable tells whether nothing would change if the resource were made anew.
func (r *resource) forgettable(now time.Time) bool {
	return r.rests(now) && (r.meter == nil || r.meter.Idle(now))
}

// expendable tells whether the resource is idle, or forgetting it costs little.
func (r *resource) expendable(now time.Time) bool {
	m, ok := r.meter.(Storable)
	return r.forgettable(now) || r.rests(now) && ok && m.Spare(now)
}

// rests tells whether nobody refers to the resource, and nothing is to be remembered of it but its meter.
func (r *resource) rests(now time.Time) bool {
	return !r.used() && !r.cooldown.until.After(now) && !r.cooldown.recovering(now) && !r.pendingUntil.After(now)
}

// when returns the time at which n units could be taken if no other request waited.
func (r *resource) when(now time.Time, n int64) time.Time {
	if r.cooldown.slowStart != nil && r.cooldown.awaitsAnswer(now) {
		return now.Add(2 * far)
	}
	at := now
	if r.meter != nil && n > 0 {
		t, ok := r.meter.When(now, n)
		if !ok {
			return now.Add(2 * far)
		}
		at = status.Later(t, at)
	}
	at = status.Later(r.cooldown.until, at)
	if r.waitingBytes > 0 && n > 0 && !at.After(now) {
		return now.Add(2 * far) // when the byte requests that wait have their bytes
	}
	return at
}

// markDirty asks the scheduler to look at the first group of the waitlist again.
func (r *resource) markDirty() {
	if len(r.choices) > 0 {
		r.recheckChoices()
	}
	if r.waitingBytes > 0 {
		r.agenda.bytesChanged = true
	}
	if r.dirtyAt == 0 && r.waitlist != nil {
		r.agenda.dirty = append(r.agenda.dirty, r)
		r.dirtyAt = len(r.agenda.dirty)
	}
}

// markClean is the opposite of markDirty.
func (r *resource) markClean() {
	if r.dirtyAt == 0 {
		return
	}
	dirty := r.agenda.dirty
	last := dirty[len(dirty)-1]
	dirty[r.dirtyAt-1], last.dirtyAt = last, r.dirtyAt
	dirty[len(dirty)-1] = nil
	r.agenda.dirty, r.dirtyAt = dirty[:len(dirty)-1], 0
}

// wakeAt sets when time alone makes the resource dirty; zero is never.
func (r *resource) wakeAt(at time.Time) {
	if r.wake = at; at.IsZero() {
		r.agenda.wakes.Remove(r)
	} else {
		r.agenda.wakes.Put(r)
	}
}

// hold adds n bytes to what connections hold in every window.
func (r *resource) hold(n int64) {
	r.held += n
	if m := r.holder(); m != nil {
		m.Hold(r.held)
	}
}

// holder is the meter, if each of its windows begins with what is held; nil otherwise.
func (r *resource) holder() limit.Holder {
	m := r.meter
	if outer, ok := m.(interface{ Within() limit.Meter }); ok {
		m = outer.Within()
	}
	h, _ := m.(limit.Holder)
	return h
}

type byWake struct{}

func (byWake) Before(a, b *resource) bool { return a.wake.Before(b.wake) }
func (byWake) Place(r *resource) *int32   { return &r.inWake }

func (r *resource) take(now time.Time, n int64) {
	r.users++
	r.inFlight += n
	if r.meter != nil && n > 0 {
		r.meter.Take(now, n)
	}
}

// postpone moves what a hold took to now. No other hold can take it meanwhile.
func (r *resource) postpone(now time.Time, h *hold, need need) {
	if r.meter == nil || need.n <= 0 || r.takenBefore(h.grant.at()) {
		return
	}
	r.meter.Postpone(now, h.grant.taken, need.n)
	r.markDirty()
}

// finish settles what a hold took.
func (r *resource) finish(now time.Time, h *hold, need need, result Result) {
	r.users--
	r.inFlight -= need.n
	r.markDirty()
	if r.meter == nil || need.n <= 0 {
		return
	}
	n, taken := need.n, h.grant.taken
	actual := n
	switch {
	case need.of == Cost && result.Cost > 0:
		actual = result.Cost
	case need.of == Bytes && (result.Bytes > 0 || result.Exact):
		actual = result.Bytes
	}
	switch {
	case r.takenBefore(h.grant.at()): // taken from the meter before this one
		if actual > n && !result.Unsent {
			r.meter.Settle(now, now, n, actual)
		}
		return
	case result.Unsent:
		r.meter.Give(now, taken, n)
		return
	case actual != n:
		r.meter.Settle(now, taken, n, actual)
	}
	if n = min(n, actual); n > 0 {
		r.meter.Done(now, taken, n, result.Outcome)
	}
}

// blockedTime is the blocked time of the resource's limit.
func (r *resource) blockedTime() *blockedTime {
	if r.blocked == nil {
		r.blocked = r.agenda.blockedTimes.of(r.title)
	}
	return r.blocked
}

// setName gives a resource another name, and a title that it shares with the resources of
// other clients and routes.
func (r *resource) setName(name, title string) { r.name, r.title, r.blocked = name, title, nil }

// resume gives a new meter the state that it had when its site was stored.
func (r *resource) resume(now time.Time, made bool) {
	if made && r.meter != nil && r.pending != nil {
		_ = r.meter.Restore(now, r.pending) // a state that makes no sense is as good as none
	}
	r.pending, r.pendingUntil = nil, time.Time{}
}

// updateMeter calls update with the resource's meter, and tells whether there is a meter.
func (r *resource) updateMeter(now time.Time, update func(now time.Time, m limit.Meter)) bool {
	if r.meter == nil {
		return false
	}
	update(now, r.meter)
	r.markDirty()
	return true
}

// measure finds the pace of the meter by using up a fresh one, so that it holds
// for every arithmetic.
func (r *resource) measure(now time.Time) pace {
	if r.pace.known || r.fresh == nil {
		return r.pace
	}
	r.pace = paceOf(now, r.fresh())
	return r.pace
}

func paceOf(now time.Time, m limit.Meter) pace {
	p := pace{known: true}
	fits := func(n int64) bool {
		_, ok := m.When(now, n)
		return ok
	}
	low, high := int64(0), int64(1)
	for fits(high) && high < 1<<50 {
		low, high = high, 2*high
	}
	for low+1 < high {
		if mid := low + (high-low)/2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	p.whole = low
	// The second round is a whole one, also when windows follow the clock.
	at := now
	for range 2 {
		start, ok := m.When(at, low)
		if low == 0 || !ok || start.Sub(at) > far {
			return p
		}
		at = start
		m.Take(at, low)
		if end, ok := m.When(at, low); !ok || end.Sub(at) > far {
			return p // nobody knows when, as for what is in flight
		}
		m.Done(at, at, low, limit.Success)
	}
	if end, ok := m.When(at, low); ok && end.Sub(at) < far {
		p.each = end.Sub(at) / time.Duration(low)
	}
	return p
}

// within is an amount, or the most that the meter can have.
func (r *resource) within(now time.Time, n int64) int64 {
	if _, ok := r.meter.When(now, n); ok {
		return n
	}
	return min(n, max(r.measure(now).whole, 1))
}

// knows tells whether the meter has what was taken at a time.
func (r *resource) knows(at time.Time) bool {
	return r.meter != nil && !r.takenBefore(at)
}

// takenBefore tells whether a grant at a time took from the meter before this one.
func (r *resource) takenBefore(at time.Time) bool { return !r.changed.IsZero() && !at.After(r.changed) }

// far is later than any wait: an answer beyond it means "when something
// happens", as for a limit on what is in flight.
const far = 5 * 365 * 24 * time.Hour
