// Package forecast says when a budget ends. It is pure: now is an argument.
package forecast

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// shortest is the shortest window that is worth a forecast, and longest how far a forecast
// looks.
const (
	shortest = 10 * time.Minute
	longest  = 365 * 24 * time.Hour
)

// Covers tells whether a limit's window is long enough for a forecast, and can be used up.
func Covers(spec *limit.Spec) bool {
	return spec.Depletes() && spec.Length() >= shortest
}

// Budget holds the used and the remaining units of a limit.
type Budget struct {
	Spec               limit.Spec
	Amount, Used, Left int64
	Rate               float64 // per second, lately
}

// Forecast describes the expected end of a budget.
type Forecast struct {
	Opens, Ends time.Time // of the window; zero: the window has no edges
	RunsOut     time.Time // when nothing is left; zero: not in this window
	Done        time.Time // when so many more would be taken; zero: nothing is to be taken, or never
}

// Forecast says when the window ends, when nothing is left, and when n more would be taken.
// Without a present rate, these are taken as fast as the limit allows.
func (b *Budget) Forecast(now time.Time, n int64) Forecast {
	var f Forecast
	width := b.Spec.Window
	if f.Opens, f.Ends = limit.WindowAt(now, b.Spec); !f.Ends.IsZero() {
		width = f.Ends.Sub(f.Opens)
	}
	if spare := b.Rate - b.returns(); spare > 0 {
		out := now.Add(seconds(float64(b.Left) / spare))
		if f.Ends.IsZero() || out.Before(f.Ends) {
			f.RunsOut = out
		}
	}
	next := f.Ends
	if next.IsZero() {
		next = now.Add(width)
	}
	f.Done = b.done(now, next, width, n)
	return f
}

// done returns the time at which n more would be taken, where the next window begins at a time and windows are
// so wide.
func (b *Budget) done(now, next time.Time, width time.Duration, n int64) time.Time {
	switch {
	case n <= 0:
		return time.Time{}
	case n <= b.Left:
		return now.Add(b.takes(n))
	}
	rest := n - b.Left
	whole := (rest - 1) / max(b.Amount, 1)
	last := rest - whole*b.Amount
	if float64(whole)*width.Hours() > longest.Hours() {
		return time.Time{}
	}
	// A window takes as long as it is, or longer at the present rate.
	each := max(width, b.takes(b.Amount))
	return next.Add(time.Duration(whole) * each).Add(b.takes(last))
}

// takes returns the time in which n are taken at the present rate.
func (b *Budget) takes(n int64) time.Duration {
	if b.Rate <= 0 {
		return 0
	}
	return min(seconds(float64(n)/b.Rate), longest)
}

// returns returns the units per second that come back by themselves, of limits whose windows have no
// edges.
func (b *Budget) returns() float64 {
	window := max(b.Spec.Window.Seconds(), 1)
	most := float64(b.Amount) / window
	switch b.Spec.Traits().Returns {
	case limit.Continuously:
		return most
	case limit.AsTaken:
		if b.Rate <= most {
			return most
		}
		return min(float64(b.Used)/window, most)
	}
	return 0
}

func seconds(n float64) time.Duration {
	return time.Duration(min(n, longest.Seconds()) * float64(time.Second))
}

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
			_, r.ends = limit.WindowAt(now, spec)
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
