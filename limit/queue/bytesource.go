package queue

import (
	"errors"
	"slices"
	"time"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit"
)

// ErrGone is the error of a byte request whose connection is closed.
var ErrGone = errors.New("the connection is closed")

// ByteSource takes bytes for a transfer that is under way: the body of a request, or a
// tunnel, which has no permit. It is safe for concurrent use. Close it in the end.
type ByteSource struct {
	site *site // its lock guards the fields below

	request   Request
	resources []*resource // of its limits
	closed    bool
	held      int64      // see Draw.Hold
	last      bytesTaken // what was taken last
}

// ByteSource makes a byte source for the limits of a request that count bytes. Of several
// alternatives it has the first.
func (g *Gate) ByteSource(r Request) *ByteSource {
	s := g.lock(r.Site)
	defer s.mu.Unlock()
	s.sources++
	t := &ByteSource{site: s, request: r}
	s.findResources(g.clock.Now(), t)
	return t
}

// Draw is an amount that a transfer takes of a byte source.
type Draw struct {
	Most, Least int64
	Until       time.Time // the end of the wait; zero is never
	// Hold is the part of Most that stays taken in every following window, until ByteSource.Release:
	// what the connection may receive before anybody reads it.
	Hold int64
	// Arrived, if set, returns how much of what the connection holds has arrived, and how much
	// cannot arrive before the draw is granted. It is called while the draw waits, without a lock.
	// Neither is taken of a window that begins meanwhile. The latter goes back, and is taken
	// again with the draw.
	Arrived func() (unread, spare int64)
}

// settleTime is the time of the first look at what a waiting connection has received. Each
// of the next looks comes after twice the time.
const settleTime = 10 * time.Millisecond

// Draw takes bytes from all limits, the same amount from each: at most Most and at least
// Least, or all that a limit can ever give, as soon as that is available. Earlier byte
// requests go first, and all go before any new request. Draw ends without bytes when done
// is closed, with ErrGone, or at Until, with a *Refusal that says when the bytes would
// have been available.
func (t *ByteSource) Draw(done <-chan struct{}, d Draw) (granted int64, err error) {
	if d.Most <= 0 {
		return 0, nil
	}
	granted, b, err := t.begin(d, nil)
	if b == nil {
		return granted, err
	}
	var late, settled <-chan time.Time
	if !d.Until.IsZero() {
		timer := time.NewTimer(time.Until(d.Until))
		defer timer.Stop()
		late = timer.C
	}
	look := settleTime
	if d.Arrived != nil {
		settled = time.After(look)
	}
	for {
		select {
		case <-b.waker.(signal.Signal):
		case <-done:
			err = ErrGone
		case <-late:
		case <-settled:
			unread, spare := d.Arrived()
			t.shrinkHold(b, unread, spare)
			look *= 2
			settled = time.After(look)
			continue
		}
		return t.end(b, err)
	}
}

// shrinkHold has a waiting connection hold only what can arrive meanwhile.
func (t *ByteSource) shrinkHold(b *ByteWait, unread, spare int64) {
	s, now := t.site.lock()
	defer s.mu.Unlock()
	if !b.over {
		b.holdAgain(now, unread, spare)
		s.step(now)
	}
}

// holdAgain changes how much of what the connection of a byte request holds is not held while it
// waits. The site's lock is held.
func (b *ByteWait) holdAgain(now time.Time, unread, spare int64) {
	t, less := b.source, spare-b.spare
	t.hold(b.unread - unread - less)
	b.unread, b.spare = unread, spare
	b.draw.Most, b.draw.Least = b.draw.Most+less, b.draw.Least+less
	if less > 0 {
		t.give(now, less, true)
		return
	}
	for _, res := range t.resources {
		if res.meter != nil {
			res.meter.Take(now, -less)
		}
	}
}

// hold adds n bytes to what the connections hold. The site's lock is held.
func (t *ByteSource) hold(n int64) {
	t.held += n
	for _, res := range t.resources {
		res.hold(n)
	}
	if n < 0 {
		t.site.sched.agenda.bytesChanged = true
	}
}

// Release ends the hold of n bytes, of which some go back to the limits.
func (t *ByteSource) Release(n, back int64) {
	s, now := t.site.lock()
	defer s.mu.Unlock()
	if t.closed {
		return
	}
	t.hold(-n)
	t.give(now, back, true)
	s.step(now)
}

