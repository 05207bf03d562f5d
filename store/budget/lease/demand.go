package lease

import (
	"hash/fnv"
	"time"

	"github.com/abide-proxy/abide/store"
)

const (
	// horizonPart is the part of a window that is asked for in advance, between
	// horizonLeast and horizonMost.
	horizonPart  = 16
	horizonLeast = int64(200 * time.Millisecond)
	horizonMost  = int64(5 * time.Second)
	// returnPause is the first pause between a return of units that were asked for and the next ask.
	returnPause = int64(50 * time.Millisecond)
	// minPoll and maxPoll bound the pause between asks for units that other instances may
	// return.
	minPoll = 10 * second
	maxPoll = 900 * second
	// maxUnwantedAnswers bounds the answers without a grant in a row while no request asks
	// for the meter. After more of them no request is assumed to wait.
	maxUnwantedAnswers = 3
)

// demand calculates how many units should be held: what waits for a budget, and how fast
// units are taken.
type demand struct {
	a                *Account
	held             *leases
	rate             rateMeter
	lastTake         int64 // time of the last take
	lastUnits        int64 // units of the last take
	lastReturn       int64 // time of the last return
	fruitlessReturns int   // returns of units that had been asked for

	waiting         int64 // units that cannot be taken
	minimum         int64 // the part of them that is needed at once
	unwantedAnswers int   // answers without a request asking again

	pollAt           int64 // nothing is left: do not ask before
	pollPause        int64 // the pause before pollAt
	noPrefetchBefore int64 // low: nothing is asked for in advance before
}

// setWaiting sets how many units wait. Only an increase counts for the rate: units that
// wait for the next window are taken together, which says nothing about the rate after
// that.
func (d *demand) setWaiting(at instant, units int64) {
	if added := units - d.waiting; added > 0 {
		d.rate.add(at.low, added)
	}
	d.waiting, d.unwantedAnswers = units, 0
}

// isShort tells whether units wait that the available units do not cover.
func (d *demand) isShort(room int64) bool {
	return d.held.owed > 0 || d.waiting > 0 && room < max(d.minimum, 1)
}

// storeEmpty tells whether the store had nothing left by its last answer.
func (d *demand) storeEmpty(at instant) bool {
	k := &d.held.known
	return d.pollPause > 0 && at.low < k.endedBy && k.slept == at.slept()
}

// goal returns how many units should be held: those that wait, and those that will be
// taken soon.
func (d *demand) goal(at instant, h *hold) int64 {
	span := min(d.horizon(), d.rate.expectedFor(at.low))
	if h != nil && !d.held.farFromLimit(at) {
		span = min(span, h.until-at.high)
	}
	if d.a.releasing || d.rate.unitsIn(at.low, second) < 2 {
		span = 0
	}
	units := min(d.waiting+d.rate.unitsIn(at.low, span), d.held.budget.amount)
	if units > 0 {
		units = max(units, d.share(at))
	}
	return units
}

// needsSoon tells whether the units will be insufficient soon.
func (d *demand) needsSoon(at instant, h *hold, room int64) bool {
	if h == nil || d.lastTake <= d.lastReturn || at.low < d.noPrefetchBefore {
		return false
	}
	goal := d.goal(at, h)
	return room < askThreshold(goal) && d.held.expectsGrant(at, goal-room)
}

// askThreshold is the number of units left at which more are asked for.
func askThreshold(goal int64) int64 { return (goal + 3) / 4 }

// lead returns the time before the end of a window at which units of the next are asked
// for. It differs between instances, so that their asks are spread.
func (d *demand) lead(length int64) int64 {
	lead := min(max(length/20, minRetry+2*d.a.usualAnswer+margin(length)), 2*second)
	f := fnv.New32a()
	_, _ = f.Write([]byte(d.a.o.Instance))
	return lead - lead/4*int64(f.Sum32()%256)/256
}

// wantedAhead returns how many units of the next window are wanted.
func (d *demand) wantedAhead(at instant) int64 {
	return min(max(d.waiting, d.rate.unitsIn(at.low, d.horizon())), d.held.budget.amount)
}

// returnDue returns the time from which unspent units should be returned.
func (d *demand) returnDue(at instant, h *hold, room int64) int64 {
	b, k := &d.held.budget, &d.held.known
	low := never
	for i := range d.held.holds {
		o := &d.held.holds[i]
		switch {
		case o.n <= o.used:
		case d.a.releasing && d.waiting == 0:
			return at.low
		case d.laterUnwanted(at, o):
			low = min(low, max(d.lastTake, k.heardAt)+idleBeforeReturn)
		case b.kind == store.Rolling && o.ended(at) && d.shareTime(at) > 0: // with the next ask
		case b.kind == store.Rolling && o.ended(at): // it counts for a long time
			low = min(low, max(o.endedBy+int64(b.window)/horizonPart/8, at.low))
		case b.kind == store.Rolling:
			low = min(low, o.endedBy)
		case o.from > at.low:
			low = min(low, o.from+idleBeforeReturn)
		}
	}
	if h == nil || room == 0 || d.isShort(room) {
		return low
	}
	return min(low, d.idleAt(at, h))
}

// laterUnwanted tells whether units of a later slot are held and none wait any more.
func (d *demand) laterUnwanted(at instant, h *hold) bool {
	return d.held.budget.kind == store.Rolling && h.reserved(at) > 0 && d.waiting == 0
}

// idleAt returns the time from which units should be returned because none were taken.
func (d *demand) idleAt(at instant, h *hold) int64 {
	k := &d.held.known
	delay := max(idleBeforeReturn, d.shareTime(at))
	if h.from > at.low { // some units may be usable before
		return max(d.lastTake, k.heardAt) + delay
	}
	return max(d.lastTake, k.heardAt, h.from) + delay
}

