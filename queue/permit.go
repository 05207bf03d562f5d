package queue

import (
	"context"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Permit is the right to send one request, once. Finish it exactly when the
// request is over; finishing it again does nothing, so that it can be deferred:
//
//	permit, err := gate.Wait(ctx, request)
//	if err != nil { … }
//	defer permit.Finish(queue.Result{Outcome: limit.Abandoned})
type Permit struct {
	hold    Hold
	request Request
	site    *site
	ctx     context.Context // of the wait that goes on
	asked   time.Time
	waited  time.Duration
	tries   int
	would   *Keeps
	ready   chan struct{}

	one [1][]Need // room for what hold.Needs usually has
	few [4]Need
}

// tell wakes who waits. It never blocks: a hold is let go once for each wait.
func (p *Permit) tell() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// wait waits for a hold that has been added.
func (p *Permit) wait(ctx context.Context) error {
	select {
	case <-p.ready:
	case <-ctx.Done():
		p.leave()
		return ctx.Err()
	}
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := p.hold.refusal; r != nil {
		return r
	}
	p.waited += p.hold.taken.Sub(p.asked)
	return nil
}

// leave is for a client that hung up: the hold goes, or gives back what it was
// just granted.
func (p *Permit) leave() {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.sched.Cancel(now, &p.hold) {
		_ = s.sched.Finish(now, &p.hold, Result{Outcome: limit.Abandoned, Unsent: true}) // it was refused, then
	}
	s.step(now)
}

// Choice is which alternative of the request's limits was taken.
func (p *Permit) Choice() int { return p.hold.choice }

// Waited is how long it was held, in all its waits.
func (p *Permit) Waited() time.Duration { return p.waited }

// Attempts is how often it was granted.
func (p *Permit) Attempts() int { return p.tries + 1 }

// Would is what would have kept an observed request, or nil.
func (p *Permit) Would() *Keeps { return p.would }

// Finish ends the request, with what it truly cost.
func (p *Permit) Finish(r Result) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.sched.Finish(now, &p.hold, r) == nil {
		s.step(now)
	}
}

// Retry is why and when a request is sent again.
type Retry struct {
	Result    Result    // of the try that is over
	NotBefore time.Time // backoff of this request alone; zero is none

	Cool  Scope     // what the site refused, if Until is set
	Until time.Time // before which nothing of that scope is sent
	Why   string    // who said so: "Retry-After"
}

// Again ends one try and waits for the next, at the request's old place. With an
// error the permit is finished; the error is the context's or a *Refusal.
func (p *Permit) Again(ctx context.Context, r Retry) error {
	s := p.site
	s.mu.Lock()
	now := time.Now()
	if !r.Until.IsZero() {
		if slot := s.find(r.Cool); slot != nil {
			s.sched.Cool(slot, r.Until, r.Why)
		}
	}
	p.ctx, p.asked = ctx, now
	if p.hold.Deadline.IsZero() {
		// It was let go at once the first time: its wait begins to count now.
		if b := s.gate.bounds.Load(); b.Wait > 0 || p.request.Wait > 0 {
			wait := b.Wait
			if p.request.Wait > 0 && (wait <= 0 || p.request.Wait < wait) {
				wait = p.request.Wait
			}
			p.hold.Deadline = p.hold.added.Add(wait)
		}
	}
	p.ready = make(chan struct{}, 1)
	if err := s.sched.Return(now, &p.hold, r.Result, r.NotBefore); err != nil {
		s.step(now)
		s.mu.Unlock()
		return err
	}
	if s.replan != nil {
		s.again(now, &p.hold)
	}
	s.step(now)
	s.mu.Unlock()
	if err := p.wait(ctx); err != nil {
		return err
	}
	p.tries++
	return nil
}

// Cool keeps everything of a scope from being sent before until.
func (p *Permit) Cool(at Scope, until time.Time, why string) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.find(at); slot != nil {
		s.sched.Cool(slot, until, why)
		s.step(time.Now())
	}
}

// Observe tells the meter of a scope what the server said of it.
func (p *Permit) Observe(at Scope, o limit.Observation) {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot := s.find(at); slot != nil {
		now := time.Now()
		s.sched.Observe(now, slot, o)
		s.step(now)
	}
}

// find is the slot of a scope, or nil when there is none.
func (s *site) find(at Scope) *Slot {
	if at == (Scope{}) {
		return s.all
	}
	if e := s.slots[at]; e != nil {
		return e.slot
	}
	return nil
}
