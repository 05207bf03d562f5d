package proxy

import "time"

// requestHolds are the waits of one request, in all its attempts. The zero value is a
// request that never waited. It is not safe for concurrent use.
type requestHolds struct {
	limits []limitHold
	line   lineHold
}

// limitHold is how long one limit held a request.
type limitHold struct {
	limit   string // title
	total   time.Duration
	counted bool // by activity
}

// lineHold is how long a request was held, as far as the next line counts it that says
// how many requests a site has held (see siteLog).
type lineHold struct {
	line  uint64 // number of that line, from 1 on; 0: the request counts in none yet
	total time.Duration
}

// mostLimitHolds bounds the limits of one request that are told apart.
const mostLimitHolds = 16

// add counts a wait for a limit.
func (h *requestHolds) add(limit string, waited time.Duration) {
	if waited <= 0 {
		return
	}
	if one := h.of(limit); one != nil {
		one.total += waited
	} else if len(h.limits) < mostLimitHolds {
		h.limits = append(h.limits, limitHold{limit: limit, total: waited})
	}
}

// of is what one limit held the request for; nil: nothing.
func (h *requestHolds) of(limit string) *limitHold {
	for i := range h.limits {
		if h.limits[i].limit == limit {
			return &h.limits[i]
		}
	}
	return nil
}

// longest is the limit that held the request for longest; "" if none did.
func (h *requestHolds) longest() string {
	var most limitHold
	for _, one := range h.limits {
		if one.total > most.total {
			most = one
		}
	}
	return most.limit
}
