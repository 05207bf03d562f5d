package ledger

import "time"

// RateBudget is a rate that all instances of a fleet have together. Its calls are as
// those of limit.Meter, queue.Demanding and queue.Asking.
type RateBudget interface {
	// Rate says how many requests a second there are for all instances.
	Rate(now time.Time, perSecond float64)
	// Users is how many instances use it now, this one included.
	Users() int64

	When(now time.Time, n int64) (time.Time, bool)
	Take(now time.Time, n int64)
	Give(now, taken time.Time, n int64)
	Demand(now time.Time, units int64)
	Asks(now time.Time, n int64) bool
}

// Finding is what is known of a hidden limit.
type Finding struct {
	Rate    float64 // requests a second
	Bad     float64 `json:",omitempty"` // the lowest that was refused; 0: none
	Fails   int     `json:",omitempty"` // attempts to go above that
	Refused bool    `json:",omitempty"` // nothing has succeeded since, and one instance tries

	Pause time.Duration `json:",omitempty"` // of that, from one try to the next
}

// paceSharing is how a pace takes part in a rate of a fleet.
type paceSharing struct {
	budget RateBudget // nil: nobody else is under the limit
	known  Finding    // as it was told or heard last
	waits  bool       // another instance tries whether it is over
	rate   float64    // of the budget
}

// Share has what is taken come out of a rate that all instances have together. With
// found, what was found of it is for all already. Otherwise it is what one instance has
// seen, of so many that are taken to be alike.
func (p *Pace) Share(b RateBudget, found bool, instances int) {
	p.sharing.budget = b
	if !found && !p.guessed {
		p.rate = min(p.rate*float64(max(instances, 1)), fastest)
	}
}

// Found is what is known of the limit. It is false if others know it already.
func (p *Pace) Found() (Finding, bool) {
	f := Finding{Rate: p.rate, Bad: p.bad, Fails: p.fails, Refused: p.refused && !p.sharing.waits}
	if f.Refused {
		f.Pause = time.Duration(p.pause)
	}
	s := &p.sharing
	news := s.budget != nil && (f.Rate != s.known.Rate || f.Bad != s.known.Bad || !s.waits && (f.Refused != s.known.Refused || f.Pause != s.known.Pause))
	if news {
		s.known = f
	}
	return f, news
}

// Told takes over what another instance has found.
func (p *Pace) Told(now time.Time, f Finding) {
	v := p.at(now)
	if p.sharing.budget == nil || !(f.Rate >= slowest && f.Rate <= fastest) || !(f.Bad >= 0 && f.Bad <= 2*fastest) || f.Fails < 0 || f.Fails > 16 {
		return
	}
	if f.Pause = min(max(f.Pause, time.Duration(second)), time.Duration(longest)); !f.Refused {
		f.Pause = 0
	}
	p.sharing.known = f
	if !f.Refused && p.refused && !p.sharing.waits && f.Rate >= p.rate {
		return // it was said before what was refused here
	}
	if f.Rate < p.rate {
		p.cutAt = v + 1
		p.passed, p.began = 0, v
		p.debt = max(p.debt, price)
	}
	if f.Rate != p.rate {
		p.good, p.since = 0, v
	}
	p.rate, p.bad, p.fails, p.guessed = f.Rate, f.Bad, f.Fails, false
	p.free = min(p.free, v+p.gap(1))
	p.trying = f.Bad > 0 && f.Rate > f.Bad
	switch s := &p.sharing; {
	case f.Refused:
		// One instance is enough to see whether it is over, unless it says nothing more.
		p.pause = int64(f.Pause)
		p.refused, s.waits, p.probeAt, p.cutAt = true, true, 0, v+1
		p.until = max(p.until, v+2*p.pause+second)
	case p.refused && s.waits:
		p.refused, p.pause = false, second
		p.until = min(p.until, v)
	}
}

// share tells whether the fleet's rate holds, and tells that what it is.
func (p *Pace) share(now time.Time) bool {
	s := &p.sharing
	if s.budget == nil {
		return false
	}
	if s.rate != p.rate {
		s.rate = p.rate
		s.budget.Rate(now, p.rate)
	}
	return true
}

// weight is how many successes of the fleet one of this instance stands for.
func (p *Pace) weight() int64 {
	if p.sharing.budget == nil {
		return 1
	}
	return max(p.sharing.budget.Users(), 1)
}

// Demand is queue.Demanding's.
func (p *Pace) Demand(now time.Time, units int64) {
	if p.share(now) {
		p.sharing.budget.Demand(now, units)
	}
}

// Asks is queue.Asking's.
func (p *Pace) Asks(now time.Time, n int64) bool {
	t, ok := p.when(now, n)
	return ok && !t.After(now) && p.share(now) && p.sharing.budget.Asks(now, n)
}

// When is limit.Meter's.
func (p *Pace) When(now time.Time, n int64) (time.Time, bool) {
	t, ok := p.when(now, n)
	if !ok || n <= 0 || t.After(now) || !p.share(now) {
		return t, ok
	}
	// More than the fleet's rate ever has at once goes when the pace allows it.
	if at, fits := p.sharing.budget.When(now, n); fits {
		return at, true
	}
	return t, ok
}
