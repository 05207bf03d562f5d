package queue

import "time"

// Bring has the meters of a request's limits be there as if it had come and gone, of
// those scopes that are known from before. So who only looks sees what is left of what
// was kept elsewhere.
func (g *Gate) Bring(r Request, known func(at Scope) bool) {
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
	now := time.Now()
	if r.Made != g.Generation() {
		return // these are limits of yesterday
	}
	for _, l := range list {
		if s.entry(l.scope(&r)) == nil {
			_, _ = s.slot(now, l, &r) // one that makes no sense is said to who sends a request
		}
	}
}
