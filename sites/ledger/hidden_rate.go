package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// HiddenRate is the meter of a limit that the server does not announce. Refusals show it.
// After a refusal no request goes for a while, and then one alone. What follows depends on
// the refusals:
//
//   - Those that name a time are taken for the ends of windows: see hiddenWindow.
//   - Those of more requests in flight than ever before limit the number: see atOnce.
//   - After all others requests are spaced evenly, at a rate that is searched: see rateSearch.
//
// It is not safe for concurrent use.
type HiddenRate struct {
	clock    limit.Clock
	search   rateSearch
	window   hiddenWindow
	windowed bool // the model is window; otherwise it is search
	paced    bool // the limit is no window
	doubted  bool // requests may pass sooner than refusals name, as more has passed than a window allows
	atOnce   atOnce
	stop     stop
	noise    noise

	made     int64 // the first time
	nextAt   int64 // when the next request may go
	lastSent int64 // when the last one went
	lastUsed int64 // last request or response
	failing  int64 // the first request since the last success that was not answered; 0: none
	told     bool  // refusals that cannot be failures of the server have shown a rate
	before   flow  // before the first refusal
	hurries  bool  // a limit is not proved, and the search for it has cost too much time

	sharing rateSharing
}

const (
	unknownFlights = 2 * second // for which requests may be in flight that the meter does not know
	shortestNamed  = 3 * second // shorter named waits may be rounded too much to tell a window
)

var _ limit.Meter = (*HiddenRate)(nil)

// NewHiddenRate returns a meter without a limit. h counts the requests before the refusal that follows.
func NewHiddenRate(h History) *HiddenRate {
	p := &HiddenRate{stop: stop{pause: firstPause}}
	p.noise.all.accepted = float64(amount(h.Accepted))
	p.search.full, p.search.starts = float64(amount(h.Accepted)), h.Starts
	p.search.restart(-min(max(int64(h.Lasted), 0), maxAhead)) // before the first time
	p.search.total, p.sharing.accepted = p.search.full, amount(h.Accepted)
	return p
}

func (p *HiddenRate) at(now time.Time) int64 {
	v := p.clock.At(now)
	if p.lastUsed == 0 {
		p.lastUsed, p.search.since, p.made, p.sharing.since = v, v, v, v
		began := p.search.empty.last()
		began.empty = max(v+began.empty, 0)
		began.resumed = began.empty
	}
	return v
}

// Rate returns the present rate in requests per second; 0: not known.
func (p *HiddenRate) Rate() float64 {
	if p.windowed && p.window.Length > 0 {
		return float64(p.window.Limit) / (float64(p.window.Length) / float64(second))
	}
	return p.search.rate
}

// Refusal is a refusal that a hidden limit explains.
type Refusal struct {
	Sent        time.Time
	RetryAt     time.Time // that the server named; zero: none
	Level       int64     // requests in flight with it, if this meter did not know it; 0: unknown
	Concurrency bool      // the server says that too many requests were in flight
	Pooled      bool      // there are several tokens, which may have limits of their own
	Block       bool      // the server refuses everything for a while, and asking prolongs it
	Failure     bool      // the server may have failed, which says nothing of a rate
	Again       bool      // the server has refused like this before, and that was not taken for a limit
}

