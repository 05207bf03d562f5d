package main

// goal is what abide has to reach at a service. Zero values are the goals of its kind.
type goal struct {
	ratio  float64 // time ÷ ideal
	pooled float64 // the same with several tokens; 0: as usual
	early  int     // refusals in the first half
	slower float64 // time ÷ that of urllib3
	often  int     // refusals in the second half, where there are more than one in 500 requests
	unsaid bool    // one in 100 requests may be refused, and one of each token: nothing says beforehand what it costs
}

// late is how many of the requests may be refused in the second half.
func (g goal) late(requests int) int {
	if g.early == 0 {
		return g.often
	}
	return max(1, requests/2/500, g.often)
}

// goalOf is the goal of a service with so many tokens.
func (s *service) goalOf(tokens int) goal {
	g := s.goal
	if g.ratio == 0 {
		if g.ratio = 1.25; s.kind == announced {
			g.ratio = 1.05
		}
	}
	if g.early == 0 && s.kind != announced {
		g.early = 8
	}
	if tokens > 1 && s.kind == announced {
		g.ratio *= 1.05 // the last window of each token is hardly used
	}
	if tokens > 1 && s.kind != announced {
		// Each token has a limit of its own, as far as abide knows at first.
		g.ratio, g.early, g.often = g.ratio*1.5, g.early*tokens+8, max(g.often, 8*tokens)
	}
	if tokens > 1 && s.atOnce > 0 {
		g.early = 100 // a number in flight of all tokens is taken for one of each at first
	}
	if tokens > 1 && g.pooled > 0 {
		g.ratio = g.pooled
	}
	return g
}

// slowerThanOthers is how much longer abide may take than urllib3.
func (s *service) slowerThanOthers() float64 {
	if s.goal.slower == 0 {
		return 1.06 // a probe, and the last window
	}
	return s.goal.slower
}
