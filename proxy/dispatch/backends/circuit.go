package backends

import "time"

// circuit decides whether attempts may be made. It is closed until failures follow each
// other, open for a pause after that, and half-open then: one attempt is made as a probe,
// which closes or opens it. Each pause in a row is longer. It is pure, and not safe for concurrent use.
type circuit struct {
	most  int           // failures that follow each other
	pause time.Duration // the longest for which it is open

	failures int       // that follow each other
	began    time.Time // the first of these
	openings int       // that follow each other
	until    time.Time // when it becomes half-open; zero is closed
	probing  bool      // a probe is on its way
	changes  uint64    // of its state: an attempt from before the last change does not count
}

// pauses are the pauses of a circuit that opens again and again, up to its longest pause.
var pauses = [...]time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second}

// next returns the pause of another opening.
func (c *circuit) next() time.Duration {
	if c.openings < len(pauses) {
		return min(pauses[c.openings], c.pause)
	}
	return c.pause
}

// closed reports whether every attempt may be made.
func (c *circuit) closed() bool { return c.until.IsZero() }

// open returns the end of the time in which no attempt may be made; zero when one may be.
func (c *circuit) open(now time.Time) time.Time {
	if now.Before(c.until) {
		return c.until
	}
	return time.Time{}
}

// state returns the name of the state.
func (c *circuit) state(now time.Time) string {
	switch {
	case c.closed():
		return "closed"
	case now.Before(c.until):
		return "open"
	}
	return "half-open"
}

// begin reports whether an attempt may be made, and counts a probe.
func (c *circuit) begin(now time.Time) bool {
	if c.closed() {
		return true
	}
	if now.Before(c.until) || c.probing {
		return false
	}
	c.probing = true
	return true
}

// end adds how an attempt went that began after so many changes.
func (c *circuit) end(changes uint64, how Health, now time.Time) {
	if changes != c.changes {
		return
	}
	c.probing = false
	switch {
	case how == Unknown:
	case how == Well:
		c.failures, c.openings = 0, 0
		if !c.closed() {
			c.until = time.Time{}
			c.changes++
		}
	default:
		if c.failures == 0 {
			c.began = now
		}
		if c.failures++; c.failures >= c.most || !c.closed() {
			c.until = now.Add(c.next())
			c.openings++
			c.changes++
		}
	}
}
