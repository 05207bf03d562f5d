package ledger

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Finding is the knowledge about a hidden limit, which instances exchange as JSON.
type Finding struct {
	Rate   float64       // in requests per second
	Bad    float64       `json:",omitempty"` // the lowest rate that was refused; 0: none
	Fails  int           `json:",omitempty"` // failed attempts above Bad
	Limit  int64         `json:",omitempty"` // of a window
	Length time.Duration `json:",omitempty"` // of that; 0: the limit is no window
	Cycle  time.Duration `json:",omitempty"` // for which a rate has to hold
	Full   float64       `json:",omitempty"` // requests that may have been saved
}

// Use tells the other instances, as JSON, how much of a hidden limit an instance uses.
type Use struct {
	Rate     float64 // in requests per second
	Accepted int64   // requests that the server has accepted
	Refused  bool    `json:",omitempty"` // the last one was refused, and this instance finds out until when
	Busy     bool    `json:",omitempty"` // its requests wait, so it uses all that it may
	Lasted   float64 `json:",omitempty"` // seconds since its first request, as long as it knows no rate
}

const (
	// UseLasts is the time for which a told use counts. It is told again after tellUseEvery.
	UseLasts, tellUseEvery = 4 * time.Second, second / 2
	// unused is the time without a request after which an instance does not use the limit.
	unused  = 3 * second
	usePast = 10 * second // the least time of whose requests the use is told
	// useMargin is by which factor the use of others may have grown since it was told.
	useMargin = 1.1
)

// rateSharing is the state of a hidden limit that a fleet, or the processes of a machine, have together. Each instance
// learns the whole limit, from what all have sent, and uses what the others leave, or an equal part if that is more.
type rateSharing struct {
	on          bool
	self        string           // this instance
	known       Finding          // last sent or received
	otherProbes bool             // another instance finds out whether refusals have ended
	refused     bool             // the last told use says so
	others      map[string]other // :: name of an instance →
	sent        float64          // requests of this instance since a time, without those of long ago
	since       int64
	accepted    int64   // of all of this instance
	alike       float64 // requests that each other instance is supposed to have had accepted, until it tells
	told        int64   // when the use was told last
	rested      int64   // the last request that did not wait
	even        int64   // the rate has changed lately, so until then not all instances keep to it
	crossed     int64   // when others were heard last, after requests of several were refused, which may have come too close to each other; 0: none were
}

// other is the use of the limit by another instance.
type other struct {
	Use
	heard int64
}

// Share makes the limit one of all instances. If found, the known limit is already that of all. Otherwise what is known is
// of one of so many instances, assumed to be alike.
func (p *HiddenRate) Share(self string, found bool, instances int) {
	p.sharing.on, p.sharing.self, p.sharing.others = true, self, map[string]other{}
	if !found {
		p.sharing.alike = p.search.full
		p.search.full *= float64(max(instances, 1))
	}
}

// Finding returns the knowledge about the limit. ok is false if the other instances have it
// already.
func (p *HiddenRate) Finding() (Finding, bool) {
	f := Finding{Rate: p.Rate(), Bad: p.search.refused, Fails: p.search.fails, Cycle: time.Duration(p.search.cycle), Full: p.search.full}
	if p.windowed {
		f = Finding{Rate: f.Rate, Limit: p.window.Limit, Length: time.Duration(p.window.Length)}
	}
	news := p.sharing.on && f.Rate > 0 && f != p.sharing.known
	if news {
		p.sharing.known, p.sharing.even = f, p.clock.Last()+second+p.search.gap(1)
	}
	return f, news
}

