package ledger

import (
	"math"
	"time"
)

const (
	minRate, maxRate = 1.0 / 3600, 1e6 // requests a second

	floorPart           = 0.7  // of what comes back between two refusals, at least, no limit refuses
	settled             = 0.97 // of the lowest rate that was refused: the search ends there
	frequentAccepted    = 5    // requests or fewer between two refusals are few
	fewAccepted         = 10   // requests or more between two refusals tell how many come back
	savedPart           = 0.7  // of a good rate, or less, comes back if it was good due to saved units
	mostRepeated        = 2    // refusals may belong to one before although requests succeeded between
	mostFrequent        = 6    // refusals in a row with so few between may be due to the rate
	afterBlock          = 0.5  // of a rate that was blocked remains
	near                = 1.1  // a refused rate that is so near to a good one ends the search at the good one
	bisect              = 0.35 // part of the way, in logarithms, from a good rate to a refused one
	firstGain, lastGain = 1.25, 1.4
	attemptFactor       = 1.04 // of the settled rate is tried after many successes
	successesToAttempt  = 1000
	successesPerRefusal = 600 // that each refusal delays the next attempt by
	holdTime            = 5 * minute
	idleAfter           = 24 * hour
	maxLateStart        = 50 * int64(time.Millisecond) // by which a request that goes late does not delay the next
	lateStartPart       = 8                            // of the time between two requests, and at most such a part of it
	maxDebt             = 1 << 18                      // an attempt waits for no more successes than these and the price
)

// rateSearch finds the highest rate that is not refused.
//
// At a refusal nothing is left of the limit, and at the next refusal nothing is left again.
// So the requests accepted between both have come back, and their quotient with the time
// is the rate, whether the units come back one by one or all at the end of a window. After a
// pause this is a lower bound, because no limit saves more than its amount. The rate at
// which requests were sent is the upper bound. The search goes up from the lower bound,
// with growing steps, and halves the interval once there is an upper bound.
type rateSearch struct {
	rate    float64 // requests a second; 0: not known, and requests are not paced
	good    float64 // the highest rate that held for a cycle; 0: none
	refused float64 // the lowest rate that was refused; 0: none
	firm    float64 // a rate that held for successesToAttempt; 0: none
	floor   float64 // a rate that no limit refuses that has let so many requests pass; 0: none
	pooled  bool    // several limits may refuse: there is no floor
	gain    float64 // factor of the next step up, while nothing was refused
	cycle   int64   // for which a rate has to hold

	accepted  float64 // requests since emptyAt
	emptyAt   int64   // the last time that a request was refused; before: when requests began
	resumedAt int64   // when a request succeeded again after that
	before    refusedRate
	full      float64 // requests before the first refusal, if the limit may be a window of so many
	saves     bool    // what is not sent can be sent later: a rate that held for a cycle may be too high

	served int   // successes at this rate
	since  int64 // start of this rate

	frequent int     // refusals in a row with few accepted requests between
	began    float64 // the rate at the first of these

	trying bool    // the rate is an attempt above the refused rate
	debt   float64 // successes required before the next attempt
	fails  int     // attempts refused in a row
	step   float64 // factor of the next attempt, less 1
}

// refusedRate counts the requests accepted before the last refusal, since the one before.
type refusedRate struct {
	accepted float64
	from, to int64
	resumed  int64 // when requests succeeded again, after from
	repeated int   // later refusals that belong to this one, although a request succeeded before each
}

func (s *rateSearch) gap(n int64) int64 {
	if s.rate <= 0 {
		return 0
	}
	return plus(0, float64(n)/s.rate)
}

// late returns by how much a request may go late and not delay the next. The server may refuse
// requests that come closer to each other than at the rate.
func (s *rateSearch) late() int64 { return min(maxLateStart, s.gap(1)/lateStartPart) }

// empty notes that nothing is left of the limit.
func (s *rateSearch) empty(sent int64) {
	s.accepted, s.emptyAt = 0, sent
}

