package sitelog

import "time"

// Request records one request for the log: its number in debug lines, and its waits in all
// attempts. The zero value is a new request. It is not safe for concurrent use.
type Request struct {
	number uint64 // 0: not assigned yet
	waits  []wait
	line   lineWait
}

// wait is the time for which one limit held the request.
type wait struct {
	limit   string // title
	total   time.Duration
	counted bool // in the HeldTime of the limit
}

// lineWait is the time for which a request was held, for the next log line that counts held
// requests (see siteLines).
type lineWait struct {
	line  uint64 // number of that line, from 1; 0: not counted in a line yet
	total time.Duration
}

// mostWaits bounds the limits of one request that are counted separately.
const mostWaits = 16

// Add counts a wait for a limit, by the limit's title.
func (r *Request) Add(limit string, waited time.Duration) {
	if waited <= 0 {
		return
	}
	if item := r.wait(limit); item != nil {
		item.total += waited
	} else if len(r.waits) < mostWaits {
		r.waits = append(r.waits, wait{limit: limit, total: waited})
	}
}

// wait returns the wait for a limit; nil if that limit did not hold the request.
func (r *Request) wait(limit string) *wait {
	for i := range r.waits {
		if r.waits[i].limit == limit {
			return &r.waits[i]
		}
	}
	return nil
}

// Longest is the limit that held the request for longest; "" if none did.
func (r *Request) Longest() string {
	var most wait
	for _, one := range r.waits {
		if one.total > most.total {
			most = one
		}
	}
	return most.limit
}