// AcceptFinding takes another instance's finding.
func (p *HiddenRate) AcceptFinding(now time.Time, f Finding) {
	v := p.at(now)
	if !p.sharing.on || !(f.Rate >= minRate && f.Rate <= maxRate) || !(f.Bad >= 0 && f.Bad <= 2*maxRate) || f.Fails < 0 || f.Fails > 16 ||
		f.Limit < 0 || f.Limit > maxAmount || f.Length < 0 || !(f.Full >= 0 && f.Full <= maxRate) || f.Cycle < 0 || int64(f.Cycle) > maxAhead || int64(f.Length) > 2*maxAhead || (f.Limit == 0) != (f.Length == 0) {
		return
	}
	p.sharing.known, p.sharing.even, p.sharing.crossed = f, v+second+p.search.gap(1), max(v, 1)
	if f.Length > 0 {
		if p.windowed = true; p.window.Length != int64(f.Length) {
			p.window.Length = int64(f.Length)
			p.window.recent.begin(p.window.Length)
		}
		p.window.Limit = f.Limit
		return
	}
	if p.stop.active && !p.sharing.otherProbes && f.Rate >= p.search.rate && (p.search.rate > 0 || p.windowed) {
		return // it was said before what was refused here
	}
	if f.Rate < p.search.rate {
		p.stop.rateSince = v + 1
		p.search.restart(v)
	}
	p.search.cycle = max(int64(f.Cycle), second)
	if f.Rate != p.search.rate {
		p.search.served, p.search.since = 0, v
	}
	if p.search.rate == 0 { // others have found out how to go on
		p.search.restart(v)
		p.stop.active, p.sharing.otherProbes, p.stop.until = false, false, min(p.stop.until, v)
	}
	if p.search.trying = f.Bad > 0 && f.Rate > f.Bad; p.search.trying && p.search.rate < f.Bad {
		p.search.firm = p.search.rate // it has held for long
	}
	p.search.rate, p.search.refused, p.search.fails, p.search.full = f.Rate, f.Bad, f.Fails, f.Full
	p.windowed = false
	p.nextAt = min(p.nextAt, v+p.gap(1))
	p.Finding() // is known to all
}

// Use returns the use of the limit by this instance. ok is false if there is none, or if it was told lately.
func (p *HiddenRate) Use(now time.Time) (u Use, ok bool) {
	v, s := p.at(now), &p.sharing
	passed, gap := v-s.told, plus(0, p.parts()/max(p.Rate(), minRate))
	u.Refused = p.stop.active && !s.otherProbes && !p.windowed
	if p.search.rate == 0 && u.Refused {
		u.Lasted = secondsOf(v - p.search.began())
	}
	if !s.on || p.Rate() == 0 && u.Lasted == 0 || passed < tellUseEvery && u.Refused == s.refused || v-max(p.lastUsed, p.stop.until) > max(unused, 2*gap) {
		return Use{}, false
	}
	if s.told > s.since && (p.stop.active || p.stop.since > s.told) {
		s.since += passed // what would have been sent is not known
	}
	u.Busy = !p.windowed && v-s.rested > 4*gap && v-p.lastSent < 2*gap
	u.Rate, u.Accepted = s.sent/secondsOf(max(v-s.since, second)), s.accepted
	if v-s.since > max(usePast, 4*gap, 2*p.window.Length) {
		s.sent, s.since = s.sent/2, v-(v-s.since)/2
	}
	s.told, s.refused = v, u.Refused
	return u, true
}

// OtherUses takes what another instance tells of its use.
func (p *HiddenRate) OtherUses(now time.Time, instance string, u Use) {
	v, s := p.at(now), &p.sharing
	if !s.on || !(u.Rate >= 0 && u.Rate <= maxRate) || u.Accepted < 0 {
		return
	}
	was, known := s.others[instance]
	if first := &p.search.empty[0]; !known && p.search.rate == 0 && u.Lasted > 0 { // nobody knows a rate: what all have had accepted shows it
		first.empty = min(first.empty, v-int64(min(u.Lasted, secondsOf(maxAhead))*float64(second)))
		first.resumed = min(first.resumed, first.empty)
		p.search.full = max(p.search.full-s.alike, s.alike) + float64(min(u.Accepted, maxAmount))
	} else if !known {
		was.Accepted = u.Accepted
	}
	s.others[instance] = other{u, v}
	if s.crossed > 0 {
		s.crossed = v
	}
	n := min(max(u.Accepted-was.Accepted, 0), maxAmount)
	p.window.accepted += n
	p.window.Taken += n
	if p.stop.active {
		p.search.total += float64(n)
	} else if n > 0 {
		p.search.succeeded(v, n)
	}
	switch probes := p.stop.active && !s.otherProbes; {
	case u.Refused && (!probes || instance < s.self):
		// One instance is enough to see whether it is over, as long as it is heard of.
		if !p.stop.active {
			p.stop.active, p.stop.pause, p.stop.rateSince, p.stop.since, p.stop.refused = true, firstPause, v+1, v, v
		}
		s.otherProbes, p.stop.probeSent = true, 0
		p.stop.until = max(p.stop.until, v+int64(UseLasts))
	case was.Refused && !u.Refused && s.otherProbes:
		p.stop.active, s.otherProbes = p.search.rate == 0 && !p.windowed, false
		p.stop.until = min(p.stop.until, v)
		turn, _ := slices.BinarySearch(slices.Sorted(maps.Keys(s.others)), s.self) // one instance after the other
		p.nextAt = max(p.nextAt, v+p.search.gap(int64(turn)+2))
	}
}