// Refused takes a refusal, and returns when the next request may go. alone: that says nothing of
// the refused request, which pauses alone.
func (p *HiddenRate) Refused(now time.Time, r Refusal) (next time.Time, alone bool) {
	v, sent := p.at(now), p.clock.On(r.Sent)
	flight := p.atOnce.of(sent)
	p.search.pooled = r.Pooled
	flight.sooner = flight.sooner || len(p.sharing.others) > 0 && (sent < p.sharing.even || p.search.rate != p.sharing.known.Rate)
	p.answered(sent)
	var until int64
	if !r.RetryAt.IsZero() {
		if until = p.clock.On(r.RetryAt); until-v > maxAhead {
			until = v + unbelievableHold
		}
	}
	// The time that the site names is not that of the known window: another limit refuses, which says nothing of this one.
	other := p.windowed && (until-v < shortestNamed || 2*(until-v) > 3*p.window.Length)
	slow := p.slow() && !flight.sooner && !p.stop.active && !other
	open := max(p.atOnce.index(sent)-slices.IndexFunc(p.atOnce.flying, func(f flying) bool { return f.at > min(p.noise.head, sent-1) }), 0)
	excused, certain := p.noise.refused(sent, p.search.since <= p.noise.head, slow, p.pass(sent, true), open)
	against := p.noise.against && p.noise.row == 1
	switch {
	case r.Block:
		p.noise, against = noise{}, false
	case excused, p.hurries && p.noise.usual():
		return now, true
	case certain:
		p.search.unmeasured()
	}
	if p.search.rate == 0 && p.before.rate == 0 {
		flying := float64(max(r.Level, 1))
		p.before = flow{rate: flying / secondsOf(v-sent), flying: flying, accepted: p.search.total}
	}
	first := p.search.rate == 0 && p.window.Limit == 0 && p.atOnce.limit == 0 && p.noise.scattered(p.search.accepted()) && !r.Block && !r.Concurrency && !r.Again && (r.Failure || !r.Pooled)
	level := flight.level
	if level == 0 || sent-p.made < unknownFlights {
		level = max(level, r.Level) // others are in flight that did not take from this meter
	}
	if until-v < shortestNamed && (first || against && p.search.from == compared) {
		if p.noise.all.refused == 1 {
			p.search.empty = p.search.empty.add(episode{empty: sent, resumed: max(sent, until), total: p.search.total, idle: p.search.idle})
		}
		return p.clock.Time(now, v+firstPause), true // the next request tells whether that was a limit
	}
	switch {
	case r.Concurrency && level > 0, flight.level > 0 && until-v < shortestNamed && p.atOnce.suspects(level):
		p.atOnce.refused(level)
		if level > int64(len(p.atOnce.flying)) {
			until = max(until, v+firstPause) // the meter does not know the others, and so not when they end
		}
		p.stop.until, p.stop.rateSince = max(p.stop.until, until), v+1
		if p.stop.active && sent >= p.stop.probeSent {
			p.stop.probeSent = 0
		}
		if p.stop.until <= v && (r.Concurrency || p.atOnce.before > 0) {
			return now, true // others wait until fewer are in flight, and for nothing else
		}
	case sent < p.stop.rateSince && !p.stop.active: // it was in flight when others were refused
		p.stop.until = max(p.stop.until, until)
	default:
		if r.Failure && p.stop.active && max(level, r.Level) == 1 {
			p.atOnce.limit = p.atOnce.before // one alone is refused, so their number is not the cause
		} else if !r.Failure && p.atOnce.limit > 0 && level > 0 && level <= p.atOnce.highest {
			p.atOnce.ruled, p.atOnce.limit = true, 0
		}
		p.tooFast(v, sent, until, flight.sooner, &r)
	}
	if against {
		p.stop.until = min(p.stop.until, v+max(p.search.gap(1), leastPause)) // the next request tells more
		return p.clock.Time(now, v+firstPause), true
	}
	return p.clock.Time(now, max(p.stop.until, v)), false
}

// Shared returns by how much the refusal of a request that was sent at a time, before it is taken, shows that others use the
// limit, too: 1 if the rate had held before, -1 if it was a try of more than had held for long.
func (p *HiddenRate) Shared(at time.Time) int {
	s, sent := &p.search, p.clock.On(at)
	switch {
	case p.windowed || p.stop.active || s.rate == 0 || sent < p.stop.rateSince:
		return 0
	case s.trying && s.firm > 0:
		return -1
	case !s.trying && s.rate <= s.good*1.01:
		return 1
	}
	return 0
}

