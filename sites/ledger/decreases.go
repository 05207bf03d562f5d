package ledger

import "slices"

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

// interrupt drops what is not settled: a response is missing.
func (d *decreases) interrupt() { d.unsettled, d.known = d.unsettled[:0], false }

// add takes an announcement. oldest is when the oldest request without a response was sent:
// the server may count it after all announcements that had arrived by then.
func (d *decreases) add(left announcedLeft, oldest int64) {
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
			d.settle((d.last - next.left) / float64(max(next.units, 1)))
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
