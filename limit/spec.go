package limit

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// As names an arithmetic, as the operator does.
type As string

// The arithmetics.
const (
	Rolling     As = "rolling"     // at most Amount in every interval of length Window
	Fixed       As = "fixed"       // at most Amount in each Window aligned to the clock, in UTC
	FirstUse    As = "first-use"   // a Window opens with the first request after the last
	Bucket      As = "bucket"      // Amount per Window on average, Burst at once
	Paced       As = "paced"       // one every Window/Amount
	Quota       As = "quota"       // at most Amount per Period in Location
	Concurrency As = "concurrency" // at most Amount in flight
	Adaptive    As = "adaptive"    // a rate between Min and Max
)

// The calendar periods of a quota. A week begins on Monday.
const (
	Day   = "day"
	Week  = "week"
	Month = "month"
)

// Spec is what a limit promises. Which fields count depends on As.
type Spec struct {
	As       As
	Amount   int64          // all but Adaptive
	Window   time.Duration  // Rolling, Fixed, FirstUse, Bucket, Paced; of Adaptive, in which failures add up: 0 is a minute
	Burst    int64          // Bucket: 0 is Amount
	Min, Max float64        // Adaptive: units per second
	Period   string         // Quota: Day, Week or Month
	Location *time.Location // Quota: nil is UTC
}

// longest is the longest window. Ten years leave sums of times room in 64 bits.
const longest = 10 * 366 * 24 * time.Hour

const longest64 = int64(longest)

// slowest and fastest are the bounds of a rate, per second.
const (
	slowest = 1e-6
	fastest = 1e9
)

// New is a meter of which nothing has been taken.
func New(s Spec) (Meter, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	switch s.As {
	case Rolling:
		return newRolling(s), nil
	case Fixed:
		return newFixed(s), nil
	case FirstUse:
		return newFirstUse(s), nil
	case Bucket:
		return newBucket(s), nil
	case Paced:
		return newPaced(s), nil
	case Quota:
		return newQuota(s), nil
	case Concurrency:
		return newConcurrency(s), nil
	default:
		return newAdaptive(s), nil
	}
}

func (s Spec) check() error {
	if _, known := kinds[s.As]; !known {
		return fmt.Errorf("a limit as %q is not known", s.As)
	}
	if s.As == Adaptive {
		switch {
		case !(s.Min > 0) || !(s.Max >= s.Min) || math.IsInf(s.Max, 0):
			return fmt.Errorf("an adaptive limit needs 0 < min <= max, not %v and %v", s.Min, s.Max)
		case s.Min < slowest || s.Max > fastest:
			return errors.New("an adaptive limit is between 0.000001 and 1000000000 per second")
		case s.Window < 0 || s.Window > longest:
			return fmt.Errorf("an adaptive limit cannot have a window of %v", s.Window)
		}
		return nil
	}
	if s.Amount < 1 || s.Amount > most {
		return fmt.Errorf("the amount of a limit is 1 to %d, not %d", int64(most), s.Amount)
	}
	switch s.As {
	case Concurrency:
	case Quota:
		if s.Period != Day && s.Period != Week && s.Period != Month {
			return fmt.Errorf("a quota is per day, week or month, not %q", s.Period)
		}
	default:
		if s.Window <= 0 || s.Window > longest {
			return fmt.Errorf("the window of a limit is more than 0 and at most %v, not %v", longest, s.Window)
		}
		if s.As == Bucket && (s.Burst < 0 || s.Burst > min(most, math.MaxInt) || s.Burst == 0 && s.Amount > math.MaxInt) {
			return fmt.Errorf("the burst of a bucket is 1 to %d, not %d", int64(most), s.Burst)
		}
	}
	return nil
}
