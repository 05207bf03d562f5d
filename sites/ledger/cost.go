package ledger

import (
	"math"
	"slices"
)

// samplesForCertainty is the number of requests that must have had the same cost before it is
// assumed for the next.
const samplesForCertainty = 12

// cost estimates how many units a request takes.
type cost struct {
	each              float64
	mean, dev         float64
	peak              float64 // the highest recent cost of one request
	count             int
	alike             int     // samples in a row that were like the mean
	contradictions    int     // samples in a row that contradict each
	contradictingCost float64 // the cost by these samples

	// The last sample: units left when so many were answered.
	answered  int64
	left      float64
	at        int64
	uncertain int64 // units of which it was not known whether they were counted
	set       bool

	decreases decreases
	varies    bool // requests cost more than one unit; each is the most that one is expected to cost
}

// forget drops the last sample at the end of a window.
func (c *cost) forget() {
	c.set = false
	c.decreases.next()
}

// begin restarts the estimate.
func (c *cost) begin() { c.set, c.count, c.alike, c.contradictions = false, 0, 0, 0 }

// sample takes the units left when that many were answered, except for few uncertain ones. fill is
// the refill per second. Of costs that vary it takes more: it assumes that the server counts
// requests in the order they were sent, which is accurate enough for larger numbers.
func (c *cost) sample(v, answered int64, left float64, few int64, fill float64, vary bool) (x float64, n int64, ok bool) {
	n = answered - c.answered
	back, enough := int64(0), 8*max(few, c.uncertain)
	if vary {
		back = 1 << 12
		if enough > 0 {
			enough = max(enough/32, 4)
		}
	}
	if !c.set || n < -back {
		c.answered, c.left, c.at, c.uncertain, c.set = answered, left, v, few, true
		return 0, 0, false
	}
	if n <= 0 || n < enough {
		return 0, 0, false
	}
	x = (c.left - left + fill*float64(v-c.at)/float64(second)) / float64(n)
	c.answered, c.left, c.at, c.uncertain = answered, left, v, few
	return max(x, 0), n, x < float64(maxAmount) && (vary || x >= 0)
}

const (
	maxSamples  = 16 // samples in the mean, at most
	enoughAlike = 4  // samples in a row after which the next request is expected to cost the same
)

// add takes the average cost of n requests. The more requests, the less it says about the
// deviation of one.
func (c *cost) add(x float64, n int64) {
	if c.count == 0 {
		c.mean, c.dev, c.peak = x, x/4, x
	}
	c.count = min(c.count+1, 1<<20)
	if c.alike++; math.Abs(x-c.mean) > c.mean/1000 {
		c.alike = 0
	}
	weight := max(1/float64(c.count), 1.0/maxSamples)
	c.dev += weight * (min(math.Abs(x-c.mean)*math.Sqrt(float64(n)), max(x, c.mean)) - c.dev)
	c.mean += weight * (x - c.mean)
	if c.peak = max(c.peak, x); c.peak > c.mean {
		c.peak -= (c.peak - c.mean) / (16 * maxSamples)
	}
}

// variable estimates the cost of units that vary between requests: a cost that few requests
// exceed. With few samples the estimate is higher, unless they are alike.
func (c *cost) variable(least, most float64) {
	x := max(c.mean+2*c.dev, c.peak) * (1 + 1/math.Sqrt(float64(max(c.count, 1))))
	if c.alike >= enoughAlike {
		x = c.mean
	}
	c.each = min(max(x, least), max(most, least))
}

// constant estimates the cost of requests, which count once or a fixed number of times. Use
// by others varies more. off is the possible error of x.
func (c *cost) constant(x, limit, off float64) {
	n := min(math.Round(x), max(limit, 1))
	switch {
	case n < 1 || math.Abs(x-n) > 0.07+off, n == c.each:
		c.contradictions = 0
	case n != c.contradictingCost:
		c.contradictions, c.contradictingCost = 1, n
	default:
		if c.contradictions++; c.contradictions >= samplesForCertainty {
			c.each, c.contradictions = n, 0
		}
	}
}

