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
	tries   int32
	asks    bool // others may wait for its answer
	would   *Keeps
	ready   chan struct{}
}

// wake tells who waits. It never blocks: a hold is let go once for each wait.
func (p *Permit) wake() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// wait waits for a hold that has been added.
func (p *Permit) wait(ctx context.Context) error {
	if len(p.ready) == 0 {
		if h, ok := p.request.Tag.(Holder); ok {
			h.Held(p)
		}
	}
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
	p.asks = p.hold.asks
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
func (p *Permit) Choice() int { return int(p.hold.choice) }

// Granted is when its last try was granted, and after Sent when that went out: the
// time by which meters know what it took.
func (p *Permit) Granted() time.Time {
	p.site.mu.Lock()
	defer p.site.mu.Unlock()
	return p.hold.taken
}

// Waited is how long it was held, in all its waits.
func (p *Permit) Waited() time.Duration { return p.waited }

// KeptBy is the title of the limit that held it for longest in its last wait, as in
// Blocked; "" if it was never held.
func (p *Permit) KeptBy() string { return p.hold.kept }

// Keeps is what keeps it while it waits.
func (p *Permit) Keeps() Keeps {
	p.site.mu.Lock()
	defer p.site.mu.Unlock()
	if p.hold.state != waiting && p.hold.state != resting {
		return Keeps{}
	}
	return p.site.sched.titled(time.Now(), &p.hold)
}

// Attempts is how often it was granted.
func (p *Permit) Attempts() int { return int(p.tries) + 1 }

// Would is what would have kept an observed request, or nil.
func (p *Permit) Would() *Keeps { return p.would }

// Answered tells how the site has answered, as soon as that is known: a body may
// take long, and after a cooldown others wait for the news. It costs nothing
// otherwise.
func (p *Permit) Answered(o limit.Outcome) {
	if !p.asks {
		return
	}
	p.asks = false
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.sched.Answered(now, &p.hold, o)
	s.step(now)
}

// Sent says that the request goes out only now: limits that count time count it from
// here.
func (p *Permit) Sent() {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.sched.Sent(now, &p.hold) {
		s.step(now)
	}
}

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

	Cool  Scope     // what the site refused, if Until is set; the whole site if the request does not need it any more
	Until time.Time // before which nothing of that scope is sent
	Why   string    // who said so: "Retry-After"
	Alone bool      // never the whole site: nothing is cooled if the request does not need it any more
}

// Again ends one try and waits for the next, at the request's old place. With an
// error the permit is finished; the error is the context's or a *Refusal.
func (p *Permit) Again(ctx context.Context, r Retry) error {
	s := p.site
	s.mu.Lock()
	now := time.Now()
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
	err := s.sched.Return(now, &p.hold, r.Result, r.NotBefore, s.needs(now, p))
	var cool Scope
	longer := false
	if !r.Until.IsZero() {
		if slot := s.about(p, p.hold.Needs, r.Cool); slot != s.all || !r.Alone {
			longer = s.sched.cool(slot, r.Until, r.Why, &p.hold)
			cool = s.of(slot, r.Cool)
		}
	}
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
	if s.refuseLate(p) {
		return &Refusal{Reason: Draining}
	}
	if err := p.wait(ctx); err != nil {
		return err
	}
	p.tries++
	return nil
}

// stops takes a hold that has come back out of the queue again if it may not wait
// there.
func (s *site) stops(now time.Time, h *Hold) error {
	var no *Refusal
	if s.gate.over.Load() {
		no = &Refusal{Reason: Draining}
	} else if no = s.sched.exhausted(now, h); no == nil {
		return nil
	}
	s.sched.Cancel(now, h)
	return no
}

// Cool keeps everything of a scope from being sent before until.
func (p *Permit) Cool(at Scope, until time.Time, why string) {
	s := p.site
	s.mu.Lock()
	now := time.Now()
	needs := p.hold.Needs
	if s.stale(&p.request) {
		needs = s.needs(now, p)
	}
	slot := s.about(p, needs, at)
	longer := s.sched.cool(slot, until, why, &p.hold)
	s.step(now)
	s.mu.Unlock()
	if longer {
		s.gate.cooled(s.name, s.of(slot, at), until, why)
	}
}

// Refused is how often in a row what a scope covers has been refused before this
// request was, each time after a cooldown and without a success between.
func (p *Permit) Refused(at Scope) int {
	s := p.site
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.about(p, p.hold.Needs, at).row(&p.hold)
}
