package ledger

import "time"

const (
	minRate, maxRate = 1.0 / 3600, 1e6 // requests a second

	lowerFactor         = 0.7   // what remains of a rate that was refused
	minLowerFactor      = 0.3   // and at least, however little got through
	settleFactor        = 0.955 // of the lowest that was refused, where it stands
	attemptFactor       = 1.04  // what it tries after that
	successesToRise     = 200   // successes before it goes half the way back
	successesToAttempt  = 1000  // before it tries more than was refused
	successesPerRefusal = 600   // successes that each refusal costs before that
	settleTime          = 20 * second
	holdTime            = 5 * minute
	idleAfter           = 24 * hour
	maxLateStart        = 50 * int64(time.Millisecond) // by which one that goes late does not delay the next
	maxProbeInterval    = 60 * second                  // between probes while everything is refused
	maxDebt             = 1 << 18                      // an attempt waits for no more successes than these and the price
)

// rateSearch finds the highest rate that is not refused. The more requests were refused at
// higher rates, the longer it waits before an attempt.
type rateSearch struct {
	rate    float64 // requests a second
	refused float64 // the lowest rate that was refused; 0: none
	guessed bool    // no request had succeeded at this rate when the search began

	good         int     // successes at this rate
	since        int64   // start of this rate
	sinceRefusal float64 // successes since the last refusal
	refusedAt    int64   // time of the last refusal

	trying bool    // the rate is an attempt above the refused rate
	debt   float64 // successes required before the next attempt
	fails  int     // attempts refused in a row
	step   float64 // factor of the next attempt
}

func (s *rateSearch) gap(n int64) int64 {
	return plus(0, float64(n)/s.rate)
}

// lower sets a rate below the refused one.
func (s *rateSearch) lower(v int64) {
	next := s.rate * lowerFactor
	if took := float64(v-s.refusedAt) / float64(second); took >= 1 && s.sinceRefusal >= 10 {
		// From one refusal to the next about as much got through as the limit is.
		next = min(max(1.05*s.sinceRefusal/took, s.rate*minLowerFactor), next)
	}
	if s.guessed {
		s.guessed = false // the refusal tells nothing about an untried rate
	} else if s.refused == 0 || s.rate < s.refused {
		s.refused = s.rate
	}
	if s.trying {
		s.fails = min(s.fails+1, 16)
	}
	s.trying, s.step = false, attemptFactor-1
	s.rate = max(next, minRate)
	s.good, s.since = 0, v
	s.sinceRefusal, s.refusedAt = 0, v
	s.debt = max(s.debt, min(float64(successesToAttempt)*float64(int64(1)<<s.fails), maxDebt))
}

// succeeded counts n successes, and raises the rate when it has held for long enough.
func (s *rateSearch) succeeded(v, n int64) {
	s.good += int(n)
	s.sinceRefusal += float64(n)
	s.debt = max(s.debt-float64(n), 0)
	if took := float64(v-s.since) / float64(second); took > 60 && float64(s.good) < s.rate*took/2 {
		s.good, s.since = 0, v // the rate was not used
		return
	}
	switch {
	case s.refused == 0:
		// Nothing is known to be too much.
		if s.good >= 50 && v-s.since >= settleTime/2 {
			s.rise(v, s.rate*1.3)
		}
	case s.rate < s.refused*settleFactor*0.999:
		if s.good >= successesToRise && v-s.since >= settleTime {
			next := (s.rate + s.refused*settleFactor) / 2
			if next > s.refused*settleFactor*0.98 {
				next = s.refused * settleFactor
			}
			s.rise(v, next)
		}
	case s.good >= successesToAttempt && s.debt == 0 && v-s.since >= holdTime:
		if s.rate > s.refused {
			// It is not too much any more, or what had been saved is not used up.
			s.refused, s.fails = s.rate/settleFactor, s.fails/2
			s.debt = successesToAttempt * float64(int64(1)<<s.fails)
			s.step = min(1.5*s.step, 0.5)
		}
		s.trying = true
		s.rise(v, s.rate*(1+s.step))
	}
}

func (s *rateSearch) rise(v int64, rate float64) {
	s.rate = min(rate, maxRate)
	s.good, s.since = 0, v
}
