package ledger

// atOnce finds how many requests may be in flight, where a server refuses for that. A limit
// of requests in flight refuses only those that are more than ever before: see suspects. It
// is not safe for concurrent use.
type atOnce struct {
	limit   int64 // 0: none is known
	flying  []flying
	highest int64 // most requests in flight of which the last succeeded
	ruled   bool  // a refusal has shown that the number in flight is not the cause
	served  int   // successes with limit requests in flight
	after   int   // successes before one more is tried
	tried   bool  // the limit is such a try
}

// flying is a request in flight.
type flying struct{ at, level int64 }

const (
	atOnceTry    = 200     // successes before one more is tried for the first time
	atOnceTryMax = 1 << 15 // and at most
)

// take notes a request.
func (a *atOnce) take(v int64) {
	a.flying = append(a.flying, flying{v, int64(len(a.flying)) + 1})
}

// end removes a request, and returns how many were in flight with it when it was sent; 0 if
// it is unknown.
func (a *atOnce) end(at int64) (level int64) {
	for i := range a.flying {
		if a.flying[i].at == at {
			level = a.flying[i].level
			a.flying = append(a.flying[:i], a.flying[i+1:]...)
			return level
		}
	}
	if len(a.flying) > 0 {
		a.flying = a.flying[1:] // the clock went back
	}
	return 0
}

// level is how many requests were in flight with one that still is.
func (a *atOnce) level(at int64) int64 {
	for i := range a.flying {
		if a.flying[i].at == at {
			return a.flying[i].level
		}
	}
	return 0
}

// postpone moves a request to a later time.
func (a *atOnce) postpone(at, v int64) {
	for i := range a.flying {
		if a.flying[i].at == at {
			a.flying[i].at = v
			return
		}
	}
}

// full reports whether no other request may be sent until one is answered.
func (a *atOnce) full() bool { return a.limit > 0 && int64(len(a.flying)) >= a.limit }

// suspects reports whether a refusal may be due to the requests in flight: never before were
// as many in flight.
func (a *atOnce) suspects(level int64) bool {
	return !a.ruled && level >= 2 && level > a.highest && (a.limit == 0 || level <= a.limit && a.tried)
}

// refused sets the limit below the level of a refused request.
func (a *atOnce) refused(level int64) {
	if a.tried {
		a.after = min(4*a.after, atOnceTryMax)
	}
	a.tried, a.served = false, 0
	a.after = max(a.after, atOnceTry)
	if next := max(level-1, 1); a.limit == 0 || next < a.limit {
		a.limit = next
	}
	a.highest = min(a.highest, a.limit)
}

// rule notes that the number in flight is not the cause of refusals.
func (a *atOnce) rule() { a.ruled, a.limit = true, 0 }

// succeeded counts a success of a request that was sent with so many in flight, and tries one
// more after many of them.
func (a *atOnce) succeeded(level int64) {
	a.highest = max(a.highest, level)
	if a.limit == 0 || level < a.limit {
		return
	}
	if a.served++; a.served >= a.after {
		a.limit, a.served, a.tried = a.limit+1, 0, true
	}
}
