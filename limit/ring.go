package limit

import "math/bits"

// take is an amount that was taken at a time.
type take struct{ at, n int64 }

// ring is a queue of takes in an array that grows by doubling.
type ring struct {
	slots []take // a power of two
	head  int
	count int
}

func (r *ring) len() int { return r.count }

func (r *ring) at(i int) *take { return &r.slots[(r.head+i)&(len(r.slots)-1)] }

func (r *ring) push(t take) {
	if r.count == len(r.slots) {
		grown := make([]take, 1<<bits.Len(uint(r.count|1)))
		for i := range r.count {
			grown[i] = *r.at(i)
		}
		r.slots, r.head = grown, 0
	}
	r.count++
	*r.at(r.count - 1) = t
}

// drop removes the first take.
func (r *ring) drop() {
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.count--
}

// find is the first take at or after a time.
func (r *ring) find(at int64) int {
	if r.count > 0 && r.at(0).at >= at { // the usual case
		return 0
	}
	low, high := 0, r.count
	for low < high {
		if mid := (low + high) / 2; r.at(mid).at < at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// near is the take at a time, or the take that it was merged into within the same slice of
// time, or nil.
func (r *ring) near(at, slice int64) *take {
	i := r.find(at)
	if i == r.count {
		return nil
	}
	if t := r.at(i); t.at == at || slice > 0 && t.at/slice == at/slice {
		return t
	}
	return nil
}

// append writes the takes, as differences of time.
func (r *ring) append(b *encoder, last int64) {
	b.int(int64(r.count))
	for i := r.count - 1; i >= 0; i-- {
		t := r.at(i)
		b.int(last - t.at)
		b.int(t.n)
		last = t.at
	}
}

// takes reads what append has written: at most so many, no two of one time.
func (d *decoder) takes(last, atMost int64) []take {
	count := d.between(0, min(atMost, int64(len(d.rest)))) // a take is two bytes at least
	takes := make([]take, count)
	for i := count - 1; i >= 0; i-- {
		step := d.between(0, FarFuture)
		if last -= step; last < 0 || step == 0 && i < count-1 {
			d.fail()
			return nil
		}
		takes[i] = take{last, d.between(0, maxAmount)}
	}
	return takes
}

// total is the amount of all.
func total(takes []take) (n int64) {
	for _, t := range takes {
		n += t.n
	}
	return n
}

// fold merges the takes of each slice of time, at the time of its last.
func (r *ring) fold(slice int64) {
	kept := 0
	for i := range r.count {
		t := *r.at(i)
		if kept > 0 && r.at(kept-1).at/slice == t.at/slice {
			t.n += r.at(kept - 1).n
			kept--
		}
		*r.at(kept) = t
		kept++
	}
	r.count = kept
}

func (r *ring) shift(by int64) {
	for i := range r.count {
		r.at(i).at += by
	}
}
