package queue

// Generation counts the reloads that changed limits. The caller who makes a Request reads it
// before the configuration that the request's limits are made from.
func (g *Gate) Generation() uint64 { return g.latest.Load().number }

// Reload sets other bounds and other limits. It asks hooks for the limits of every request that
// waits, which keeps its place, and from now on for the limits of requests that were made
// before the reload, so hooks must know the new limits already. nil leaves the limits and the
// hooks. A limit with a known name and another Spec stays as used as it was. Requests that are
// now larger than a limit are refused.
func (g *Gate) Reload(b Bounds, hooks Hooks) {
	g.bounds.Store(&b)
	for hooks != nil {
		old := g.latest.Load()
		if g.latest.CompareAndSwap(old, &generation{old.number + 1, hooks}) {
			break
		}
	}
	g.each(func(s *site) {
		now := g.clock.Now()
		s.sched.options.aging = b.Aging
		if hooks != nil {
			s.forgetPatterns()
			s.replan(now, s.sched.all())
			s.updateByteRequests(now)
		}
		s.step(now)
	})
}

// Replan says that what is known of a site has a new version. Requests of an older version,
// those that wait and those that come later, get the limits that the hooks have now; a request
// that waits keeps its place. The hooks must know the limits already. Replan does nothing if
// version is not larger than all before, or if the site is not in memory.
func (g *Gate) Replan(name string, version uint64) {
	s := g.find(name)
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	if version <= s.version {
		return
	}
	s.version = version
	now := g.clock.Now()
	var old []*hold
	for _, h := range s.sched.all() {
		if s.stale(&h.owner.request) {
			old = append(old, h)
		}
	}
	s.replan(now, old)
	s.updateByteRequests(now)
	s.step(now)
}
