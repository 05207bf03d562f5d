package queue

// Blocked is the time for which a limit has blocked requests since it was first seen.
type Blocked struct {
	Site, Limit string
	Seconds     float64 // times requests
	Busy        float64 // seconds for which it blocked any request
}

// Blocked lists the limits that have blocked requests, of all sites in memory. A site that
// was forgotten begins at zero.
func (g *Gate) Blocked() []Blocked {
	var list []Blocked
	g.each(func(s *site) {
		now := g.clock.Now()
		for name, t := range s.sched.blockedTimes {
			if seconds := t.upTo(now); seconds > 0 {
				list = append(list, Blocked{s.name, name, seconds, t.busyUpTo(now)})
			}
		}
	})
	return list
}

// Observed lists for how long requests that were only observed would have waited for each
// limit.
func (g *Gate) Observed() []Blocked {
	var list []Blocked
	g.each(func(s *site) {
		for name, t := range s.sched.blockedTimes {
			if t.observed > 0 {
				list = append(list, Blocked{Site: s.name, Limit: name, Seconds: t.observed})
			}
		}
	})
	return list
}
