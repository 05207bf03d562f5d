package ledger

const (
	firstPause  = second * 9 / 10 // after the first refusal of a limit
	leastPause  = second / 4      // after any other
	longerPause = 1.5             // of the time since the first refusal is the next pause
	downPart    = 3               // of that time is the next pause while the server may have failed: a third
	downPause   = 30 * second     // and at most
	maxPause    = 15 * minute
	blockPause  = 5 * second  // the first after a block; one that is over then was none
	blockProbes = 20 * second // between probes of a block at least: a shorter one ends, although each request prolongs it
	lateProbe   = 65          // 64ths of a usual time after which the probe goes
)

// stop is the time after a refusal in which only single probes go.
type stop struct {
	active    bool  // the last response was a refusal
	since     int64 // the first refusal
	refused   int64 // when the last request was sent whose refusal may be due to the rate; 0: none was
	probed    bool  // a probe was refused
	single    bool  // one request was refused
	sooner    bool  // the first refused request went sooner than at the rate, of which the refusal says nothing
	failure   bool  // the server may have failed, which says nothing of a rate
	down      int64 // the first refused request since which the server may have been out of order; 0: none
	told      bool  // a refusal cannot be a failure of the server
	outage    bool  // the refusals before were taken for those of a failure
	until     int64 // no request goes before
	pause     int64 // between probes
	probeSent int64 // 0: no probe is in flight
	rateSince int64 // requests before this time had another rate
}

// usualWindows are the lengths of windows that services document, in seconds, and windows those that are believed. probes
// are times after the beginning of a window at which a request is likely to succeed, and firstProbes those of them at which
// one goes after the first refusal.
var (
	usualWindows = [...]int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 86400}
	windows      = append(usualWindows[:], 3, 4, 6, 7, 8, 9, 12)
	probes       = [...]int64{1, 2, 3, 4, 5, 13, 31, 61, 121, 301, 601, 901, 1801, 2701, 3601, 7201, 14401, 86401}
	firstProbes  = append([]int64{1}, probes[4:]...)
)

// next returns the pause after another refusal of a single request: until a window of a usual length
// ends that began at a time, if that is neither very soon nor very late. A block begins with its first refusal, and each
// request may prolong it. first: no rate is known yet.
func (s *stop) next(v, began int64, first, block bool) int64 {
	elapsed := max(v-s.since, leastPause)
	least, most, times := elapsed/2, 5*elapsed, probes[:]
	if first {
		times = firstProbes
	}
	if block {
		began, least, most = s.since, max(least, blockProbes), 4*most
	}
	for _, length := range times {
		if pause := began + length*second*lateProbe/64 - v; pause >= least && pause <= most {
			return min(pause, maxPause)
		}
	}
	return min(int64(longerPause*float64(elapsed)), maxPause)
}
