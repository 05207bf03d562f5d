package ledger

import (
	"math"
	"time"
)

// RateBudget is a rate that all instances of a fleet share.
type RateBudget interface {
	sharedUnits

	// Rate sets the requests per second for all instances together.
	Rate(now time.Time, perSecond float64)
	// Users is the number of instances that use it now, including this one.
	Users() int64
}

// Finding is the knowledge about a hidden limit, which instances exchange as JSON.
type Finding struct {
	Rate    float64 // in requests per second
	Bad     float64 `json:",omitempty"` // the lowest rate that was refused; 0: none
	Fails   int     `json:",omitempty"` // failed attempts above Bad
	Refused bool    `json:",omitempty"` // no request has succeeded since the refusal, and one instance probes

	Pause time.Duration `json:",omitempty"` // of that, from one try to the next
}

// rateSharing is the state of a hidden rate that a fleet shares.
type rateSharing struct {
	budget      RateBudget // nil: not shared
	known       Finding    // last sent or received
	otherProbes bool       // another instance probes whether refusals have ended
	rate        float64    // rate set in budget
}

// Share takes units from a rate common to all instances. If found, the rate is already that
// of all. Otherwise it is that of one of so many instances, assumed to be alike.
func (p *HiddenRate) Share(b RateBudget, found bool, instances int) {
	p.sharing.budget = b
	if !found {
		p.search.rate = min(p.search.rate*float64(max(instances, 1)), maxRate)
		p.search.full *= float64(max(instances, 1))
	}
}

// Finding returns the knowledge about the limit. ok is false if the other instances have it
// already.
func (p *HiddenRate) Finding() (Finding, bool) {
	f := Finding{Rate: p.search.rate, Bad: p.search.refused, Fails: p.search.fails, Refused: p.stop.active && !p.sharing.otherProbes}
	if f.Refused {
		f.Pause = time.Duration(p.stop.pause)
	}
	s := &p.sharing
	news := s.budget != nil && f.Rate > 0 && (f.Rate != s.known.Rate || f.Bad != s.known.Bad || !s.otherProbes && (f.Refused != s.known.Refused || f.Pause != s.known.Pause))
	if news {
		s.known = f
	}
	return f, news
}

// AcceptFinding takes another instance's finding.
func (p *HiddenRate) AcceptFinding(now time.Time, f Finding) {
	v := p.at(now)
	if p.sharing.budget == nil || !(f.Rate >= minRate && f.Rate <= maxRate) || !(f.Bad >= 0 && f.Bad <= 2*maxRate) || f.Fails < 0 || f.Fails > 16 {
		return
	}
	if f.Pause = min(max(f.Pause, time.Duration(second)), time.Duration(minute)); !f.Refused {
		f.Pause = 0
	}
	p.sharing.known = f
	if !f.Refused && p.stop.active && !p.sharing.otherProbes && f.Rate >= p.search.rate {
		return // it was said before what was refused here
	}
	if f.Rate < p.search.rate {
		p.stop.rateSince = v + 1
		p.search.restart(v)
	}
	if f.Rate != p.search.rate {
		p.search.served, p.search.since = 0, v
	}
	if p.search.rate == 0 {
		p.search.restart(v)
		p.search.cycle = 10 * second
	}
	p.search.rate, p.search.refused, p.search.fails, p.search.full = f.Rate, f.Bad, f.Fails, 0
	p.windowed = false
	p.nextAt = min(p.nextAt, v+p.search.gap(1))
	p.search.trying = f.Bad > 0 && f.Rate > f.Bad
	switch s := &p.sharing; {
	case f.Refused:
		// One instance is enough to see whether it is over, unless it says nothing more.
		p.stop.pause = int64(f.Pause)
		p.stop.active, s.otherProbes, p.stop.probeSent, p.stop.rateSince, p.stop.since, p.stop.refused = true, true, 0, v+1, v, v
		p.stop.until = max(p.stop.until, v+2*p.stop.pause+second)
	case p.stop.active && s.otherProbes:
		p.stop.active = false
		p.stop.until = min(p.stop.until, v)
	}
}

// share reports whether the fleet's rate applies, and updates it.
func (p *HiddenRate) share(now time.Time) bool {
	s := &p.sharing
	if s.budget == nil || p.search.rate == 0 {
		return false
	}
	if s.rate != p.search.rate {
		s.rate = p.search.rate
		s.budget.Rate(now, p.search.rate)
	}
	return true
}

// weight returns the number of successes of the fleet for which one of this instance counts.
func (p *HiddenRate) weight() int64 {
	if p.sharing.budget == nil {
		return 1
	}
	return max(p.sharing.budget.Users(), 1)
}

// Demand implements queue.Remote.
func (p *HiddenRate) Demand(now time.Time, units int64) {
	if p.share(now) {
		p.sharing.budget.Demand(now, units)
	}
}

// Away implements queue.Remote: without a store the instance has the rate for itself.
func (p *HiddenRate) Away(time.Time) bool { return false }

// Asks implements queue.Remote.
func (p *HiddenRate) Asks(now time.Time, n int64) bool {
	t, ok := p.when(now, n)
	return ok && !t.After(now) && p.share(now) && p.sharing.budget.Asks(now, n)
}

func (p *HiddenRate) When(now time.Time, n int64) (time.Time, bool) {
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

// Found describes a limit that the server does not announce, as far as it is known.
type Found struct {
	Limit    int64         // requests in a window, or in flight if there is no window; 0: not known
	Window   time.Duration // 0: the limit is of requests in flight
	Left     int64         // -1: not known
	SoFar    bool          // it is a first estimate: no rate has both held and been refused
	AtRandom float64       // share of the requests that are refused whatever the rate is; 0: none
}

// Found describes the limit. A rate is told for the shortest of some times in which about a whole number of requests
// goes: 2.5 a second are 5 in 2 s. An estimate is not told before so many requests were accepted, nor where a limit of
// requests in flight lets fewer go than it, or up to twice as many: then that is told.
func (p *HiddenRate) Found(now time.Time) Found {
	p.at(now)
	f := Found{Left: -1, AtRandom: p.noise.share}
	rate := p.search.rate
	if f.SoFar = rate > 0 && (p.search.good == 0 || p.search.refused == 0); f.SoFar && p.search.good > 0 {
		rate = p.search.good
	}
	inFlight := f.SoFar && p.atOnce.limit > 0 && 2*p.search.rate*secondsOf(p.atOnce.latency) >= float64(p.atOnce.limit)
	switch {
	case p.windowed && p.window.limit > 0 && p.window.length > 0:
		f.SoFar, f.Limit, f.Window = false, p.window.limit, time.Duration(p.window.length).Round(time.Second)
		f.Left = max(f.Limit-p.window.taken, 0)
	case rate > 0 && !p.windowed && p.search.from != guessed && !inFlight:
		f.Window = time.Second
		for _, longer := range []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute, time.Hour} {
			if n := rate * f.Window.Seconds(); math.Abs(math.Round(n)-n) > n/20 {
				f.Window = longer
			}
		}
		f.Limit = max(int64(math.Round(rate*f.Window.Seconds())), 1)
		if p.search.good == 0 && float64(f.Limit) > max(p.search.total, 1) {
			f.Limit, f.Window = 0, 0
		}
	case p.atOnce.limit > 0:
		f.Limit, f.Left = p.atOnce.limit, max(p.atOnce.limit-int64(len(p.atOnce.flying)), 0)
	}
	return f
}
