package limit

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// history is the list of past takes, kept longer than they count: another limit for the
// same requests may have a longer window, or other boundaries. Times of old takes are
// coarse: an amount is recorded at the time of the last take that it includes, which is
// later than the true time by at most half of its age.
type history struct{ ring }

// maxHistory bounds the amounts that are remembered.
const maxHistory = 48

// add records that n units were taken at v.
func (p *history) add(v, n int64) {
	if n <= 0 {
		return
	}
	if p.count > 0 {
		if last := p.at(p.count - 1); last.at >= v {
			last.n = min(last.n+n, maxAmount)
			return
		}
	}
	if p.count == maxHistory {
		p.fold(v)
	}
	p.push(take{v, n})
}

// fold merges takes that are close in relation to their age, and finally the oldest. What becomes one take is close
// as a whole: of many takes each may be close to the next.
func (p *history) fold(v int64) {
	for part := int64(8); p.count > maxHistory*3/4; part /= 2 {
		first := p.at(0).at
		p.merge(func(i int, _, t take) bool {
			if part == 0 && i < p.count/2 || part > 0 && t.at-first <= (v-t.at)/part {
				return true
			}
			first = t.at
			return false
		})
		if part == 0 {
			return
		}
	}
}

// remove removes n units taken at a time, or before that as far as they were held since then.
func (p *history) remove(at, n int64) {
	for i := min(p.find(at), p.count-1); i >= 0 && n > 0; i-- {
		n = p.at(i).reduce(n)
	}
}

// move shifts all times with a clock that went back.
func (p *history) move(by int64) {
	for i := range p.count {
		t := p.at(i)
		t.at = max(t.at+by, int64(i)) // times stay distinct
	}
}

func (p *history) append(b *encoder) {
	newest := int64(0)
	if p.count > 0 {
		newest = p.at(p.count - 1).at
	}
	b.int(newest)
	p.ring.append(b, newest)
}

// spent reads what append has written. Versions before 3 have four more numbers before
// that, which are ignored, and version 1 has nothing else.
func (d *decoder) spent(last int64) (p history) {
	if d.version < 3 {
		for range 4 {
			d.between(math.MinInt64, math.MaxInt64)
		}
	}
	if d.version > 1 {
		for _, t := range d.takes(d.time(last), maxHistory) {
			p.push(t)
		}
	}
	return p
}

// Spent is an amount taken Ago before now, or earlier.
type Spent struct {
	Ago time.Duration
	N   int64
}

// spent lists the history, oldest first.
func (p *history) spent(v int64) []Spent {
	list := make([]Spent, 0, p.count)
	for i := range p.count {
		if t := p.at(i); t.n > 0 {
			list = append(list, Spent{time.Duration(max(v-t.at, 0)), t.n})
		}
	}
	return list
}

// takeAll records the takes of another meter.
func (p *history) takeAll(v int64, list []Spent) {
	for _, s := range list {
		p.add(max(v-int64(s.Ago), 0), s.N)
	}
}

// sum is the units taken less than within ago.
func sum(list []Spent, within int64) (n int64) {
	for _, s := range list {
		if int64(s.Ago) < within {
			n = min(n+s.N, maxAmount)
		}
	}
	return n
}

// Union lists the takes of two limits that have counted the same requests, each as far as it has seen them: of each age
// at least as many units as either has. All lists are oldest first.
func Union(a, b []Spent) (list []Spent) {
	var ofA, ofB, known int64
	for len(a)+len(b) > 0 {
		ago := min(newest(a), newest(b))
		a, ofA = since(a, ago, ofA)
		b, ofB = since(b, ago, ofB)
		if n := max(ofA, ofB) - known; n > 0 {
			list, known = append(list, Spent{ago, n}), known+n
		}
	}
	slices.Reverse(list)
	return list
}

// exceeds tells whether a list of takes has more of some age than another one, but for a second.
func exceeds(a, b []Spent) bool {
	var ofA, ofB int64
	for len(a) > 0 && ofA <= ofB {
		ago := newest(a)
		a, ofA = since(a, ago, ofA)
		b, ofB = since(b, ago+time.Second, ofB)
	}
	return ofA > ofB
}

// newest returns the age of the last take of a list.
func newest(list []Spent) time.Duration {
	if len(list) == 0 {
		return math.MaxInt64
	}
	return list[len(list)-1].Ago
}

// since adds up the takes of a list up to an age, and returns the older ones.
func since(list []Spent, ago time.Duration, n int64) (older []Spent, sum int64) {
	for len(list) > 0 && newest(list) <= ago {
		n, list = min(n+list[len(list)-1].N, maxAmount), list[:len(list)-1]
	}
	return list, n
}

// take is an amount that was taken at a time.
type take struct{ at, n int64 }

// reduce removes at most n units, and returns the others of n.
func (t *take) reduce(n int64) (rest int64) {
	gone := min(t.n, n)
	t.n -= gone
	return n - gone
}

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
	return sort.Search(r.count, func(i int) bool { return r.at(i).at >= at })
}

// reduce removes at most n units of takes from a time on, the first first, and returns the others of n.
func (r *ring) reduce(at, n int64) (rest int64) {
	for i := r.find(at); i < r.count && n > 0; i++ {
		n = r.at(i).reduce(n)
	}
	return n
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
	r.merge(func(_ int, last, t take) bool { return last.at/slice == t.at/slice })
}

// merge merges each take with the one before it that is left if same tells so of both, at the later time.
func (r *ring) merge(same func(i int, last, t take) bool) {
	kept := 0
	for i := range r.count {
		t := *r.at(i)
		if kept > 0 && same(i, *r.at(kept - 1), t) {
			t.n = min(t.n+r.at(kept-1).n, maxAmount)
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
