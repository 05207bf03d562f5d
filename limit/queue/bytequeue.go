package queue

import (
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// byteQueue is the queue of the byte requests of a site.
type byteQueue struct {
	agenda           *agenda
	byteRequests     []*ByteWait // the byte requests that wait, in order of arrival
	offered          []*hold     // holds whose reserved bytes they may take
	blockedResources []*resource // resources that some byte request waits for
	recheckAt        time.Time   // when time alone may grant a byte request; zero is never
}

// drop removes a byte request whose caller has gone.
func (q *byteQueue) drop(now time.Time, b *ByteWait) {
	if i := slices.Index(q.byteRequests, b); i >= 0 {
		b.holdAgain(now, 0, 0)
		q.byteRequests = slices.Delete(q.byteRequests, i, i+1)
		q.agenda.bytesChanged = true
	}
}

// grantBytes grants the byte requests for which there is enough, in the order of their
// arrival. A byte request that has to wait claims the resource that it waits for: no byte
// request behind it and no hold takes from that resource until it is granted. The other
// resources that it needs are left to others.
func (q *byteQueue) grantBytes(now time.Time, granted []*ByteWait) []*ByteWait {
	if !q.agenda.bytesChanged && (q.recheckAt.IsZero() || q.recheckAt.After(now)) {
		return granted
	}
	before := q.blockedResources
	for _, res := range before {
		res.waitingBytes = 0
	}
	q.blockedResources, q.recheckAt = nil, time.Time{}
	q.byteRequests = slices.DeleteFunc(q.byteRequests, func(b *ByteWait) bool {
		goes := q.tryBytes(now, b)
		if goes {
			granted = append(granted, b)
		}
		return goes
	})
	q.agenda.bytesChanged = false
	for _, res := range before {
		res.noteDemand()
		if res.waitingBytes == 0 {
			res.markDirty()
		}
	}
	return granted
}

// tryBytes grants a byte request, or marks the resource that it waits for.
func (q *byteQueue) tryBytes(now time.Time, b *ByteWait) bool {
	resources := b.source.resources
	for _, res := range resources {
		if res.waitingBytes > 0 {
			res.waitingBytes += b.draw.Most
			return false
		}
	}
	if granted := q.take(now, b.source, &b.draw); granted > 0 {
		b.source.hold(b.unread + b.spare) // which it has taken again
		b.over, b.granted = true, max(granted-b.spare, 1)
		return true
	}
	if !mayHold(now, resources, b.draw.Hold) {
		return false
	}
	by, at := longestWait(now, resources, b.draw.Least)
	if by == nil { // a rounding
		by, at = resources[0], now.Add(time.Millisecond)
	}
	by.waitingBytes = b.draw.Most
	by.noteDemand()
	q.blockedResources = append(q.blockedResources, by)
	if at.Before(limit.Unknown) && (q.recheckAt.IsZero() || at.Before(q.recheckAt)) {
		q.recheckAt = at
	}
	return false
}

// unreserve gives back what a granted request has taken of limits that count bytes. From now
// on a byte source takes the bytes as they pass.
func (q *byteQueue) unreserve(now time.Time, h *hold) bool {
	if h.state != stateGranted || h.grant.unreserved || h.grant.forced {
		return false
	}
	q.withdraw(h)
	for _, n := range h.needs[h.grant.choice] {
		if n.of != Bytes || n.n <= 0 {
			continue
		}
		h.grant.unreserved = true
		n.resource.inFlight -= n.n
		if n.resource.knows(h.grant.at()) {
			n.resource.meter.Give(now, h.grant.taken, n.n)
		}
		n.resource.markDirty()
	}
	return h.grant.unreserved
}

// offer lets byte requests take the bytes that a granted request has reserved, when they find
// no others. The request is under way, and takes its bytes through a byte source too.
func (q *byteQueue) offer(h *hold) bool {
	if h.state != stateGranted || h.grant.unreserved || h.grant.forced || h.grant.offered {
		return false
	}
	for _, n := range h.needs[h.grant.choice] {
		if n.of == Bytes && n.n > 0 {
			h.grant.offered = true
			q.offered = append(q.offered, h)
			q.agenda.bytesChanged = true
			return true
		}
	}
	return false
}

// withdraw ends the offer of a request that is over or has no reserved bytes any more.
func (q *byteQueue) withdraw(h *hold) {
	if !h.grant.offered {
		return
	}
	h.grant.offered = false
	q.offered = slices.DeleteFunc(q.offered, func(o *hold) bool { return o == h })
}

// take takes what a byte source asks for. If there is nothing to take, it unreserves the bytes of
// requests that offer them, one after the other.
func (q *byteQueue) take(now time.Time, t *ByteSource, d *Draw) int64 {
	if !mayHold(now, t.resources, d.Hold) {
		return 0
	}
	granted := takeFromAll(now, t.resources, d.Most, d.Least)
	for granted == 0 {
		if by, _ := longestWait(now, t.resources, d.Least); by == nil || !q.unreserveOffered(now, []*resource{by}) {
			return 0
		}
		granted = takeFromAll(now, t.resources, d.Most, d.Least)
	}
	t.note(now, granted)
	t.hold(max(min(d.Hold, granted-1), 0))
	return granted
}

// mayHold tells whether a connection may hold n more bytes. All connections hold at most half of
// a limit together, and one connection what it needs.
func mayHold(now time.Time, resources []*resource, n int64) bool {
	return n == 0 || !slices.ContainsFunc(resources, func(res *resource) bool {
		whole := res.measure(now).whole
		return res.held > 0 && whole > 0 && res.held+n > whole/2
	})
}

// unreserveOffered unreserves the bytes of one request that offers some of the resources.
func (q *byteQueue) unreserveOffered(now time.Time, resources []*resource) bool {
	i := slices.IndexFunc(q.offered, func(h *hold) bool { return slices.ContainsFunc(resources, h.takes) })
	return i >= 0 && q.unreserve(now, q.offered[i])
}

// refuse ends the byte requests of an account that wait, or all that wait if of is nil.
func (q *byteQueue) refuse(now time.Time, of *ByteSource, err error) {
	q.byteRequests = slices.DeleteFunc(q.byteRequests, func(b *ByteWait) bool {
		if of != nil && b.source != of {
			return false
		}
		b.holdAgain(now, 0, 0)
		b.over, b.err = true, err
		b.waker.Send()
		return true
	})
	q.agenda.bytesChanged = true
}

// ByteWait is an amount of bytes that a request or a tunnel which is under way waits
// for: see ByteSource.Enter.
type ByteWait struct {
	source  *ByteSource
	draw    Draw
	unread  int64 // see Draw.Arrived
	spare   int64 // part of draw.Most that was held before
	granted int64 // bytes; 0 while it waits
	over    bool  // granted or refused
	err     error
	waker   waker
}

// takeFromAll takes the same amount from each resource: at most n and at least the least, which is not more, or
// nothing. From a resource that can never have the least, all that it can have is enough.
func takeFromAll(now time.Time, resources []*resource, n, least int64) int64 {
	for _, res := range resources {
		if res.meter == nil {
			continue
		}
		left := res.meter.Left(now)
		if left < least {
			least = res.within(now, least)
		}
		if left < least {
			if at, ok := res.meter.When(now, least); !ok || at.After(now) {
				return 0
			}
			left = least
		}
		n = min(n, left)
	}
	for _, res := range resources {
		if res.meter != nil {
			res.meter.Take(now, n)
		}
	}
	return n
}

// longestWait returns the time at which all resources have an amount, and the resource that has it last; nil if
// that is now. The time is limit.Unknown if it is not known.
func longestWait(now time.Time, resources []*resource, n int64) (by *resource, at time.Time) {
	at = now
	for _, res := range resources {
		if res.meter == nil {
			continue
		}
		t, ok := res.meter.When(now, res.within(now, n))
		if !ok || t.Sub(now) > far {
			t = limit.Unknown
		}
		if t.After(at) {
			by, at = res, t
		}
	}
	return by, at
}
