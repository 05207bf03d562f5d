package ledger

import "math"

// sureOf is how many requests must have cost the same for the next to be believed to.
const sureOf = 12

// cost is what a request takes of a limit, in its units.
type cost struct {
	each      float64
	mean, dev float64
	count     int
	odd       int     // samples, one after the other, by which each is wrong
	even      float64 // and what it is by them

	// What was left when so much had been answered.
	answered int64
	left     float64
	at       int64
	few      int64 // units of which it was not known whether they were counted
	set      bool
}

// forget is for a window that is over.
func (c *cost) forget() { c.set = false }

func (c *cost) reset() { c.set = false }

// sample hears what was left when exactly so many had been answered, but for a
// few of which nobody knows. fill is what came back a second.
func (c *cost) sample(v, answered int64, left float64, few int64, fill float64) (x float64, ok bool) {
	n := answered - c.answered
	if !c.set || n < 0 {
		c.answered, c.left, c.at, c.few, c.set = answered, left, v, few, true
		return 0, false
	}
	if n == 0 || n < 8*max(few, c.few) {
		return 0, false
	}
	x = (c.left - left + fill*float64(v-c.at)/float64(second)) / float64(n)
	c.answered, c.left, c.at, c.few = answered, left, v, few
	return x, x >= 0 && x < float64(most)
}

func (c *cost) add(x float64) {
	if c.count == 0 {
		c.mean, c.dev = x, x/4
	}
	c.count = min(c.count+1, 1<<20)
	weight := max(1/float64(c.count), 1.0/8)
	c.dev += weight * (math.Abs(x-c.mean) - c.dev)
	c.mean += weight * (x - c.mean)
}

// variable is for units of which requests take more or less: a cost that few
// exceed.
func (c *cost) variable(least, most float64) {
	c.each = min(max(c.mean+2*c.dev, least), max(most, least))
}

// constant is for requests, that count once or always more often. What others use
// is not as constant as that. off is by how much x may be wrong.
func (c *cost) constant(x, limit float64, weight int, off float64) {
	n := min(math.Round(x), max(limit, 1))
	switch {
	case n < 1 || math.Abs(x-n) > 0.07+off:
		c.odd = 0
	case n == c.each:
		c.odd = 0
	case n != c.even:
		c.odd, c.even = weight, n
	default:
		if c.odd += weight; c.odd >= sureOf {
			c.each, c.odd = n, 0
		}
	}
}
