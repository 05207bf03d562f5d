package ledger

import (
	"github.com/abide-proxy/abide/limit/learn"
)

// announcement is one response's announcement of a limit, without impossible values.
type announcement struct {
	limit, left float64 // -1: not announced
	reset       int64   // nominal end of the window; 0: not announced
	certainEnd  int64   // when the window has certainly ended
	earliest    int64   // the window has certainly not ended before
	slop        int64   // tolerance between the resets of one window
	blur        int64   // how much two announced resets may differ though the true ones are the same
	period      int64   // length of the window; 0: not announced
	rate        float64 // units a second; 0: not announced
	next        int64   // when one more unit is available; 0: not announced
	exact       bool    // the reset was announced as a duration
	step        int64   // resolution of the reset
	coarse      int64   // the same with the jitter
	nominal     span    // the reset by the server's clock: what it may have announced
	dated       bool    // the response told the server's time
	skew        int64   // local clock − server's clock, at most
	roundTrip   int64   // time from the request to its response
	renewed     bool    // all units are back, and a later end is announced
}

// reading is one response about a limit.
type reading struct {
	now, sent int64
	own       int64 // units of its request that were not counted as answered before
	beside    int64 // requests in flight with it that have not taken of the limit
	denied    bool  // it was refused because of another limit
	probe     bool  // its request was the probe
	probing   bool  // a later request is the probe
	bounds    bounds
	said      announcement
}

// maxSkewLeft bounds the error of a server's time after correction of its clock.
const maxSkewLeft = 2 * second

// read makes the announcement of a response that took rtt. said is false if it announced
// nothing.
func (l *Ledger) read(v, rtt int64, s *learn.Limit) (h announcement, said bool) {
	h.roundTrip = rtt
	h.limit, h.left = number(s.Limit.N, s.Limit.Known), number(s.Remaining.N, s.Remaining.Known)
	used := number(s.Used.N, s.Used.Known)
	if l.options.Unit == learn.Percent && h.limit < 0 && (used >= 0 || h.left >= 0) {
		h.limit = 100
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
		l.readReset(v, min(max(rtt, 0), minute), s, &h)
	}
	if h.period > 0 && h.reset > 0 && 2*h.coarse >= h.period && l.allowance.kind < refilling {
		h.reset, h.certainEnd = 0, 0 // rounded too coarsely to distinguish two windows
	}
	if at := l.clock.On(s.Next); !s.Next.IsZero() && at > v && at-v <= maxAhead {
		h.next = at
	}
	return h, h.limit >= 0 || h.left >= 0 || h.reset > 0 || h.rate > 0
}

// readReset reads the reset of a limit. One that is a date is converted to the local clock by
// a constant difference: that of Date varies by its rounding.
func (l *Ledger) readReset(v, rtt int64, s *learn.Limit, h *announcement) {
	step := min(max(int64(s.Resolution), 0), hour)
	h.step, h.coarse = step, step+resetJitter
	r := l.clock.On(s.Reset)
	server := r - int64(s.Skew.Applied)
	if s.Relative {
		h.nominal = span{r - step - rtt, r}
	} else {
		if !s.Skew.Reset.IsZero() {
			server = l.clock.On(s.Skew.Reset)
			r = server + l.shift(server, int64(s.Skew.Applied), rtt)
		}
		h.nominal = span{server, server}
		h.dated, h.skew = s.Skew.Known, int64(s.Skew.Most)
	}
	if r <= 0 || r-v > maxAhead {
		return
	}
	h.reset = max(r, v-hour)
	h.certainEnd, h.slop, h.blur = h.reset+step, h.coarse, h.coarse+rtt
	switch {
	case s.Relative:
		h.slop += rtt
		h.earliest = h.reset - h.slop
	case h.dated:
		h.certainEnd = max(h.certainEnd+maxSkewLeft, server+h.skew+step)
		h.earliest = server + h.skew - second - rtt - h.coarse
	default:
		h.certainEnd += maxSkewLeft
		h.earliest = h.reset - maxSkewLeft - h.coarse
	}
}

// resetJitter bounds the difference of two announcements of one time beside their rounding.
const resetJitter = 20 * second / 1000

// sameSkew bounds the difference of two measured skews of the same clocks, besides the time that
// the answers took.
const sameSkew = 3 * second

// shift returns what is added to the server's times. It changes only if the clocks do, or if
// an answer was faster than those before.
func (l *Ledger) shift(server, applied, rtt int64) int64 {
	w, was := &l.allowance.window, l.announced.shift
	by := applied - was
	if by == 0 || by > 0 && by <= sameSkew+rtt {
		return was
	}
	l.announced.shift, l.allowance.evidence.sample = applied, sample{}
	near := w.reset - server
	switch {
	case by < -sameSkew-rtt, by > 0:
		if w.reset > 0 && near-applied <= sameSkew && applied-near <= sameSkew {
			l.announced.shift = near // the window of a state that was stored
		}
	default:
		if w.reset > 0 {
			w.reset += by
		}
		if w.before > 0 {
			w.before += by
		}
	}
	return l.announced.shift
}
