package queue

import (
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
)

// site is a scheduler with a lock and a timer.
type site struct {
	gate *Gate
	name string

	mu          sync.Mutex // guards all fields below; nothing waits, sends or dials under it
	gone        bool       // forgotten: look it up again
	sched       *scheduler
	registry    registry
	version     uint64          // the largest version of what is known of the site; see Gate.Replan
	heldCounted int             // number of its holds that Gate.held counts
	sources     int             // number of byte sources that are not closed
	drained     []chan struct{} // closed when nothing is held or granted

	timer   clock.Timer
	timerAt time.Time // when the timer calls onTimer; zero is never
}

func newSite(g *Gate, name string) *site {
	sched := newScheduler(g.bounds.Load().Aging)
	sched.live = func(h *hold) bool { return h.owner.ctx.Err() == nil }
	all := sched.newResource(name, nil, nil)
	all.title = cooldownLimit
	return &site{gate: g, name: name, sched: sched, registry: registry{name: name, sched: sched, whole: all, unlimited: [][]need{{{resource: all}}}}}
}

// lock locks the site, and returns the time.
func (s *site) lock() (*site, time.Time) {
	s.mu.Lock()
	return s, s.gate.clock.Now()
}

// step grants what may go, wakes the callers, and sets the timer.
func (s *site) step(now time.Time) {
	decided := s.sched.next(now)
	for _, h := range decided.granted {
		h.owner.wake()
	}
	for _, h := range decided.refused {
		h.owner.wake()
	}
	for _, b := range decided.bytes {
		b.waker.Send()
	}
	s.sched.decisions.clear()
	held, granted := s.sched.held, s.sched.granted
	if held != s.heldCounted {
		s.gate.held.Add(int64(held - s.heldCounted))
		s.heldCounted = held
	}
	if held+granted == 0 {
		for _, done := range s.drained {
			close(done)
		}
		s.drained = nil
	}
	s.setTimer(now, decided.again)
}

// setTimer sets the site's only timer.
func (s *site) setTimer(now, at time.Time) {
	switch {
	case at.Equal(s.timerAt):
	case at.IsZero():
		s.timer.Stop()
	case s.timer == nil:
		s.timer = s.gate.clock.AfterFunc(at.Sub(now), s.onTimer)
	default:
		s.timer.Reset(at.Sub(now))
	}
	s.timerAt = at
}

func (s *site) onTimer() {
	_, now := s.lock()
	defer s.mu.Unlock()
	s.timerAt = time.Time{}
	if !s.gone {
		s.step(now)
	}
}

// refuseHeld refuses all requests that wait.
func (s *site) refuseHeld(now time.Time, r Refusal) {
	for _, h := range s.sched.all() {
		s.sched.cancel(now, h)
		h.refusal = &r
		h.owner.wake()
	}
	s.step(now)
}

// stale tells whether a request's limits were made before the last reload, or by an older
// version of what is known of the site.
func (s *site) stale(r *Request) bool {
	g := s.gate.latest.Load()
	return g.hooks != nil && (g.number != r.Generation || r.Version < s.version)
}

// renew makes a request's limits anew if they are stale.
func (s *site) renew(r *Request) {
	if s.stale(r) {
		s.ask(r)
	}
}

// ask asks the hooks for the limits of a request.
func (s *site) ask(r *Request) {
	if g := s.gate.latest.Load(); g.hooks != nil {
		r.Limits, r.Needs, r.Version = g.hooks.Limits(*r)
		r.Generation, r.Version = g.number, max(r.Version, s.version) // the hooks know that version
	}
}

// needs returns the needs of a hold's request by the newest limits; its earlier needs, if these
// make no sense.
func (s *site) needs(now time.Time, h *hold) [][]need {
	s.renew(&h.owner.request)
	needs, choices, err := s.registry.plan(now, &h.owner.request)
	if err != nil {
		return h.needs
	}
	h.choices = choices
	return needs
}

// replan gives what waits the newest limits where its own are stale, and every hold those that the hooks have now.
func (s *site) replan(now time.Time, every bool) {
	for _, h := range s.sched.all() {
		if every {
			s.ask(&h.owner.request)
		} else if !s.stale(&h.owner.request) {
			continue
		}
		if !s.sched.replan(now, h, s.needs(now, h)) {
			h.owner.wake()
		}
	}
	for _, b := range s.sched.byteQueue.byteRequests {
		b.source.follow(now)
	}
}