// Crowded reports whether a connection of the site waits that holds nothing yet.
func (t *ByteSource) Crowded() bool {
	s, _ := t.site.lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.sched.byteQueue.byteRequests, func(b *ByteWait) bool { return b.draw.Hold > 0 })
}

// Enter is Draw without a goroutine that waits. If the ByteWait is not nil, the bytes are
// waited for, and woken is called when the wait is over; then ByteWait.End has its result,
// once. woken is called under the lock of the site, so it only notes the call.
func (t *ByteSource) Enter(n, least int64, woken func()) (granted int64, w *ByteWait, err error) {
	return t.begin(Draw{Most: n, Least: least}, wakeFunc(woken))
}

// End is the result of the wait. A wait that is not over ends without bytes, with ErrGone.
func (b *ByteWait) End() (granted int64, err error) { return b.source.end(b, ErrGone) }

// begin takes what is available, or queues a byte request. Without a waker, that one has a
// signal.Signal.
func (t *ByteSource) begin(d Draw, w waker) (int64, *ByteWait, error) {
	s, now := t.site.lock()
	defer s.mu.Unlock()
	if t.closed {
		return 0, nil, ErrGone
	}
	d.Least = max(min(d.Least, d.Most), 1)
	if t.follow(now) {
		s.step(now) // those that wait come first
	}
	if d.Hold > 0 {
		s.sched.byteQueue.unreserveOffered(now, t.resources)
	}
	if !slices.ContainsFunc(t.resources, func(res *resource) bool { return res.waitingBytes > 0 }) {
		if granted := s.sched.byteQueue.take(now, t, &d); granted > 0 {
			return granted, nil, nil
		}
	}
	if s.gate.over.Load() {
		return 0, nil, &Refusal{Reason: Draining}
	}
	if w == nil {
		w = signal.New()
	}
	b := &ByteWait{source: t, draw: d, waker: w}
	if !d.Until.IsZero() && !d.Until.After(now) {
		by, err := t.stalled(now, b)
		if by != nil && by.remote != nil {
			by.hint(now, d.Most)
		}
		return 0, nil, err
	}
	s.sched.byteQueue.byteRequests = append(s.sched.byteQueue.byteRequests, b)
	s.sched.byteQueue.agenda.bytesChanged = true
	s.step(now)
	if b.over {
		return b.granted, nil, b.err
	}
	return 0, b, nil
}

// end is the result of a byte request that has waited. It takes the request out of the queue,
// unless the request was granted meanwhile.
func (t *ByteSource) end(b *ByteWait, err error) (int64, error) {
	s, now := t.site.lock()
	defer s.mu.Unlock()
	if b.over {
		return b.granted, b.err
	}
	if err == nil {
		_, err = t.stalled(now, b)
	}
	s.sched.byteQueue.drop(now, b)
	s.step(now)
	return 0, err
}

// stalled is the refusal of a byte request whose time is over, and the resource that blocks it.
func (t *ByteSource) stalled(now time.Time, b *ByteWait) (*resource, error) {
	refusal := &Refusal{Reason: stalled}
	by, at := longestWait(now, t.resources, b.draw.Least)
	if at.Before(limit.Unknown) {
		refusal.RetryAt = at
	}
	if by == nil { // enough, but others come first
		refusal.RetryAt = t.site.sched.byteQueue.recheckAt
		for _, res := range t.resources {
			if res.waitingBytes > 0 {
				by = res
			}
		}
	}
	if by != nil {
		refusal.Limit = by.name
		if by.away(now) {
			refusal.Reason = Away
		}
	}
	return by, refusal
}

// Refund gives back n bytes that have not passed, as if they had all been taken last.
func (t *ByteSource) Refund(n int64) {
	s, now := t.site.lock()
	defer s.mu.Unlock()
	if t.closed || n <= 0 {
		return
	}
	t.give(now, n, false)
	s.step(now)
}

// give gives n bytes back, as what was taken last. Where windows begin with what is held, bytes that were held were taken
// in this window.
func (t *ByteSource) give(now time.Time, n int64, held bool) {
	if n <= 0 {
		return
	}
	for _, res := range t.resources {
		at := t.last.at
		if held && res.holder() != nil {
			at = now
		} else if !res.knows(at) {
			continue
		}
		res.meter.Give(now, at, n)
		res.markDirty()
	}
	t.last.n = max(t.last.n-n, 0)
}

