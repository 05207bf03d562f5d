package knowledge

import "time"

// successRate counts successes in slots of a second. The zero value has counted none.
type successRate struct {
	slots [16]int32
	last  int64 // the second of the newest slot
}

// add counts a success.
func (r *successRate) add(now time.Time) {
	r.advance(now.Unix())
	r.slots[r.last%int64(len(r.slots))]++
}

func (r *successRate) advance(second int64) {
	for n := min(second-r.last, int64(len(r.slots))); n > 0; n-- {
		r.slots[(second-n+1)%int64(len(r.slots))] = 0
	}
	r.last = max(r.last, second)
}

// perSecond is the mean of the last complete seconds, from the first with a success.
func (r *successRate) perSecond(now time.Time) float64 {
	r.advance(now.Unix())
	n := int64(len(r.slots))
	var sum, over int64
	for back := n - 1; back >= 1; back-- {
		c := int64(r.slots[(r.last-back+n)%n])
		if sum += c; sum > 0 {
			over++
		}
	}
	if over == 0 {
		return float64(r.slots[r.last%n])
	}
	return float64(sum) / float64(over)
}