// refusedAt notes a refusal while others send.
func (s *rateSharing) refusedAt(v int64) {
	if len(s.others) > 0 {
		s.crossed = max(v, 1)
	}
}

// leftAlone searches for a higher rate again where what was refused may have been due to others, of which none is heard any more.
func (p *HiddenRate) leftAlone(v int64) {
	if p.sharing.crossed > 0 && v-p.sharing.crossed > int64(UseLasts) {
		p.search.reopen(v)
		p.sharing.crossed = 0
	}
}

// parts returns by how much the whole limit is more than the part of it that this instance uses.
func (p *HiddenRate) parts() float64 {
	v, all, used := p.clock.Last(), p.Rate(), 0.0
	maps.DeleteFunc(p.sharing.others, func(_ string, o other) bool { return v-o.heard > int64(UseLasts) })
	busy := 1.0 // they share what the others leave
	for _, o := range p.sharing.others {
		if o.Busy {
			busy++
		} else {
			used += useMargin * o.Rate
		}
	}
	if len(p.sharing.others) == 0 || all == 0 {
		return 1
	}
	return 1 / max((1-used/all)/busy, 1/float64(len(p.sharing.others)+1))
}

// turn returns the first time from at on at which it is this instance's turn, where all have equal parts: they go one after the
// other, so that all requests together come evenly.
func (p *HiddenRate) turn(at int64) int64 {
	n, gap := int64(len(p.sharing.others)+1), p.search.gap(1)
	if n == 1 || gap == 0 || p.hurries || p.parts() < float64(n)*0.99 {
		return at
	}
	since := at
	for id := range p.sharing.others {
		if id < p.sharing.self {
			since -= gap
		}
	}
	if since %= n * gap; since > p.search.late() {
		at += n*gap - since
	}
	return at
}

// gap returns the time between two requests of this instance.
func (p *HiddenRate) gap(n int64) int64 {
	if p.search.rate <= 0 || p.hurries {
		return 0
	}
	return plus(0, float64(n)*p.parts()/p.search.rate)
}

// Found describes a limit that the server does not announce, as far as it is known.
type Found struct {
	Limit    int64         // requests in a window, or in flight if there is no window; 0: not known
	Window   time.Duration // 0: the limit is of requests in flight
	Left     int64         // -1: not known
	SoFar    bool          // no rate has held, a higher one is searched, or none is tried after a block; of requests in flight: one more was never refused
	Blocked  bool          // the rate was set after the server had refused everything for a while, so none above it is tried
	AtRandom float64       // share of the requests that are refused whatever the rate is; 0: none
}

// Found describes the limit. A rate is told for the shortest of some times in which about a whole number of requests
// goes: 2.5 a second are 5 in 2 s. An estimate is not told before so many requests were accepted, nor where a limit of
// requests in flight lets fewer go than it, or up to twice as many: then that is told, but not while nothing has succeeded
// since it was guessed.
func (p *HiddenRate) Found(now time.Time) Found {
	p.at(now)
	rate := p.search.rate
	f := Found{Left: -1, AtRandom: p.noise.share, Blocked: rate > 0 && p.search.fails == mostFails}
	if f.SoFar = rate > 0 && (p.search.good == 0 || p.search.searches() || p.search.fails == mostFails); f.SoFar && p.search.good > 0 {
		rate = p.search.good
	}
	inFlight := f.SoFar && p.atOnce.limit > 0 && 2*p.search.rate*secondsOf(p.atOnce.latency) >= float64(p.atOnce.limit)
	switch {
	case p.windowed && p.window.Limit > 0 && p.window.Length > 0:
		f.SoFar, f.Limit, f.Window, f.Left = false, p.window.Limit, time.Duration(p.window.Length+second*7/8).Truncate(time.Second), p.Left(now)
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
	case p.atOnce.limit > 0 && (p.atOnce.fails > 0 || !p.stop.active):
		f.SoFar, f.Limit, f.Left = f.SoFar || p.atOnce.fails == 0, p.atOnce.limit, min(max(p.atOnce.limit-int64(len(p.atOnce.flying)), 0), p.Left(now))
	}
	return f
}
