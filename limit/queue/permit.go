package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit"
)

// Permit is the right to send one request, once. Finish it exactly when the
// request is over; finishing it again does nothing, so that it can be deferred:
//
//	permit, err := gate.Wait(ctx, request)
//	if err != nil { … }
//	defer permit.Finish(queue.Result{Outcome: limit.Abandoned})
type Permit struct {
	request Request
	hold    hold
	site    *site
	awaited bool // others may wait for the answer; used without a lock
	would   *Blocker

	// The wait that goes on:
	ctx    context.Context
	asked  time.Time // when it began
	waker  waker
	waited time.Duration // in the waits before
}

// enter grants a permit's request, or puts it in the queue. It unlocks the site.
func (s *site) enter(p *Permit) (held bool, err error) {
	defer s.mu.Unlock()
	now, g, r := p.asked, s.gate, &p.request
	s.renew(r)
	if p.hold.needs, p.hold.choices, err = s.registry.plan(now, r); err != nil {
		return false, err
	}
	if r.Observe {
		p.would = s.sched.force(now, &p.hold)
		return false, nil
	}
	if s.sched.tryAtOnce(now, &p.hold) {
		p.awaited = p.hold.grant.probes
		return false, nil
	}
	b := g.bounds.Load()
	p.hold.deadline = b.deadline(r, now)
	// Before others make room for it.
	if refusal := s.sched.clients.estimate(now, &p.hold); refusal != nil {
		p.hold.hint(now)
		return false, refusal
	}
	if !r.Now { // it waits for the answer of a store at most
		if err := s.room(now, b, *r); err != nil {
			return false, err
		}
	}
	p.beginWait()
	s.sched.add(now, &p.hold)
	s.step(now)
	if refusal := p.hold.refusal; refusal != nil {
		return false, refusal
	}
	return true, nil
}

// room makes room for one more hold, or answers which bound has none.
func (s *site) room(now time.Time, b *Bounds, r Request) error {
	refusal := func(why Reason, setting string, n int) *Refusal {
		at := s.sched.nextAt()
		if at.IsZero() {
			at = now.Add(time.Second)
		}
		return &Refusal{Reason: why, Limit: fmt.Sprintf("%s: %d", setting, n), RetryAt: at}
	}
	if b.PerSite > 0 && s.sched.held >= b.PerSite {
		full := refusal(siteFull, "queue.per_site", b.PerSite)
		greedy := s.sched.evict(now, r.Client, r.Weight)
		if greedy == nil {
			return full
		}
		greedy.refusal = full
		greedy.owner.wake()
		return nil // its place in the count goes over
	}
	if n := s.gate.held.Add(1); b.Max > 0 && n > int64(b.Max) {
		s.gate.held.Add(-1)
		return refusal(allFull, "queue.max", b.Max)
	}
	s.heldCounted++
	return nil
}

// reportWait tells the hooks that the request waits.
func (p *Permit) reportWait() {
	if ready, waits := p.waker.(signal.Signal); waits && len(ready) > 0 {
		return
	}
	if hooks := p.site.gate.latest.Load().hooks; hooks != nil {
		hooks.Waits(&p.request, p)
	}
}

// wait waits for a hold that has been added.
func (p *Permit) wait(ctx context.Context) error {
	select {
	case <-p.waker.(signal.Signal):
		return p.Woken()
	case <-ctx.Done():
		p.Leave()
		return ctx.Err()
	}
}

// Woken is the result of a wait that is over: nil, and the request may be sent, or a
// *Refusal.
func (p *Permit) Woken() error {
	s, _ := p.site.lock()
	defer s.mu.Unlock()
	if r := p.hold.refusal; r != nil {
		return r
	}
	p.waited += p.hold.grant.taken.Sub(p.asked)
	p.awaited = p.hold.grant.probes
	return nil
}

// Leave ends the wait of a client that hung up: the hold goes, or gives back what it was
// just granted.
func (p *Permit) Leave() {
	s, now := p.site.lock()
	defer s.mu.Unlock()
	if !s.sched.cancel(now, &p.hold) {
		_ = s.sched.finish(now, &p.hold, Result{Outcome: limit.Abandoned, Unsent: true}) // it was refused, then
	}
	s.step(now)
}

