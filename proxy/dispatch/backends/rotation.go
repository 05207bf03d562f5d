package backends

import "sync"

// rotation has backends take turns, each as often as its weight says. A backend
// that was not ready does not catch up.
type rotation struct {
	mu     sync.Mutex // held for a few instructions; guards the fields below
	stride []uint64   // by which a turn brings a backend back: 1/weight
	turn   []uint64   // when each has its next turn
	now    uint64     // the turn that was given last
}

// farTurn is the turn from which turns are counted from zero again, long before they overflow.
const farTurn = 1 << 62

func newRotation(weights []int) *rotation {
	common := uint64(1) // a multiple of all weights, so that strides are exact
	for _, w := range weights {
		if multiple := common / divisor(common, uint64(w)) * uint64(w); multiple < 1<<32 {
			common = multiple
		} else {
			common = 1 << 32
			break
		}
	}
	r := &rotation{stride: make([]uint64, len(weights)), turn: make([]uint64, len(weights))}
	for i, w := range weights {
		r.stride[i] = max(common/uint64(w), 1)
	}
	return r
}

// divisor returns the greatest common divisor.
func divisor(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// next returns the backend whose turn it is, of at least one.
func (r *rotation) next(among []int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	best := among[0]
	for _, i := range among[1:] {
		a, b := max(r.turn[i], r.now), max(r.turn[best], r.now)
		if a < b || a == b && r.turn[i]+r.stride[i] < r.turn[best]+r.stride[best] {
			best = i
		}
	}
	r.now = max(r.turn[best], r.now)
	r.turn[best] = r.now + r.stride[best]
	if r.now > farTurn {
		for i := range r.turn {
			r.turn[i] -= min(r.turn[i], r.now)
		}
		r.now = 0
	}
	return best
}