// tooFast takes a refusal because of the requests sent.
func (p *HiddenRate) tooFast(v, sent, until int64, sooner bool, r *Refusal) {
	named := !r.Block && until-v >= shortestNamed
	again := p.stop.active
	p.sharing.refusedAt(v)
	p.stop.single = !again
	switch {
	case r.Block && again && v-p.stop.since >= blockPause && p.search.from != blocked:
		p.search.block(v, p.stop.since)
		p.windowed = false
	case r.Block, p.windowed && p.noise.against && p.noise.row == 1:
	case named && !p.windowed && (p.search.rate == 0 || !again && !p.paced):
		p.choose(until)
		p.windowed, p.window.Start, p.window.Taken = true, p.search.empty.last().resumed, int64(p.search.accepted())
		p.window.accepted = p.window.Taken
		fallthrough
	case p.windowed:
		p.window.refused(v, sent, max(until, v+leastPause))
	}
	switch {
	case again && sent < p.stop.rateSince: // it was in flight with the first
	case again && !r.Block && p.noise.usual():
		p.stop.pause = firstPause
	case again:
		p.stop.pause, p.stop.probed = p.stop.next(v, p.search.began(), p.search.rate == 0, p.search.from == blocked), true
		if (p.stop.failure || p.told) && r.Failure {
			p.stop.pause = min(p.stop.pause, max((v-p.stop.since)/downPart, firstPause), downPause) // a failure has no usual length
		}
	default:
		p.stop.since, p.stop.refused, p.stop.pause, p.stop.probed, p.stop.failure, p.stop.told, p.stop.down, p.stop.sooner = v, 0, firstPause, false, true, false, 0, sooner
		if p.search.rate > 0 {
			p.stop.pause = p.search.pause(sent)
			if p.hurries || !p.noise.limited && p.noise.odds > 0 {
				p.stop.pause = min(p.stop.pause, firstPause) // an answer soon after a refusal tells more
			}
		}
		p.stop.rateSince = v + 1
		if r.Block && (p.search.rate == 0 || p.search.fails == mostFails) {
			p.stop.pause = max(p.stop.pause, blockPause)
		}
	}
	p.stop.active, p.stop.failure = true, p.stop.failure && r.Failure
	failed := r.Failure || r.Again
	if !failed {
		p.told, p.stop.told, p.stop.down = true, true, 0
	}
	if failed && p.told {
		p.stop.down = cmp.Or(p.stop.down, sent)
	} else {
		p.stop.refused = max(p.stop.refused, sent)
	}
	if sent >= p.stop.probeSent {
		p.stop.probeSent = 0
	}
	p.sharing.otherProbes = false
	switch {
	case until <= v, again && until-v < shortestNamed:
		until = max(until, v+p.stop.pause)
	case p.doubted && named: // asked after a ninth and a third of the time
		pause := max(2*(v-p.stop.since), (until-v)/9, p.stop.pause)
		until, p.doubted = min(until, v+pause), pause < until-v
	}
	p.stop.until = until
}

// TryAgain ends the pause of a stop: the next request tells whether the server still refuses.
func (p *HiddenRate) TryAgain(now time.Time) { p.stop.until = min(p.stop.until, p.at(now)) }

func (p *HiddenRate) When(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > maxAmount {
		return now, false
	}
	v := p.at(now)
	switch {
	case v < p.stop.until:
		return p.clock.Time(now, p.stop.until), true
	case p.stop.active:
		if p.stop.probeSent > 0 && v-p.stop.probeSent < probeTimeout {
			return limit.Unknown, true
		}
		return now, true
	case p.atOnce.limit > 0 && int64(len(p.atOnce.flying)) >= p.atOnce.limit:
		return limit.Unknown, true
	case p.windowed:
		at, ok := p.window.next(v, p.lastSent, int64(len(p.atOnce.flying)), max(int64(float64(p.window.Limit)/p.parts()), 1))
		if !ok {
			return limit.Unknown, true
		}
		return p.clock.Time(now, at), true
	}
	return p.clock.Time(now, p.turn(max(p.nextAt, p.atOnce.next(), v))), true
}

// Patience returns when another request may go although the probe has no response yet.
func (p *HiddenRate) Patience(now time.Time) time.Time {
	v := p.at(now)
	if !p.stop.active || p.stop.probeSent == 0 {
		return time.Time{}
	}
	return p.clock.Time(now, max(p.stop.probeSent+probeTimeout, v))
}

