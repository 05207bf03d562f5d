package backfill

import "time"

// work counts what was done so far, from which the rest is estimated. Pure.
type work struct {
	units    int64 // that this process has ended
	requests int64 // that this process has sent
	took     time.Duration
	left     int64 // units of all processes
}

// leastUnits is the number of units that must be over before there is an estimate.
const leastUnits = 3

// requestsLeft estimates the requests that the units that are left need, if they need as many
// as those that are over; 0: unknown.
func (w work) requestsLeft() int64 {
	if w.units < leastUnits {
		return 0
	}
	return (w.requests*w.left + w.units - 1) / w.units
}

// ends estimates the end of the job: by the limit, or else by the rate so far. The zero time
// is unknown.
func (w work) ends(now, byLimit time.Time) time.Time {
	if w.units < leastUnits || w.took <= 0 {
		return time.Time{}
	}
	if !byLimit.IsZero() {
		return byLimit
	}
	each := float64(w.took) / float64(w.units)
	rest := each * float64(w.left)
	if rest > float64(10*365*24*time.Hour) {
		return time.Time{}
	}
	return now.Add(time.Duration(rest))
}
