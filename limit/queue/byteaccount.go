package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// byteAccount holds the resources that a ByteSource takes bytes from, and what it took last.
// The site's lock guards it.
type byteAccount struct {
	request    Request
	resources  []*resource
	generation uint64 // number of the reload (Gate.Generation) when the resources were found
	version    uint64 // version of what was known of the site (site.version) when the resources were found
	closed     bool
	numRecent  int
	recent     [8]bytesTaken // what was taken last and may be given back, in order of time
	last       time.Time     // when bytes were taken last
}

// bytesTaken is an amount that was taken at one time.
type bytesTaken struct {
	at time.Time
	n  int64
}

// refundable is how many of the bytes that were taken last can be given back, at least.
const refundable = 64 << 10

// note records bytes that were taken, and settles those that are too old to come back.
func (a *byteAccount) note(now time.Time, n int64) {
	if a.numRecent == len(a.recent) {
		a.settle(now, 1)
	}
	a.recent[a.numRecent], a.last = bytesTaken{now, n}, now
	a.numRecent++
	newer := int64(0)
	for i := a.numRecent - 1; i > 0; i-- {
		if newer += a.recent[i].n; newer >= refundable {
			a.settle(now, i)
			break
		}
	}
}

// settle reports the oldest amounts to the meters as done: they will not be given back.
func (a *byteAccount) settle(now time.Time, draws int) {
	for _, old := range a.recent[:draws] {
		for _, res := range a.resources {
			if res.knows(old.at) && old.n > 0 {
				res.meter.Done(now, old.at, old.n, limit.Abandoned)
			}
		}
	}
	a.numRecent = copy(a.recent[:], a.recent[draws:a.numRecent])
}

// choice is the index of the alternative that the byte source takes from.
func (a *byteAccount) choice(of int) int {
	if a.request.Chooser == nil || of == 1 {
		return 0
	}
	all := make([]int, of)
	for i := range all {
		all[i] = i
	}
	if i := a.request.Chooser.Choose(all); i >= 0 && i < of {
		return i
	}
	return 0
}

// release settles all amounts, and gives back the resources: they have one user less.
func (a *byteAccount) release(now time.Time) {
	a.settle(now, a.numRecent)
	for _, res := range a.resources {
		res.users--
		res.markDirty()
	}
	a.resources = nil
}