// begin sets the first rate, from what was accepted until a request succeeds again.
func (s *rateSearch) begin(v int64, recovery int64) {
	took := max(float64(v-s.emptyAt)/float64(second), 1e-3)
	s.set(v, max(s.full, 1)/took)
	s.cycle, s.gain = max(recovery/2, second), firstGain
	s.full = min(s.full, 2*s.rate*float64(recovery)/float64(second))
}

// resume continues after a refusal, when a request succeeds again. A pause that was longer
// than the requests before it shows a window: its requests, and about its length.
func (s *rateSearch) resume(v, recovery int64) {
	s.resumedAt = v
	b := &s.before
	if b.accepted >= 1 && recovery > max(b.to-b.from, second) {
		rate := b.accepted / (float64(v-b.from) / float64(second))
		if rate < s.rate {
			s.full, s.saves, s.good, s.gain = b.accepted, false, 0, firstGain
			s.refused = min(s.refused, b.accepted/(float64(max(b.to-b.resumed, 1))/float64(second)))
			s.rate = max(rate, minRate)
		}
	}
	s.cycle = max(recovery/2, s.cycle*3/4, second)
	s.since, s.served = v, 0
}

func (s *rateSearch) set(v int64, rate float64) {
	s.rate = min(max(rate, minRate), maxRate)
	s.served, s.since = 0, v
}

// soon reports whether few requests were accepted since the last refusal.
func (s *rateSearch) soon() bool {
	few := min(max(3, s.before.accepted/20), 10)
	return s.accepted < few && s.before.accepted >= few
}

// again reports whether a refusal belongs to the one before: too few requests were accepted
// between both to tell a rate. These are counted. At the third such refusal before which some
// were accepted, the rate is too high. The rate is too high at once if much less was accepted,
// over all that time, than at a rate that had held: that rate used units saved before.
func (s *rateSearch) again(sent int64) bool {
	all := (s.before.accepted + s.accepted) / max(float64(sent-s.before.from)/float64(second), 1e-3)
	switch {
	case s.accepted == 0:
	case s.before.accepted >= fewAccepted && s.soon() && s.rate <= s.good*1.01 && all < savedPart*s.good:
		s.accepted += s.before.accepted
		s.emptyAt = s.before.from
		return false
	case !s.soon(), s.before.repeated >= mostRepeated:
		return false
	}
	if s.accepted > 0 {
		s.before.repeated++
	}
	s.before.accepted += s.accepted
	return true
}

// lower sets a rate below the refused one. The refused request was sent at the time sent.
func (s *rateSearch) lower(v, sent int64) {
	n := s.accepted
	took := max(float64(sent-s.emptyAt)/float64(second), 1/s.rate)
	low := n / took * (1 - 1/(2*n+2))
	high := s.rate
	s.saves = s.saves || n < s.full*0.7 || s.good > 0 && s.rate <= s.good*1.01
	switch {
	case s.saves:
		paced := max(float64(sent-s.resumedAt)/float64(second), 1/s.rate)
		high = min(high, max(n/paced, low))
	case s.good < high:
		low = max(low, s.good)
		if high < near*s.good {
			high = s.good / settled
		}
	}
	if b := &s.before; s.emptyAt > b.from && !s.pooled {
		back := min((b.accepted-1)/float64(s.emptyAt-b.from), (n-1)/float64(max(sent-s.emptyAt, 1))) * float64(second)
		s.floor = max(s.floor, floorPart*min(back, s.rate))
	}
	s.before = refusedRate{accepted: n, from: s.emptyAt, to: sent, resumed: max(s.resumedAt, s.emptyAt)}
	if s.rate <= s.firm*1.01 {
		s.firm = 0 // the limit has become lower
	}
	if s.firm > 0 {
		low, high = max(low, s.firm), max(high, s.firm/settled)
		if s.trying && s.rate <= near*s.firm {
			high = s.firm / settled // the firm rate is as near as the search comes
		}
	}
	if s.noise(n) {
		low, high = s.began, s.began/settled
	}
	if s.trying {
		s.fails = min(s.fails+1, 16)
	}
	s.trying, s.step = false, attemptFactor-1
	if s.gain = firstGain; s.saves {
		s.full = 0
	}
	s.refused = high
	s.set(v, max(min(low, s.refused*settled), s.floor))
	s.refused = max(s.refused, s.rate/settled)
	s.debt = max(s.debt, min(float64(successesToAttempt)*float64(int64(1)<<s.fails), maxDebt))
}

