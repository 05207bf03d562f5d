package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
)

// methods have labels of their own; all others are "other", because clients choose them.
var methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", other}

func methodIndex(method string) int {
	if at := slices.Index(methods[:], cmp.Or(method, "GET")); at >= 0 {
		return at
	}
	return len(methods) - 1
}

// requestCounts are a site's counters by method and status. Few are ever used, so a block
// of a hundred is allocated at first use. The zero value is empty.
type requestCounts struct {
	blocks [len(methods)][6]atomic.Pointer[block]
}

// block is the counters of codes with the same first digit. Invalid codes are in the first
// block as 0.
type block [100]atomic.Uint64

func (r *requestCounts) at(method string, code int) *atomic.Uint64 {
	if code < 100 || code > 599 {
		code = 0
	}
	where := &r.blocks[methodIndex(method)][code/100]
	b := where.Load()
	if b == nil {
		b = new(block)
		if !where.CompareAndSwap(nil, b) {
			b = where.Load()
		}
	}
	return &b[code%100]
}

// each calls do for every used counter.
func (r *requestCounts) each(do func(method, hundred, rest int, n *atomic.Uint64)) {
	for m := range r.blocks {
		for h := range r.blocks[m] {
			b := r.blocks[m][h].Load()
			if b == nil {
				continue
			}
			for i := range b {
				if b[i].Load() > 0 {
					do(m, h, i, &b[i])
				}
			}
		}
	}
}

func (r *requestCounts) moveTo(to *requestCounts) {
	r.each(func(method, hundred, rest int, n *atomic.Uint64) {
		move(n, to.at(methods[method], hundred*100+rest))
	})
}

func (r *requestCounts) sum() uint64 {
	var sum uint64
	r.each(func(_, _, _ int, n *atomic.Uint64) { sum += n.Load() })
	return sum
}

// codeLabel is a status as a label.
func codeLabel(hundred, rest int) string {
	if hundred == 0 {
		return other
	}
	return strconv.Itoa(hundred*100 + rest)
}
