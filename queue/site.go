package queue

import (
	"fmt"
	"sync"
	"time"
)

// site is a scheduler with a lock and a timer.
type site struct {
	name string
	gate *Gate

	mu           sync.Mutex // guards all below; nobody waits, sends or dials under it
	gone         bool       // forgotten: look it up again
	sched        *Scheduler
	all          *Slot // the whole site, for its cooldowns
	slots        map[Scope]*entry
	rest         map[string]*entry // :: limit's name → slot of the keys that have none of their own
	alone        [][]Need          // what a request needs that has no limits
	known        map[*[]Limit]*pattern
	choices      *choices        // of the needs that plan has answered last; nil: no other request has them
	alternatives int             // the most that a request had
	seen         uint64          // the largest version that it was told; see Gate.Replan
	swept        int             // how many were left by the last sweep
	sweeps       time.Time       // not before
	lasting      time.Time       // the same for slots that are nobody's own
	tidies       time.Time       // the same for rest
	counted      int             // of its holds, in Gate.held
	taps         int             // that are not closed
	drained      []chan struct{} // closed when nothing is held or granted

	timer *time.Timer
	at    time.Time // when it rings; zero is never
}

func newSite(g *Gate, name string) *site {
	s := &site{name: name, gate: g}
	s.sched = NewScheduler(Options{Aging: g.bounds.Load().Aging, Live: live})
	s.all = s.sched.Slot(name, nil, nil)
	s.all.title = tollOfSite
	s.alone = [][]Need{{{Slot: s.all}}}
	return s
}

func live(h *Hold) bool { return h.owner.ctx.Err() == nil }

// forget marks the site as gone if nothing would change by it, or little where there are
// very many. What would change then is in the rest, which is nil without that. A site that
// is locked is in use.
func (s *site) forget(now time.Time, many bool) (left bool, rest *storedSite) {
	if !s.mu.TryLock() {
		return false, nil
	}
	defer s.mu.Unlock()
	if s.taps > 0 {
		return false, nil
	}
	if !s.sched.Idle(now) && !(many && s.sched.Spare(now)) {
		if !many {
			return false, nil
		}
		if rest = s.store(now); rest == nil {
			return false, nil
		}
	}
	s.gone = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return true, rest
}

// room makes room for one more hold, or says which bound has none.
func (s *site) room(now time.Time, b *Bounds, r Request) error {
	refusal := func(why Reason, setting string, n int) *Refusal {
		at := s.sched.nextAt()
		if at.IsZero() {
			at = now.Add(time.Second)
		}
		return &Refusal{Reason: why, Limit: fmt.Sprintf("%s: %d", setting, n), RetryAt: at}
	}
	if held, _ := s.sched.Len(); b.PerSite > 0 && held >= b.PerSite {
		full := refusal(Full, "queue.per_site", b.PerSite)
		greedy := s.sched.Displace(now, r.Client, r.Weight)
		if greedy == nil {
			return full
		}
		greedy.refusal = full
		greedy.owner.wake()
		return nil // its place in the count goes over
	}
	if n := s.gate.held.Add(1); b.Max > 0 && n > int64(b.Max) {
		s.gate.held.Add(-1)
		return refusal(FullAll, "queue.max", b.Max)
	}
	s.counted++
	return nil
}

// step lets go what may go, tells who waits for it, and sets the timer.
func (s *site) step(now time.Time) {
	turn := s.sched.Next(now)
	for _, h := range turn.Granted {
		h.owner.wake()
	}
	for _, h := range turn.Refused {
		h.owner.wake()
	}
	for _, d := range turn.drawn {
		d.wake()
	}
	s.sched.told()
	held, granted := s.sched.Len()
	if held != s.counted {
		s.gate.held.Add(int64(held - s.counted))
		s.counted = held
	}
	if held+granted == 0 {
		for _, done := range s.drained {
			close(done)
		}
		s.drained = nil
	}
	s.alarm(now, turn.Again)
}

// alarm sets the site's only timer.
func (s *site) alarm(now, at time.Time) {
	switch {
	case at.Equal(s.at):
	case at.IsZero():
		s.timer.Stop()
	case s.timer == nil:
		s.timer = time.AfterFunc(at.Sub(now), s.tick)
	default:
		s.timer.Reset(at.Sub(now))
	}
	s.at = at
}

func (s *site) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
	if !s.gone {
		s.step(time.Now())
	}
}

// refuseAll empties the queue.
func (s *site) refuseAll() {
	now := time.Now()
	for _, h := range s.sched.all() {
		s.sched.Cancel(now, h)
		h.refusal = &Refusal{Reason: Draining}
		h.owner.wake()
	}
	s.refuseDraws(nil, &Refusal{Reason: Draining})
	s.step(now)
}
