package forecast

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// Lately is the time that the present rate covers, and atLeast the time it covers when a limit has
	// been used for a shorter time than that: a second's burst is no rate.
	Lately  = 10 * time.Minute
	atLeast = time.Minute
)

// Rate measures the use of a limit per second. It is not safe for concurrent use.
type Rate struct {
	used    int64
	at      time.Time     // of the last sample
	ends    time.Time     // of the window, if it has edges
	sum     float64       // what was taken lately: the longer ago, the less it counts
	sampled time.Duration // from the first sample to the last
}

// NewRate is the rate of a limit of which so much was used at a time.
func NewRate(at time.Time, used int64) *Rate { return &Rate{at: at, used: used} }

// Sample takes in how much of the limit is used now.
func (r *Rate) Sample(now time.Time, used int64, spec limit.Spec) {
	took := now.Sub(r.at)
	if took <= 0 {
		return
	}
	more := float64(used - r.used)
	windows := took.Seconds() / max(spec.Window.Seconds(), 1)
	switch spec.Traits().Returns {
	case limit.AsTaken:
		if r.sampled >= spec.Window { // what was taken before the window does not count any more
			more += float64(r.used) * min(windows, 1)
		}
	case limit.Continuously:
		more += min(float64(r.used), float64(spec.Amount)*windows)
	case limit.AfterFirstUse:
		if used < r.used/2 { // another window
			more = float64(used)
		}
	default:
		if !r.ends.IsZero() && !now.Before(r.ends) {
			more = float64(used)
		}
		if !now.Before(r.ends) {
			r.ends = endOf(now, spec)
		}
	}
	// As far as is known it was taken evenly.
	old := math.Exp(-took.Seconds() / Lately.Seconds())
	r.sum = r.sum*old + max(more, 0)*(1-old)/(took.Seconds()/Lately.Seconds())
	r.used, r.at, r.sampled = used, now, r.sampled+took
}

// Observed is the time from the first sample to the last.
func (r *Rate) Observed() time.Duration { return r.sampled }

// PerSecond is the present rate.
func (r *Rate) PerSecond() float64 {
	part := max(r.sampled, atLeast).Seconds() / Lately.Seconds()
	return r.sum / (Lately.Seconds() * (1 - math.Exp(-part)))
}