// servedLater tells whether most waiting units have a place in a later slot, and from when
// on.
func (d *demand) servedLater(at instant, room int64) (from int64, enough bool) {
	n, from := d.held.reservedLater(at)
	return from, n > 0 && 2*n >= d.waiting-room
}

// The store grants units of a rolling limit by slots. While the limit is far from being
// reached, units of a slot may be used until the end of a later slot, in which they count.
// So one request waits for an answer when they end, and none at the boundaries of slots between.

// laterSlots returns the number of slots after the present one that an ask covers.
func (d *demand) laterSlots(at instant) int {
	b := &d.held.budget
	if b.kind != store.Rolling || b.once {
		return 0
	}
	span := d.horizon() + min(d.lead(b.width), int64(b.window)/4)
	if d.share(at) > 0 {
		span = max(span, int64(b.window)/4)
		if k := &d.held.known; d.a.ownsSite && (!k.set || at.low >= k.endedBy+b.countsFor() || k.remaining > b.amount/4*3) {
			span = max(span, int64(b.window)/2)
		}
	}
	return int(min((span-1)/b.width+1, int64(b.slots)))
}

// slotsTooShort tells whether the slot of a grant may be over when the answer arrives.
// Units of the next slot can be used then.
func (d *demand) slotsTooShort() bool {
	b := &d.held.budget
	return 2*d.a.usualAnswer+margin(b.width) > b.width/2
}

// reserveAhead returns how many units of later slots are wanted when units wait. If slots
// are small compared with the waiting units, each slot fits one take, and a remainder of
// several is useless.
func (d *demand) reserveAhead(at instant, least, waits int64) int64 {
	b := &d.held.budget
	if least > b.amount/int64(4*b.slots) {
		return least
	}
	span := min(d.rate.expectedFor(at.low), b.width+100*int64(time.Millisecond))
	return min(waits+d.rate.unitsIn(at.low, span), b.amount)
}

// horizon returns the time ahead for which units are asked for.
func (d *demand) horizon() int64 {
	b := &d.held.budget
	if b.kind == store.Quota {
		return second // a killed process loses its units for the whole period
	}
	return min(max(int64(b.window)/horizonPart, horizonLeast), horizonMost)
}

// A budget that no other instance uses need not be asked for in small parts. The owner of a
// site takes a large share with its first request, and holds the share as long as it lasts.
// An instance that only appears to be alone takes less, when it asks again soon, and
// returns the share after a while. Other instances may join in both cases: the store grants
// nothing twice, so they find less until then.
const (
	ownedPart      = 8 // -
	alonePart      = 16
	quotaPart      = 256 // of a day or a month, which is lost with a process that is killed
	aloneShareTime = 30 * second
)

// alone tells whether no other instance used the budget by the store's last answer.
func (d *demand) alone(at instant) bool {
	b := &d.held.budget
	k := &d.held.known
	return k.set && k.holders <= 1 && d.lastTake > 0 && at.low < k.endedBy+max(b.countsFor(), b.width)
}

// share returns the units taken at once of a budget that no other instance uses.
func (d *demand) share(at instant) int64 {
	b, k := &d.held.budget, &d.held.known
	switch {
	case b.once || d.a.releasing:
		return 0
	case b.kind == store.Rolling && k.set && at.low < k.endedBy+b.countsFor() && !d.held.farFromLimit(at):
		return 0 // a share may be used for one slot only
	case !d.a.ownsSite && (!d.alone(at) || at.low-d.lastTake >= aloneShareTime/2), d.a.ownsSite && k.set && k.holders > 1:
		return 0
	}
	return d.part()
}

// part returns the size of a share, as a fraction of the amount.
func (d *demand) part() int64 {
	b := &d.held.budget
	switch {
	case b.kind == store.Quota:
		return b.amount / quotaPart
	case d.a.ownsSite:
		return b.amount / ownedPart
	}
	return b.amount / alonePart
}

// shareTime returns the time after which an unspent share is returned; 0: there is no
// share.
func (d *demand) shareTime(at instant) int64 {
	b := &d.held.budget
	switch {
	case d.a.releasing || b.once || !d.alone(at) || d.held.available(at) > d.part():
		return 0
	case d.a.ownsSite && b.kind != store.Quota:
		return never / 2
	}
	return aloneShareTime
}

// rateMeter measures how fast units are taken: in this second, and in the one before.
type rateMeter struct {
	secondStart            int64
	busySince              int64 // since when every second had a take
	thisSecond, lastSecond int64
}

func (p *rateMeter) add(low, n int64) {
	p.advance(low)
	p.thisSecond = min(p.thisSecond+n, maxAmount)
}

func (p *rateMeter) advance(low int64) {
	switch k := (low - p.secondStart) / second; {
	case k <= 0:
	case k == 1:
		p.secondStart, p.lastSecond, p.thisSecond = p.secondStart+second, p.thisSecond, 0
	default:
		p.secondStart, p.busySince, p.lastSecond, p.thisSecond = low, low, 0, 0
	}
}

// unitsIn returns how many units are taken in span at this rate.
func (p *rateMeter) unitsIn(low, span int64) int64 {
	p.advance(low)
	part := float64(second-(low-p.secondStart)) / float64(second)
	return int64((float64(p.lastSecond)*part + float64(p.thisSecond)) * float64(span) / float64(second))
}

// expectedFor returns how long the rate is expected to continue: a recent start may end as
// soon.
func (p *rateMeter) expectedFor(low int64) int64 { return 2*(low-p.busySince) + horizonLeast }
