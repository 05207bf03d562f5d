package queue

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// site is a scheduler with a lock and a timer.
type site struct {
	name string
	gate *Gate

	mu      sync.Mutex // guards all below; nobody waits, sends or dials under it
	gone    bool       // forgotten: look it up again
	sched   *Scheduler
	all     *Slot // the whole site, for its cooldowns
	slots   map[Scope]*entry
	rest    map[string]*entry // :: limit's name → slot of the keys that have none of their own
	swept   int               // how many were left by the last sweep
	sweeps  time.Time         // not before
	counted int               // of its holds, in Gate.held
	drained []chan struct{}   // closed when nothing is held or granted

	timer *time.Timer
	at    time.Time // when it rings; zero is never
}

type entry struct {
	slot *Slot
	spec *limit.Spec
}

func newSite(g *Gate, name string) *site {
	s := &site{name: name, gate: g}
	s.sched = NewScheduler(Options{Aging: g.bounds.Load().Aging, Live: live})
	s.all = s.sched.Slot(name, nil, nil)
	s.all.title = tollOfSite
	return s
}

func live(h *Hold) bool { return h.owner.ctx.Err() == nil }

// plan finds the slots of a permit's limits. The whole site is one of them.
func (s *site) plan(now time.Time, p *Permit) error {
	s.sweep(now)
	limits := p.request.Limits
	if len(limits) == 0 {
		p.few[0] = Need{Slot: s.all}
		p.one[0] = p.few[:1:1]
		p.hold.Needs = p.one[:1:1]
		return nil
	}
	needs := p.one[:0:1]
	for i, alternative := range limits {
		list := p.few[:0]
		if i > 0 || len(alternative) >= len(p.few) {
			list = make([]Need, 0, len(alternative)+1)
		}
		list = append(list, Need{Slot: s.all})
		for _, l := range alternative {
			slot, err := s.slot(now, l)
			if err != nil {
				return err
			}
			list = merge(list, Need{slot, l.N, l.Of})
		}
		needs = append(needs, list)
	}
	p.hold.Needs = needs
	return nil
}

// merge adds a need, to the one of the same slot if there is one.
func merge(list []Need, n Need) []Need {
	for i := range list {
		if list[i].Slot == n.Slot {
			list[i].N += n.N
			return list
		}
	}
	return append(list, n)
}

func (s *site) slot(now time.Time, l Limit) (*Slot, error) {
	e := s.entry(l)
	if e != nil && (e.spec == l.Spec || e.spec != nil && l.Spec != nil && *e.spec == *l.Spec) {
		return e.slot, nil
	}
	m, fresh, err := meter(l)
	if err != nil {
		return nil, err
	}
	key := short(l.Key)
	if e == nil {
		e = &entry{s.sched.Slot(l.label(key), m, fresh), l.Spec}
		e.slot.title = l.title()
		s.keep(l, e)
		return e.slot, nil
	}
	moved := e.spec != nil && l.Spec != nil && e.spec.As == l.Spec.As
	if moved {
		if m, err = limit.Move(now, e.slot.meter, *l.Spec); err != nil {
			return nil, fmt.Errorf("the limit %q: %w", l.Name, err)
		}
	}
	if e == s.rest[l.Name] {
		key = others
	}
	e.spec = l.Spec
	e.slot.rename(l.label(key), l.title())
	s.sched.Change(now, e.slot, m, fresh, moved)
	return e.slot, nil
}

func (l Limit) title() string { return cmp.Or(l.Title, l.Name) }

func meter(l Limit) (limit.Meter, func() limit.Meter, error) {
	if l.Spec == nil {
		return nil, nil, nil
	}
	m, err := limit.New(*l.Spec)
	if err != nil {
		return nil, nil, fmt.Errorf("the limit %q: %w", l.Name, err)
	}
	return m, func() limit.Meter {
		m, err := limit.New(*l.Spec)
		if err != nil {
			return nil // it was right a moment ago
		}
		return m
	}, nil
}

// forget marks the site as gone if nothing would change by it. A site that is
// locked is in use.
func (s *site) forget(now time.Time) bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	if !s.sched.Idle(now) {
		return false
	}
	s.gone = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return true
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
		greedy.owner.tell()
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
		h.owner.tell()
	}
	for _, h := range turn.Refused {
		h.owner.tell()
	}
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

// renew makes a request's limits anew if there was a reload since they were made.
func (s *site) renew(p *Permit) {
	if g := s.gate.latest.Load(); g.plan != nil && g.number != p.request.Made {
		p.request.Limits, p.request.Made = g.plan(p.request), g.number
	}
}

// needs are what a permit's request needs by the newest limits. The hold keeps
// those that it has.
func (s *site) needs(now time.Time, p *Permit) [][]Need {
	s.renew(p)
	fresh := *p // its needs lie in it, and those of the hold in p
	if err := s.plan(now, &fresh); err != nil {
		return p.hold.Needs // what the plan says cannot be kept: it waits for what it knew
	}
	return fresh.hold.Needs
}

// replan gives all that wait the newest limits.
func (s *site) replan(now time.Time) {
	for _, h := range s.sched.all() {
		if !s.sched.Replan(now, h, s.needs(now, h.owner)) {
			h.owner.tell()
		}
	}
}

// refuseAll empties the queue.
func (s *site) refuseAll() {
	now := time.Now()
	for _, h := range s.sched.all() {
		s.sched.Cancel(now, h)
		h.refusal = &Refusal{Reason: Draining}
		h.owner.tell()
	}
	s.step(now)
}