// Close ends the byte source. Calls of Take that wait end with ErrGone. What was taken stays taken.
func (t *ByteSource) Close() {
	s, now := t.site.lock()
	defer s.mu.Unlock()
	if t.closed {
		return
	}
	t.release(now)
	t.closed = true
	s.sources--
	s.sched.byteQueue.refuse(now, t, ErrGone)
	s.step(now)
}

// follow finds the resources anew if the limits may have changed, and tells whether it did.
func (t *ByteSource) follow(now time.Time) bool {
	if !t.site.stale(&t.request) {
		return false
	}
	t.site.findResources(now, t)
	t.site.sched.agenda.bytesChanged = true
	return true
}

// bytesTaken is an amount that was taken at one time.
type bytesTaken struct {
	at time.Time
	n  int64
}

// note records bytes that were taken, and settles those before.
func (t *ByteSource) note(now time.Time, n int64) {
	if t.last.n > 0 && t.last.at.Equal(now) {
		t.last.n += n
		return
	}
	t.settle(now)
	t.last = bytesTaken{now, n}
}

// settle reports what was taken last to the meters as done.
func (t *ByteSource) settle(now time.Time) {
	for _, res := range t.resources {
		if t.last.n > 0 && res.knows(t.last.at) {
			res.meter.Done(now, t.last.at, t.last.n, limit.Abandoned)
		}
	}
	t.last.n = 0
}

// release settles what was taken, and gives back the resources: they have one user less.
func (t *ByteSource) release(now time.Time) {
	t.settle(now)
	for _, res := range t.resources {
		res.users--
		res.hold(-t.held)
		res.markDirty()
	}
	t.resources = nil
}

// findResources gives an account the resources of the newest limits of its request. If a
// limit makes no sense, the account keeps the resources that it has. The site's lock is held.
func (s *site) findResources(now time.Time, t *ByteSource) {
	s.registry.sweep(now)
	s.renew(&t.request)
	limits := t.request.Limits
	var list []Limit
	if len(limits) > 0 {
		list = limits[0]
	}
	var resources []*resource
	for i := range list {
		if list[i].Of != Bytes {
			continue
		}
		res, err := s.registry.resourceFor(now, &list[i], &t.request)
		if err != nil {
			return
		}
		if !slices.Contains(resources, res) {
			resources = append(resources, res)
		}
	}
	t.release(now) // what was taken of the old resources counts there
	t.resources = resources
	for _, res := range resources {
		res.users++
		res.hold(t.held)
	}
}

const (
	// bufferPart is the part of a limit of bytes that one connection may receive before
	// anybody reads it, where what comes in bufferTime is not more.
	bufferPart = 64
	bufferTime = 50 * time.Millisecond
	// bufferMost is the largest part.
	bufferMost = 36
	// leastBuffer and mostBuffer bound it: with less than the first the system's own
	// work is larger than what passes.
	leastBuffer, mostBuffer = 4608, 32 << 10
	// widePart is the part of a limit that one connection may receive ahead where that is
	// more than mostBuffer, and widest the largest such buffer in bytes.
	widePart, widest = 1024, 64 << 20
)

// BufferOf returns the number of bytes the system may receive on a connection under some limits
// before they are read. The connection holds as many bytes of the limits, so a small buffer lets
// more connections go at once, and a large buffer is faster over long distances. Where a limit is
// so loose that each connection takes a small part of it, buffers are large.
func BufferOf(limits []Limit) int64 {
	n, wide := int64(mostBuffer), int64(widest)
	for i := range limits {
		l := &limits[i]
		if l.Of != Bytes {
			continue
		}
		if l.Spec == nil { // nobody knows how large it is
			wide = 0
			continue
		}
		spec := l.Spec
		amount := min(spec.Amount, spec.AtOnce())
		wide = min(wide, amount/widePart)
		even := int64(0)
		if spec.Window > 0 {
			even = int64(float64(spec.Amount) / float64(spec.Window) * float64(bufferTime))
		}
		n = min(n, max(amount/bufferPart, min(even, amount/bufferMost)))
	}
	return max(n, wide, leastBuffer)
}
