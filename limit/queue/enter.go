package queue

import (
	"fmt"
	"time"
)

// enter grants a permit's request, or puts it in the queue. It unlocks the site.
func (s *site) enter(p *Permit) (held bool, err error) {
	defer s.mu.Unlock()
	now, g, r := p.asked, s.gate, &p.request
	s.renew(r)
	if p.hold.needs, err = s.plan(now, r); err != nil {
		return false, err
	}
	p.hold.choices = s.choices.rankedBy(r.Order)
	if r.Observe {
		p.would = s.sched.force(now, &p.hold)
		return false, nil
	}
	if s.sched.tryAtOnce(now, &p.hold) {
		p.hold.awaited = p.hold.probes
		return false, nil
	}
	if r.Now && s.sched.tryAllowed(now, &p.hold) {
		p.hold.awaited = p.hold.probes
		return false, nil
	}
	b := g.bounds.Load()
	wait := b.Wait
	if r.Wait > 0 && (wait <= 0 || r.Wait < wait) {
		wait = r.Wait
	}
	if wait > 0 {
		p.hold.deadline = now.Add(wait)
	}
	// Before others make room for it.
	if refusal := s.sched.estimate(now, &p.hold); refusal != nil {
		p.hold.hint(now)
		return false, refusal
	}
	if r.Now {
		if refusal := refuseNow(now, &p.hold); refusal != nil {
			p.hold.hint(now)
			return false, refusal
		}
	}
	if err := s.room(now, b, *r); err != nil {
		return false, err
	}
	p.beginWait()
	s.sched.add(now, &p.hold)
	s.step(now)
	if r.Now {
		if refusal := s.sched.refuseWaiting(now, &p.hold); refusal != nil {
			s.sched.cancel(now, &p.hold)
			s.step(now)
			return false, refusal
		}
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
	if held, _ := s.sched.size(); b.PerSite > 0 && held >= b.PerSite {
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
