package queue

import "time"

// Warm ends the cooldown of a scope, and what follows one.
func (p *Permit) Warm(at Scope) {
	p.site.mu.Lock()
	defer p.site.mu.Unlock()
	p.site.warm(at)
}

// Warm is Permit.Warm for who has no permit.
func (g *Gate) Warm(site string, at Scope) {
	if s := g.find(site); s != nil {
		defer s.mu.Unlock()
		s.warm(at)
	}
}

// WarmAll ends the cooldowns of a scope at all sites, as of a token that may be used
// again.
func (g *Gate) WarmAll(at Scope) { g.each(func(s *site) { s.warm(at) }) }

// CoolAll keeps everything of a scope from being sent before until, at all sites that
// know it, as of a token that one of them does not accept.
func (g *Gate) CoolAll(at Scope, until time.Time, why string) {
	g.each(func(s *site) {
		if own, _ := s.find(at); own != nil {
			s.sched.Cool(own, until, why)
			s.step(time.Now())
		}
	})
}

// warm leaves a slot alone that a key shares with others: they may have to wait.
func (s *site) warm(at Scope) {
	if own, _ := s.find(at); own != nil {
		s.sched.Warm(own)
		s.step(time.Now())
	}
}
