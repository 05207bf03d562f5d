package limit

import (
	"fmt"
	"math"
	"time"
)

// The calendar periods of a quota. A week begins on Monday.
const (
	Day   = "day"
	Week  = "week"
	Month = "month"
)

// Spec describes a limit. Which fields are used depends on the traits of As. If you add a field, also
// add a trait or name an existing one here, and change check and package policy.
type Spec struct {
	As       As
	Amount   int64          // all but kinds that adapt
	Window   time.Duration  // windowed kinds without a calendar; if the kind adapts: in which failures add up, 0 is a minute
	Burst    int64          // trait Burst: 0 is Amount
	Min, Max float64        // trait Adapts: units per second
	Period   string         // trait Calendar: Day, Week or Month
	Location *time.Location // trait Calendar: nil is UTC
}

// maxWindow is the longest window. Sums of ten years fit 64 bits.
const maxWindow = 10 * 366 * 24 * time.Hour

const maxWindowNanos = int64(maxWindow)

// minRate and maxRate are the bounds of a rate, per second.
const (
	minRate = 1e-6
	maxRate = 1e9
)

// Traits are those of the limit's kind.
func (s *Spec) Traits() Traits { return s.As.Traits() }

// AtOnce returns the units that can be taken at once of an unused limit; 0 for Adaptive.
func (s *Spec) AtOnce() int64 {
	if s.Traits().Burst && s.Burst > 0 {
		return s.Burst
	}
	return s.Amount
}

// Length is the length of a window, of a Period the longest. It is 0 for a limit without
// windows.
func (s *Spec) Length() time.Duration {
	switch t := s.Traits(); {
	case !t.Windowed:
		return 0
	case !t.Calendar:
		return s.Window
	}
	const hour = time.Hour // by which a clock is set back when summer ends
	switch s.Period {
	case Week:
		return 7*24*time.Hour + hour
	case Month:
		return 31*24*time.Hour + hour
	}
	return 24*time.Hour + hour
}

// Depletes tells whether the limit is used up over time, so that its end can be forecast.
func (s *Spec) Depletes() bool {
	t := s.Traits()
	return t.Windowed && !t.Spaced
}

// Shareable tells whether a fleet can divide the limit, which must be valid. Otherwise each
// instance has the whole limit.
func (s *Spec) Shareable() bool {
	fleet := s.Traits().Fleet
	return fleet != EachItsOwn && (fleet != ByHalfBurst || s.AtOnce() >= 2) && s.check() == nil
}

// check tells what is wrong with the limit.
func (s Spec) check() error {
	if _, known := kinds[s.As]; !known {
		return fmt.Errorf("a limit as %q is not known", s.As)
	}
	traits := s.Traits()
	if traits.Adapts {
		switch {
		case !(s.Min > 0) || !(s.Max >= s.Min) || math.IsInf(s.Max, 0):
			return fmt.Errorf("an %s limit needs 0 < min <= max, not %v and %v", s.As, s.Min, s.Max)
		case s.Min < minRate || s.Max > maxRate:
			return fmt.Errorf("an %s limit is between 0.000001 and 1000000000 per second", s.As)
		case s.Window < 0 || s.Window > maxWindow:
			return fmt.Errorf("an %s limit cannot have a window of %v", s.As, s.Window)
		}
		return nil
	}
	if s.Amount < 1 || s.Amount > maxAmount {
		return fmt.Errorf("the amount of a limit is 1 to %d, not %d", int64(maxAmount), s.Amount)
	}
	switch {
	case traits.InFlight:
	case traits.Calendar:
		if s.Period != Day && s.Period != Week && s.Period != Month {
			return fmt.Errorf("a %s is per day, week or month, not %q", s.As, s.Period)
		}
	default:
		if s.Window <= 0 || s.Window > maxWindow {
			return fmt.Errorf("the window of a limit is more than 0 and at most %v, not %v", maxWindow, s.Window)
		}
		if traits.Burst && (s.Burst < 0 || s.Burst > min(maxAmount, math.MaxInt) || s.Burst == 0 && s.Amount > math.MaxInt) {
			return fmt.Errorf("the burst of a %s is 1 to %d, not %d", s.As, int64(maxAmount), s.Burst)
		}
	}
	return nil
}