// decreases measures what single requests cost, by the units left that responses announce.
// Each announces what was left after its own request. So in the order of the units left,
// two neighbours differ by the cost of one request, if no response is missing between them.
type decreases struct {
	unsettled []announcedLeft // most left first
	last      float64         // least units left of those that were settled
	known     bool            // last has a value
	at        int64           // the last announcement
	peak      float64         // the highest cost in this window
	before    float64         // the same for the windows before
	count     int             // costs in this window
	one, more int             // recent costs of one unit, and of more
	several   bool            // there were responses after which not less was left
}

// announcedLeft is an announcement of the units left.
type announcedLeft struct {
	at    int64
	left  float64
	units int64 // that its request was counted as
}

const (
	maxUnsettled   = 256        // more announcements are not compared
	recentCosts    = 32         // costs of which one and more are counted
	manyCosts      = 16         // after which a window's highest cost replaces that of the windows before
	probablyMore   = 2          // costs of more than one unit, after which costs vary
	surelyMore     = 8          // the same where there seemed to be several counters
	varyingPercent = 30         // of recent costs that are more than one unit, if costs vary
	longestIdle    = 2 * second // without a request, after which others may have used some
	fewCosts       = 64         // until which an even higher cost is expected, or a cost of more than one
)

// next begins another window.
func (d *decreases) next() {
	if d.count < manyCosts {
		d.peak = max(d.peak, d.before)
	}
	d.before, d.peak, d.count = d.peak, 0, 0
	d.interrupt()
}

// interrupt drops the announcements that are not settled: a response is missing.
func (d *decreases) interrupt() { d.unsettled, d.known = d.unsettled[:0], false }

// add takes an announcement. The server may count the oldest request without a response, which
// was sent at the time oldest, after all announcements that had arrived by then. settled gets each cost
// that is known by that.
func (d *decreases) add(left announcedLeft, oldest int64, settled func(cost float64)) {
	if len(d.unsettled) == maxUnsettled {
		d.interrupt()
	}
	n := len(d.unsettled)
	for n > 0 && d.unsettled[n-1].left < left.left {
		n--
	}
	d.unsettled = slices.Insert(d.unsettled, n, left)
	for n = len(d.unsettled); n > 0 && d.unsettled[n-1].at >= oldest; {
		n--
	}
	for _, next := range d.unsettled[:n] {
		switch {
		case d.known && next.left < d.last:
			settled((d.last - next.left) / float64(max(next.units, 1)))
		case d.known:
			// Not less is left after another request: there are several counters.
			d.peak, d.before, d.count, d.one, d.more, d.several = 0, 0, 0, 0, 0, true
		}
		d.last, d.known = next.left, true
	}
	d.unsettled = slices.Delete(d.unsettled, 0, n)
}

// settle counts the cost of one request.
func (d *decreases) settle(cost float64) {
	d.peak, d.count = max(d.peak, cost), min(d.count+1, 1<<20)
	if cost > 1 {
		d.more++
	} else {
		d.one++
	}
	if d.one+d.more > recentCosts {
		d.one, d.more = d.one/2, d.more/2
	}
}

// vary reports whether requests cost more than one unit, other than by the use of others.
func (d *decreases) vary() bool {
	enough := probablyMore
	if d.several {
		enough = surelyMore
	}
	return d.more >= enough && 100*d.more >= varyingPercent*(d.one+d.more)
}

// certain reports whether so many requests have cost one unit that the next are not measured.
func (d *decreases) certain() bool { return d.more == 0 && d.count >= fewCosts }

// doubt has requests measured again: less is left than expected.
func (d *decreases) doubt() {
	if d.certain() {
		d.count = 0
		d.interrupt()
	}
}

// highest is the most that a request is expected to cost.
func (d *decreases) highest() float64 {
	highest := max(d.peak, d.before)
	if d.count < fewCosts && d.before == 0 && highest > 1 {
		highest += highest / 8
	}
	return highest
}