// Choice returns the alternative of the request's limits that was taken.
func (p *Permit) Choice() int { return int(p.hold.grant.choice) }

// Opens returns the time at which an alternative has enough for the request; zero: it has now, or nobody knows.
func (p *Permit) Opens(i int) time.Time {
	s, now := p.site.lock()
	defer s.mu.Unlock()
	if i < len(p.hold.needs) {
		if b := longestBlock(now, now, p.hold.needs[i]); b.resource != nil && b.at.Sub(now) <= far {
			return b.at
		}
	}
	return time.Time{}
}

// Granted returns the time its last try was granted, and after Sent the time that went out: the
// time by which meters know what it took.
func (p *Permit) Granted() time.Time {
	s, _ := p.site.lock()
	defer s.mu.Unlock()
	return p.hold.grant.taken
}

// Waited returns the time it was held, in all its waits.
func (p *Permit) Waited() time.Duration { return p.waited }

// BlockedBy is the title of the limit that held it for longest in its last wait, as in
// Blocked; "" if it was never held.
func (p *Permit) BlockedBy() string { return p.hold.blockedBy }

// Blocker returns the cause that blocks the request while it waits.
func (p *Permit) Blocker() Blocker {
	s, now := p.site.lock()
	defer s.mu.Unlock()
	if p.hold.state != stateWaiting && p.hold.state != stateDelayed {
		return Blocker{}
	}
	return titledBlocker(now, &p.hold)
}

// WouldBlock returns the cause that would have held an observed request, or nil.
func (p *Permit) WouldBlock() *Blocker { return p.would }

// Sent says that the request goes out only now: limits that count time count it from
// here, if that is later than the grant by a millisecond or more.
func (p *Permit) Sent() {
	s, now := p.site.lock()
	defer s.mu.Unlock()
	h := &p.hold
	if h.state != stateGranted || h.grant.forced || now.Sub(h.grant.taken) < time.Millisecond {
		return
	}
	for _, n := range h.needs[h.grant.choice] {
		n.resource.postpone(now, h, n)
	}
	h.grant.late += now.Sub(h.grant.taken)
	h.grant.taken = now
	s.step(now)
}

// Answered tells how the site has answered, as soon as that is known: a body may
// take long, and after a cooldown others wait for the news. It costs nothing
// otherwise.
func (p *Permit) Answered(o limit.Outcome) {
	if !p.awaited {
		return
	}
	p.awaited = false
	s, now := p.site.lock()
	defer s.mu.Unlock()
	p.hold.answered(now, o)
	s.step(now)
}

// Finish ends the request, with what it truly cost.
func (p *Permit) Finish(r Result) {
	s, now := p.site.lock()
	defer s.mu.Unlock()
	if s.sched.finish(now, &p.hold, r) == nil {
		s.step(now)
	}
}

// Retry is why and when a request is sent again.
type Retry struct {
	Result    Result    // of the try that is over
	NotBefore time.Time // backoff of this request alone; zero is none

	Cool  Scope     // what the site refused, if Until is set; the whole site if the request does not need it any more
	Until time.Time // before which nothing of that scope is sent
	Why   string    // who said so: "Retry-After"
	Alone bool      // never the whole site: nothing is cooled if the request does not need it any more

	Other bool // the request has other limits now: the hooks are asked for them
}

// Again ends one try and waits for the next, at the request's old place. With an
// error the permit is finished; the error is the context's or a *Refusal.
func (p *Permit) Again(ctx context.Context, r Retry) error {
	if err := p.Reenter(ctx, r); err != nil {
		return err
	}
	return p.wait(ctx)
}

