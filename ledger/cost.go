package ledger

import "math"

// sureOf is how many requests must have cost the same for the next to be believed to.
const sureOf = 12

// cost is what a request takes of a limit, in its units.
type cost struct {
	each      float64
	mean, dev float64
	peak      float64 // the most that one has cost of late
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

// begin is for what is to be learned again.
func (c *cost) begin() { c.set, c.count, c.odd = false, 0, 0 }

// sample hears what was left when exactly so many had been answered, but for a
// few of which nobody knows. fill is what came back a second.
func (c *cost) sample(v, answered int64, left float64, few int64, fill float64) (x float64, n int64, ok bool) {
	n = answered - c.answered
	if !c.set || n < 0 {
		c.answered, c.left, c.at, c.few, c.set = answered, left, v, few, true
		return 0, 0, false
	}
	if n == 0 || n < 8*max(few, c.few) {
		return 0, 0, false
	}
	x = (c.left - left + fill*float64(v-c.at)/float64(second)) / float64(n)
	c.answered, c.left, c.at, c.few = answered, left, v, few
	return x, n, x >= 0 && x < float64(most)
}

// roughly is sample for costs that vary: as if what was sent first were counted
// first, which is near enough where it is about more than a few.
func (c *cost) roughly(v, sent int64, left float64, few int64, fill float64) (x float64, n int64, ok bool) {
	n = sent - c.answered
	if !c.set || n < -1<<12 {
		c.answered, c.left, c.at, c.few, c.set = sent, left, v, few, true
		return 0, 0, false
	}
	if around := max(few, c.few); n <= 0 || around > 0 && n < max(around/4, 4) {
		return 0, 0, false
	}
	x = (c.left - left + fill*float64(v-c.at)/float64(second)) / float64(n)
	c.answered, c.left, c.at, c.few = sent, left, v, few
	return max(x, 0), n, x < float64(most)
}

// lately is how many samples the mean is of, at most.
const lately = 16

// add hears what each of n has cost, on average. How far that is from the mean says
// the less of one request's cost the more they are.
func (c *cost) add(x float64, n int64) {
	if c.count == 0 {
		c.mean, c.dev, c.peak = x, x/4, x
	}
	c.count = min(c.count+1, 1<<20)
	weight := max(1/float64(c.count), 1.0/lately)
	c.dev += weight * (min(math.Abs(x-c.mean)*math.Sqrt(float64(n)), max(x, c.mean)) - c.dev)
	c.mean += weight * (x - c.mean)
	if c.peak = max(c.peak, x); c.peak > c.mean {
		c.peak -= (c.peak - c.mean) / (16 * lately)
	}
}

// variable is for units of which requests take more or less: a cost that few
// exceed. Of few that were seen, not much is known.
func (c *cost) variable(least, most float64) {
	x := max(c.mean+2*c.dev, c.peak) * (1 + 1/math.Sqrt(float64(max(c.count, 1))))
	c.each = min(max(x, least), max(most, least))
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
