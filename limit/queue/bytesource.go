package queue

import (
	"errors"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// ErrGone is the error of a byte request whose connection is closed.
var ErrGone = errors.New("the connection is closed")

// ByteSource takes bytes for a transfer that is under way: the body of a request, or a
// tunnel, which has no permit. It is safe for concurrent use. Close it in the end.
type ByteSource struct {
	site        *site
	byteAccount // the site's lock guards it
}

// ByteSource makes a byte source for the limits of a request that count bytes. Of several
// alternatives it has the one that Request.Chooser chooses, or the first.
func (g *Gate) ByteSource(r Request) *ByteSource {
	s := g.lock(r.Site)
	defer s.mu.Unlock()
	s.sources++
	t := &ByteSource{site: s, byteAccount: byteAccount{request: r}}
	s.findResources(g.clock.Now(), &t.byteAccount)
	return t
}

// Take takes bytes from all limits, the same amount from each: at most n and at least the
// least, or all that a limit can ever give, as soon as that is available. Earlier byte
// requests go first, and all go before any new request. Take ends without bytes when done
// is closed, with ErrGone, or at until, with a *Refusal that says when the bytes would
// have been available; a zero until is never.
func (t *ByteSource) Take(done <-chan struct{}, n, least int64, until time.Time) (granted int64, err error) {
	if n <= 0 {
		return 0, nil
	}
	granted, b, err := t.begin(n, least, until, nil)
	if b == nil {
		return granted, err
	}
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-b.waker.(wakeChannel):
	case <-done:
		err = ErrGone
	case <-late:
	}
	return t.end(b, err)
}

// begin takes what is available, or queues a byte request. Without a waker, that one has a
// wakeChannel.
func (t *ByteSource) begin(n, least int64, until time.Time, w waker) (int64, *byteRequest, error) {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.gate.clock.Now()
	if t.closed {
		return 0, nil, ErrGone
	}
	t.follow(now)
	if !anyWaiting(t.resources) {
		if granted := s.sched.takeOrUnreserve(now, t.resources, n, least); granted > 0 {
			t.note(now, granted)
			return granted, nil, nil
		}
	}
	if s.gate.over.Load() {
		return 0, nil, &Refusal{Reason: Draining}
	}
	if w == nil {
		w = make(wakeChannel, 1)
	}
	b := &byteRequest{source: &t.byteAccount, most: n, least: max(min(least, n), 1), waker: w}
	if !until.IsZero() && !until.After(now) {
		by, err := t.stalled(now, b)
		if by != nil && by.demand != nil {
			by.hint(now, n)
		}
		return 0, nil, err
	}
	s.sched.waitForBytes(b)
	s.step(now)
	if b.over {
		return b.granted, nil, b.err
	}
	return 0, b, nil
}

// end is the result of a byte request that has waited. It takes the request out of the queue,
// unless the request was granted meanwhile.
func (t *ByteSource) end(b *byteRequest, err error) (int64, error) {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.over {
		return b.granted, b.err
	}
	now := s.gate.clock.Now()
	if err == nil {
		_, err = t.stalled(now, b)
	}
	s.sched.drop(b)
	s.step(now)
	return 0, err
}

// stalled is the refusal of a byte request whose time is over, and the resource that blocks it.
func (t *ByteSource) stalled(now time.Time, b *byteRequest) (*resource, error) {
	refusal := &Refusal{Reason: stalled}
	by, at := longestWait(now, t.resources, b.least)
	if at.Before(limit.Unknown) {
		refusal.RetryAt = at
	}
	if by == nil { // enough, but others come first
		refusal.RetryAt = t.site.sched.recheckAt
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

// Refund gives back n bytes that were taken last and have not passed. Bytes beyond what is
// remembered (refundable) are given back as if they had all been taken last.
func (t *ByteSource) Refund(n int64) {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed || n <= 0 {
		return
	}
	now := s.gate.clock.Now()
	for n > 0 && t.numRecent > 0 {
		last := &t.recent[t.numRecent-1]
		part := min(n, last.n)
		for _, res := range t.resources {
			if res.knows(last.at) {
				res.meter.Give(now, last.at, part)
				res.markDirty()
			}
		}
		n -= part
		if last.n -= part; last.n == 0 {
			t.numRecent--
		}
	}
	for _, res := range t.resources {
		if n > 0 && res.knows(t.last) {
			res.meter.Give(now, t.last, n)
			res.markDirty()
		}
	}
	s.step(now)
}

// Left is how many bytes could be taken at once if no other byte request waited; -1 if no
// limit counts bytes.
func (t *ByteSource) Left() int64 {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now, left := s.gate.clock.Now(), int64(-1)
	for _, res := range t.resources {
		if res.meter == nil {
			continue
		}
		if n := res.meter.Left(now); left < 0 || n < left {
			left = n
		}
	}
	return left
}

// Close ends the byte source. Calls of Take that wait end with ErrGone. What was taken stays taken.
func (t *ByteSource) Close() {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed {
		return
	}
	now := s.gate.clock.Now()
	t.release(now)
	t.closed = true
	s.sources--
	s.sched.byteQueue.refuse(&t.byteAccount, ErrGone)
	s.step(now)
}

// follow finds the resources anew if the limits may have changed.
func (t *ByteSource) follow(now time.Time) {
	if s := t.site; t.generation != s.gate.latest.Load().number || t.version != s.version {
		s.findResources(now, &t.byteAccount)
		if len(s.sched.byteRequests) > 0 {
			s.sched.bytesChanged = true
			s.step(now)
		}
	}
}

// UnreserveOffered unreserves the bytes of one request that offers them, if it has
// reserved any of a limit that the byte source takes from: its connection takes them as
// they pass.
func (t *ByteSource) UnreserveOffered() {
	s := t.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed {
		return
	}
	i := slices.IndexFunc(s.sched.offered, func(h *hold) bool { return slices.ContainsFunc(t.resources, h.takes) })
	if i < 0 {
		return
	}
	now := s.gate.clock.Now()
	s.sched.unreserve(now, s.sched.offered[i])
	if len(s.sched.byteRequests) > 0 {
		s.step(now)
	}
}