// Reenter is Again without a goroutine that waits: see Gate.Enter.
func (p *Permit) Reenter(ctx context.Context, r Retry) error {
	s, now := p.site.lock()
	p.ctx, p.asked = ctx, now
	if p.hold.deadline.IsZero() {
		// It was let go at once the first time: its wait begins to count now.
		p.hold.deadline = s.gate.bounds.Load().deadline(&p.request, p.hold.added)
	}
	p.beginWait()
	if r.Other {
		s.ask(&p.request)
	}
	err := s.sched.giveBack(now, &p.hold, r.Result, r.NotBefore, s.needs(now, &p.hold))
	cool, longer := p.cool(p.hold.needs, r.Cool, r.Until, r.Why, r.Alone)
	if err == nil {
		err = s.stops(now, &p.hold)
	}
	s.step(now)
	s.mu.Unlock()
	if longer {
		s.gate.cooled(s.name, cool, r.Until, r.Why)
	}
	if err != nil {
		return err
	}
	if end := s.gate.drainEnd.Load(); end != nil && s.refuseAfter(*end, &p.hold) > 0 {
		return &Refusal{Reason: Draining}
	}
	p.reportWait()
	return nil
}

// stops takes a hold that has come back out of the queue again if it may not wait
// there.
func (s *site) stops(now time.Time, h *hold) error {
	var refusal *Refusal
	if end := s.gate.drainEnd.Load(); end != nil && !now.Before(*end) {
		refusal = &Refusal{Reason: Draining}
	} else if refusal = exhausted(now, h); refusal == nil {
		return nil
	}
	s.sched.cancel(now, h)
	return refusal
}

// Cool keeps everything of a scope from being sent before until.
func (p *Permit) Cool(at Scope, until time.Time, why string) {
	s, now := p.site.lock()
	needs := p.hold.needs
	if s.stale(&p.request) {
		needs = s.needs(now, &p.hold)
	}
	cool, longer := p.cool(needs, at, until, why, false)
	s.step(now)
	s.mu.Unlock()
	if longer {
		s.gate.cooled(s.name, cool, until, why)
	}
}

// cool begins the cooldown of a scope of which something is needed, with alone never that of the whole site. It returns
// the scope by which others find what cools, and whether it cools for longer than before.
func (p *Permit) cool(needs [][]need, at Scope, until time.Time, why string, alone bool) (Scope, bool) {
	all := &p.site.registry
	res := all.resourceOf(&p.request, needs, at)
	if res == all.whole {
		at = Scope{}
	}
	return Scope{at.Limit, boundKey(at.Key)}, !(alone && res == all.whole) && res.beginCooldown(until, why, p.hold.grant.number)
}

// RefusalsInRow returns the number of times in a row that a scope has been refused before this
// request was, each time after a cooldown and without a success between.
func (p *Permit) RefusalsInRow(at Scope) int {
	s, _ := p.site.lock()
	defer s.mu.Unlock()
	return s.registry.resourceOf(&p.request, p.hold.needs, at).cooldown.cooldownsInRow(p.hold.grant.number)
}

// Unreserve says that the answer has begun to come: what was taken for its bytes goes
// back, and byte sources draw them as they pass.
func (p *Permit) Unreserve() {
	s, now := p.site.lock()
	defer s.mu.Unlock()
	if s.sched.byteQueue.unreserve(now, &p.hold) {
		s.step(now)
	}
}

// OfferReserved says that the request is on its way. Byte sources of all requests may take
// the bytes that it has reserved if they find no others: otherwise granted requests would
// wait for bytes that are reserved for them.
func (p *Permit) OfferReserved() {
	s, now := p.site.lock()
	defer s.mu.Unlock()
	if s.sched.byteQueue.offer(&p.hold) && len(s.sched.byteQueue.byteRequests) > 0 {
		s.step(now)
	}
}

// beginWait prepares for a wait.
func (p *Permit) beginWait() {
	if _, calls := p.waker.(wakeFunc); !calls {
		p.waker = signal.New()
	}
}

// wake ends the wait.
func (p *Permit) wake() {
	if p.waker != nil {
		p.waker.Send()
	}
}

// waker hears that a wait is over: the signal.Signal of a goroutine that waits, or a wakeFunc. Send
// is called under the lock of a site and never blocks. It may be called more than once for a wait.
type waker interface{ Send() }

// wakeFunc is called when a wait is over: see Gate.Enter.
type wakeFunc func()

func (f wakeFunc) Send() { f() }