func (p *HiddenRate) Take(now time.Time, n int64) {
	v := p.at(now)
	if n = amount(n); n == 0 {
		return
	}
	if p.sharing.sent += float64(n); v > p.turn(p.nextAt)+p.search.late() && !p.stop.active {
		p.sharing.rested = v
	}
	if len(p.sharing.others) == 0 && len(p.atOnce.flying) == 0 && !p.stop.active && p.failing == 0 {
		idle := idleTime(max(p.nextAt, p.lastUsed), v)
		p.search.idle, p.search.rested = p.search.idle+idle, p.search.rested || idle > 0
	}
	p.leftAlone(v)
	p.atOnce.take(v, v < p.lastSent+p.search.gap(1)-p.search.late())
	p.lastUsed, p.lastSent = v, v
	switch {
	case p.windowed:
		p.takeInWindow(v)
	case p.search.rate > 0:
		p.nextAt = min(max(p.nextAt, v-p.search.late()), limit.FarFuture) + p.gap(n)
	}
	if p.stop.active {
		p.stop.probeSent = max(v, 1)
	}
}

func (p *HiddenRate) Give(now, taken time.Time, n int64) {
	v := p.at(now)
	if n = amount(n); n == 0 {
		return
	}
	at := p.clock.On(taken)
	p.failing = cmp.Or(p.failing, at)
	p.atOnce.end(v, at)
	if p.windowed {
		p.window.Taken = max(p.window.Taken-1, 0)
	} else if at >= p.lastSent {
		p.nextAt = max(p.nextAt-p.gap(n), p.lastSent-p.search.late())
	}
	if at == p.stop.probeSent {
		p.stop.probeSent = 0
	}
}

func (p *HiddenRate) Postpone(now, taken time.Time, n int64) {
	v, at := p.at(now), p.clock.On(taken)
	if n <= 0 {
		return
	}
	if i := p.atOnce.index(at); i >= 0 {
		p.atOnce.flying[i].at = v
	}
	if p.stop.probeSent > 0 && at == p.stop.probeSent {
		p.stop.probeSent = v
	}
}

// Settle does nothing, as requests are counted.
func (p *HiddenRate) Settle(_, _ time.Time, _, _ int64) {}

// Done implements limit.Meter. Refused takes the refusals.
func (p *HiddenRate) Done(now, taken time.Time, n int64, o limit.Outcome) {
	v := p.at(now)
	if n = amount(n); n == 0 {
		return
	}
	p.lastUsed = v
	at := p.clock.On(taken)
	flight := p.atOnce.end(v, at)
	if at == p.stop.probeSent {
		p.stop.probeSent = 0
	}
	if o != limit.Success {
		if o != limit.Abandoned && !p.stop.active {
			p.failing = cmp.Or(p.failing, at)
		}
		return
	}
	p.sharing.accepted++
	p.answered(at)
	against := p.doubt(now, at)
	p.hurries = p.tooSlow(v)
	p.atOnce.succeeded(flight, v-at)
	switch {
	case at < p.stop.rateSince && (p.stop.active || p.search.rate == 0):
		p.succeededBefore(v)
		return
	case p.stop.active:
		p.resume(v, at, against)
	}
	p.window.answered(v, p.search.pooled)
	p.search.succeeded(v, 1)
}

// answered notes that a request that was sent at a time succeeds, or is refused by a limit.
func (p *HiddenRate) answered(at int64) {
	if p.failing > 0 && at > p.failing {
		p.search.idle += at - p.failing
		p.failing = 0
	}
}

// succeededBefore counts a success of a request that was sent before the last refusal.
func (p *HiddenRate) succeededBefore(v int64) {
	switch {
	case p.search.rate > 0:
		p.search.total++
	case p.windowed:
		p.window.answered(v, p.search.pooled)
	default:
		p.search.full++
	}
}