// noise reports whether refusals come as often at whatever rate: then the rate is not their
// cause. n requests were accepted between the last two.
func (s *rateSearch) noise(n float64) bool {
	if n >= frequentAccepted {
		s.frequent = 0
		return false
	}
	if s.frequent++; s.frequent == 1 {
		s.began = s.rate
	}
	return s.frequent > mostFrequent
}

// block takes a block of a client that sent a request at a time. It ends the search: each
// block costs too much to find the rate more exactly.
func (s *rateSearch) block(v, sent int64) {
	rate := s.rate
	if rate == 0 {
		rate = max(s.full, 1) / max(float64(sent-s.emptyAt)/float64(second), 1)
	}
	s.set(v, rate*afterBlock)
	s.refused, s.good, s.firm, s.full, s.debt = s.rate/settled, 0, 0, 0, maxDebt
	s.cycle, s.gain = max(s.cycle, second), firstGain
}

// pause returns the time without requests after a refusal of a rate, before lower. A window that is
// used up early ends when its requests had been sent at the rate that held.
func (s *rateSearch) pause() int64 {
	pause := max(s.gap(1), leastPause)
	if good := min(s.good, s.rate); !s.saves && good > 0 {
		pause = max(pause, plus(0, s.full*(1/good-1/s.rate)))
	}
	return min(pause, maxPause)
}

// pay delays the next attempt, after a refusal.
func (s *rateSearch) pay() {
	if s.rate < s.refused*settled*settled {
		return // the search goes on
	}
	s.debt = min(s.debt+successesPerRefusal*float64(1+s.fails), successesPerRefusal*successesToAttempt)
}

// succeeded counts n successes, and raises the rate when it has held for long enough.
func (s *rateSearch) succeeded(v, n int64) {
	s.served += int(n)
	s.accepted += float64(n)
	s.debt = max(s.debt-float64(n), 0)
	if s.rate <= 0 {
		return
	}
	took := v - s.since
	if seconds := float64(took) / float64(second); took > max(2*s.cycle, minute) && float64(s.served) < s.rate*seconds/2 {
		s.served, s.since = 0, v // the rate was not used
		return
	}
	switch {
	case s.refused == 0:
		if s.held(took) {
			s.good = s.rate
			s.set(v, s.rate*s.gain)
			s.gain = min(s.gain*s.gain, lastGain)
		}
	case s.rate < s.refused*settled*0.999:
		if s.held(took) {
			s.good = s.rate
			next := s.rate * min(math.Pow(s.refused/s.rate, bisect), lastGain)
			if next > s.refused*0.95 {
				next = s.refused * settled
			}
			s.set(v, next)
		}
	case s.served >= successesToAttempt && s.debt == 0 && took >= holdTime:
		s.firm = s.rate
		if s.rate > s.refused {
			// It is not too much any more, or what had been saved is not used up.
			s.refused, s.fails = s.rate/settled, s.fails/2
			s.debt = successesToAttempt * float64(int64(1)<<s.fails)
			s.step = min(1.5*s.step, 0.5)
		}
		s.trying = true
		s.set(v, s.rate*(1+s.step))
	}
}

// held reports whether the rate was used for a cycle: for the requests of a window, if the
// limit may be one.
func (s *rateSearch) held(took int64) bool {
	if took < s.cycle || s.served < 2 || float64(s.served) < s.rate*float64(took)/float64(second)/2 {
		return false
	}
	return s.saves || s.full == 0 || float64(s.served) >= 1.05*s.full+1
}
