package ledger

import (
	"time"

	"github.com/abide-proxy/abide/learn"
)

// announcement is what a response announces of a limit, without impossible values.
type announcement struct {
	limit, left float64 // -1: not announced
	reset       int64   // nominal end of the window; 0: not announced
	certainEnd  int64   // when the window has certainly ended
	slop        int64   // tolerance between the resets of one window
	blur        int64   // how much two announced resets may differ though the true ones are the same
	adjusted    bool    // the reset is a date of a server whose clock differs: converted to the local clock
	period      int64   // length of the window; 0: not announced
	rate        float64 // units a second; 0: not announced
	next        int64   // when one more unit is available; 0: not announced
	exact       bool    // the reset was announced as a duration
	roundTrip   int64   // time from the request to its response
}

// reading is all that one response tells of a limit.
type reading struct {
	now, sent int64
	own       int64 // units of its request that were not counted as answered before
	probe     bool  // its request was the probe
	probing   bool  // a later request is the probe
	bounds
	announcement
}

// maxSkewLeft bounds the error of a server's time after correction of its clock.
const maxSkewLeft = 2 * second

// read makes the announcement of a response that took rtt. said is false if it announced
// nothing.
func (l *Ledger) read(v, rtt int64, s *learn.Limit) (h announcement, said bool) {
	h.roundTrip = rtt
	h.limit, h.left = number(s.Limit.N, s.Limit.Known), number(s.Remaining.N, s.Remaining.Known)
	used := number(s.Used.N, s.Used.Known)
	if l.options.Unit == learn.Percent && h.limit < 0 {
		if used >= 0 || h.left >= 0 {
			h.limit = 100
		}
	}
	if h.left < 0 && used >= 0 && h.limit > 0 {
		h.left = max(h.limit-used, 0)
	}
	if h.limit > 0 && h.left > h.limit {
		h.left = h.limit
	}
	if s.Rate > 0 && s.Rate < float64(maxAmount) {
		h.rate = s.Rate
	}
	if p := int64(s.Window); p > 0 && p <= maxAhead {
		h.period = p
	}
	h.exact = s.Relative
	if !s.Reset.IsZero() {
		if r := l.clock.On(s.Reset); r > 0 && r-v <= maxAhead {
			step := min(max(int64(s.Resolution), 0), hour)
			r = max(r, v-hour)
			h.reset, h.certainEnd = r, r+step
			h.slop = step + min(max(rtt, 0), minute) + 20*int64(time.Millisecond)
			h.blur = h.slop
			if !s.Relative {
				h.certainEnd += maxSkewLeft
				h.slop += maxSkewLeft + second
				if h.adjusted = step >= second && r%second != 0; h.adjusted {
					h.blur += second // Date is cut to seconds
				} else {
					h.blur = step
				}
			}
		}
	}
	if h.period > 0 && h.reset > 0 && 2*(h.slop-rtt) >= h.period && l.kind < refilling {
		h.reset, h.certainEnd = 0, 0 // rounded too coarsely to distinguish two windows
	}
	if !s.Next.IsZero() {
		if at := l.clock.On(s.Next); at > v && at-v <= maxAhead {
			h.next = at
		}
	}
	return h, h.limit >= 0 || h.left >= 0 || h.reset > 0 || h.rate > 0
}