// resume ends a stop, because a request succeeds that was sent at that time. against: the refusal
// speaks against a limit, so the rate stays.
func (p *HiddenRate) resume(v, at int64, against bool) {
	s, idle := &p.search, idleTime(max(p.stop.until, p.stop.since), at)
	recovery, tried := v-p.stop.since-idle, at-idle // a request could have gone before
	if named := p.stop.until - p.stop.since; p.paced && !p.doubted && named > 0 {
		s.idle, s.rested = s.idle+named, true // what a site names that does not end a window is no part of what requests need
	}
	if p.stop.down > 0 { // from then on, refusals say nothing of a rate
		down := max(at-p.stop.down, 0)
		s.idle += down
		recovery, tried, p.stop.probed = max(recovery-down, 0), tried-down, false
	}
	innocent := p.stop.refused == 0 // no refusal was due to the rate
	p.stop.active, p.stop.refused = false, cmp.Or(p.stop.refused, p.stop.since)
	p.stop.until = min(p.stop.until, v)
	others := p.sharing.otherProbes
	p.sharing.otherProbes = false
	p.choose(tried)
	switch {
	case p.windowed && p.window.several():
		p.paced, p.windowed, s.cycle = true, false, recovery
		s.ended(&p.stop, p.stop.refused, at, recovery, false)
	case p.windowed:
		if p.window.end > 0 {
			p.window.ended(at, p.stop.since)
			p.emptied(at, recovery)
		}
		return
	case against: // a rate that was refused before may not have been too much
		s.refused, s.trying = 0, false
		return
	case others && s.rate > 0: // the instance that was refused tells the rate
	case s.rate == 0 && !p.stop.probed && p.noise.possible() && p.noise.odds > suspected && s.accepted() >= fewUnits:
		s.compare(p.stop.since, tried)
		p.noise.odds = min(p.noise.odds, suspected) // until now, all may have come too fast
	case s.rate == 0 && p.stop.failure:
		s.guess(min(p.noise.head, p.stop.since), tried, p.stop.probed)
	case s.rate > 0 && (innocent || !p.stop.told && !p.stop.outage && p.stop.failure && p.stop.probed && recovery > s.cycle*3/2):
		p.stop.outage = true // so far, the rate stays
		s.set(v, s.rate)
		return
	case s.rate == 0:
		s.begin(p.stop.refused, tried, recovery, p.stop.probed)
	default:
		s.ended(&p.stop, p.stop.refused, tried, recovery, p.noise.possible() && !p.paced)
	}
	p.stop.outage = s.from == guessed
	p.emptied(at, recovery)
}

// emptied notes that nothing was left of the limit until a request succeeds that was sent at that time.
func (p *HiddenRate) emptied(at, recovery int64) {
	s := &p.search
	s.empty = s.empty.add(episode{recovery: recovery, empty: p.stop.refused, resumed: at, total: s.total, idle: s.idle})
	s.lowest = s.rate
	p.nextAt = max(p.nextAt, at+p.gap(1))
}

// Ahead implements queue.Learning.
func (p *HiddenRate) Ahead(now time.Time) limit.Meter {
	c := *p
	c.search.empty = slices.Clone(c.search.empty)
	c.at(now)
	c.sharing, c.atOnce.flying, c.stop.probeSent = rateSharing{others: maps.Clone(p.sharing.others)}, nil, 0
	for id, o := range c.sharing.others {
		c.sharing.others[id] = other{o.Use, limit.FarFuture}
	}
	return &c
}

// Left returns the requests of one second, or 0 while none may go.
func (p *HiddenRate) Left(now time.Time) int64 {
	at, ok := p.When(now, 1)
	switch {
	case !ok || at.After(now):
		return 0
	case p.stop.active:
		return 1
	case p.windowed && p.window.Limit > 0:
		return max(p.window.Limit-p.window.Taken, 1)
	case p.search.rate > 0 && !p.windowed:
		return max(int64(p.search.rate), 1)
	case p.atOnce.limit > 0:
		return max(p.atOnce.limit-int64(len(p.atOnce.flying)), 0)
	}
	return maxAmount
}

// Forget drops the learned limit: the refusals had another cause.
func (p *HiddenRate) Forget(now time.Time) {
	v := p.at(now)
	flying := p.atOnce.flying
	p.search, p.window, p.windowed, p.paced, p.doubted = rateSearch{since: v}, hiddenWindow{}, false, false, false
	p.search.restart(v)
	p.atOnce, p.stop, p.nextAt = atOnce{flying: flying}, stop{pause: firstPause, rateSince: v + 1}, v
}
