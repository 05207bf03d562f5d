package ledger

import (
	"cmp"
	"slices"
	"time"
)

// atOnce finds how many requests may be in flight, where a server refuses for that. A limit
// of requests in flight refuses only those that are more than ever before: see suspects.
//
// A limit of requests that come too close to each other does that too. So requests are spaced
// evenly over the time of an answer while the number is limited, and more are tried sooner
// and in larger steps while that succeeds. It is not safe for concurrent use.
type atOnce struct {
	limit   int64 // 0: none is known
	before  int64 // the limit at the last success
	flying  []flying
	most    int64 // most requests in flight of which the last succeeded
	highest int64 // the same, if that has happened twice
	ruled   bool  // a refusal has shown that the number in flight is not the cause
	served  int   // successes with limit requests in flight
	after   int   // successes before more are tried
	fails   uint  // tries that were refused
	tried   bool  // the limit is a try
	latency int64 // mean time of an answer
	sent    int64 // the last request
}

// flying is a request in flight.
type flying struct {
	at, level int64
	sure      int64 // the server had at least so many
	sooner    bool  // after the request before than the rate lets requests follow
}

const (
	firstTry     = 32      // successes before one more is tried for the first time
	latestTry    = 1 << 15 // and at most
	nextTry      = 16      // successes before more are tried after a try that succeeded
	spacingShare = 0.9     // of the time of an answer, over which requests are spaced
	arriving     = 8       // part of the time of an answer in which a request may still be on its way to the server
)

// take notes a request.
func (a *atOnce) take(v int64, sooner bool) {
	a.flying = append(a.flying, flying{v, int64(len(a.flying)) + 1, int64(len(a.flying)) + 1, sooner})
	a.sent = v
}

// next returns the time at which another request may go, if fewer than the limit are in flight.
func (a *atOnce) next() int64 {
	if a.limit == 0 {
		return 0
	}
	return a.sent + int64(spacingShare*float64(a.latency)/float64(a.limit))
}

// end removes a request, and returns it.
func (a *atOnce) end(v, at int64) flying {
	f := a.of(at)
	if i := max(a.index(at), 0); i < len(a.flying) { // none if the clock went back: then the first
		a.flying = slices.Delete(a.flying, i, i+1)
	}
	for i := len(a.flying) - 1; i >= 0 && v-a.flying[i].at < a.latency/arriving; i-- {
		a.flying[i].sure = a.flying[i].level - 1 // the server may have answered this request before it got that one
	}
	return f
}

// index returns the place of a request among those in flight, or -1.
func (a *atOnce) index(at int64) int {
	return slices.IndexFunc(a.flying, func(f flying) bool { return f.at == at })
}

// of returns the request that was sent at a time; the zero value if it is unknown.
func (a *atOnce) of(at int64) flying {
	if i := a.index(at); i >= 0 {
		return a.flying[i]
	}
	return flying{}
}

// suspects reports whether a refusal may be due to the requests in flight: never before were
// as many in flight.
func (a *atOnce) suspects(level int64) bool {
	return !a.ruled && level >= 2 && level > a.highest && (a.limit == 0 || level <= a.limit)
}

// refused sets the limit below the level of a refused request.
func (a *atOnce) refused(level int64) {
	if a.tried {
		a.fails = min(a.fails+1, 16)
	}
	a.tried, a.served = false, 0
	a.after = tryAfter(a.fails)
	a.limit = min(cmp.Or(a.limit, level), max(level-1, 1))
	a.highest = min(a.highest, a.limit)
}

// tryAfter is the number of successes before one more is tried, after so many tries that were refused.
func tryAfter(fails uint) int { return min(firstTry<<(2*fails), latestTry) }

// succeeded counts a success of a request, and tries more in flight after many of them.
func (a *atOnce) succeeded(f flying, took int64) {
	took = min(max(took, 1), minute)
	a.latency = cmp.Or(a.latency, took)
	a.latency += (took - a.latency) / 8
	a.highest, a.most, a.before = max(a.highest, min(f.sure, a.most)), max(a.most, f.sure), a.limit
	if a.limit == 0 || f.sure < a.limit {
		return
	}
	if a.served++; a.served < a.after {
		return
	}
	step := int64(1)
	if a.fails == 0 {
		step, a.after = max(a.limit/4, 1), nextTry
	}
	a.limit, a.served, a.tried = a.limit+step, 0, true
}

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)

	// maxAhead bounds how far in the future an announced time may be, and unbelievableHold
	// replaces longer times.
	maxAhead         = 31 * 24 * hour
	unbelievableHold = 24 * hour

	// maxAmount is the largest amount of anything, so that sums cannot overflow.
	maxAmount = int64(1) << 50
)
