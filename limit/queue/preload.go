package queue

// Preload makes the meters of a request's limits, as if the request had come and gone, for
// the scopes that are known from before. So the status shows what is left of limits that
// are kept elsewhere.
func (g *Gate) Preload(r Request, known func(at Scope) bool) {
	var list []*Limit
	for _, alternative := range r.Limits {
		for i := range alternative {
			if l := &alternative[i]; known(l.scope(&r)) {
				list = append(list, l)
			}
		}
	}
	if len(list) == 0 {
		return
	}
	s := g.lock(r.Site)
	defer s.mu.Unlock()
	now := g.clock.Now()
	if r.Generation != g.Generation() {
		return // these are limits of yesterday
	}
	for _, l := range list {
		if s.entry(l.scope(&r)) == nil {
			_, _ = s.resourceFor(now, l, &r) // one that makes no sense is said to who sends a request
		}
	}
}
