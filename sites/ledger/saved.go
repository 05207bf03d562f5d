package ledger

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/learn"
)

// savedVersion is the version of saved states. Others are not read.
const savedVersion = 1

var errState = errors.New("the state of a ledger is damaged")

// saved is the JSON form of a ledger, without units in flight. Times are nanoseconds since
// 1970. It is persisted: keep the keys.
type saved struct {
	Version     int        `json:"v"`
	Now         int64      `json:"now"`
	Kind        refillKind `json:"kind,omitempty"`
	Off         bool       `json:"off,omitempty"`
	Counts      bool       `json:"counts,omitempty"`
	Probing     bool       `json:"probing,omitempty"`
	Limit       float64    `json:"limit,omitempty"`
	Level       float64    `json:"level"`
	Rate        float64    `json:"rate,omitempty"`
	Rated       bool       `json:"rated,omitempty"`
	Cost        float64    `json:"cost"`
	Mean        float64    `json:"mean,omitempty"`
	Dev         float64    `json:"dev,omitempty"`
	Samples     int        `json:"samples,omitempty"`
	Reset       int64      `json:"reset,omitempty"`
	Over        int64      `json:"over,omitempty"`
	Slop        int64      `json:"slop,omitempty"`
	Before      int64      `json:"before,omitempty"`
	Opened      int64      `json:"opened,omitempty"`
	Period      int64      `json:"period,omitempty"`
	Said        bool       `json:"said,omitempty"`
	Guess       bool       `json:"guess,omitempty"`
	Close       bool       `json:"close,omitempty"`
	Passed      bool       `json:"passed,omitempty"`
	Fulls       int        `json:"fulls,omitempty"`
	Extra       int64      `json:"extra,omitempty"`
	Until       int64      `json:"until,omitempty"`
	Row         int        `json:"row,omitempty"`
	Slow        int64      `json:"slow,omitempty"`
	Heard       int64      `json:"heard"`
	Own         int64      `json:"own,omitempty"`
	Foreign     int64      `json:"foreign,omitempty"`
	ForeignAt   int64      `json:"foreign_at,omitempty"`
	Spread      bool       `json:"spread,omitempty"`
	RecentUnits int64      `json:"trail,omitempty"` // units answered within the rolling window
	Shift       int64      `json:"shift,omitempty"`

	// Of windows that begin with their first request: what phase knows of their length. How clocks differ is not saved.
	Length int64 `json:"length,omitempty"` // at most
	Early  int64 `json:"early,omitempty"`
	Sure   int64 `json:"sure,omitempty"`
	Lost   int   `json:"lost,omitempty"`
}

// State implements limit.Meter: nil for a ledger without announcements.
func (l *Ledger) State() []byte {
	a := &l.allowance
	if !l.announced.ever {
		return nil
	}
	w, p := &a.window, &a.phase
	s := saved{
		Version: savedVersion, Now: l.clock.Last(), Kind: a.kind, Off: l.free(l.clock.Last()), Counts: a.counts, Probing: l.probe.active,
		Limit: a.limit, Level: a.level, Passed: w.hadPrevious, Rate: a.refill.rate, Rated: a.refill.announced,
		Cost: a.cost.each, Mean: a.cost.mean, Dev: a.cost.dev, Samples: a.cost.count,
		Reset: w.reset, Over: w.over, Slop: w.slop, Before: w.before, Opened: w.opened,
		Period: w.period, Said: w.lengthAnnounced, Guess: w.limitGuessed, Close: w.close, Fulls: w.wholeInRow, Extra: w.serverDelay,
		Until: l.refusals.until, Row: l.refusals.inRow, Slow: a.flights.maxInFlight, Heard: l.announced.at,
		Own: min(a.usage.own, maxAmount), Foreign: a.usage.foreign, ForeignAt: a.usage.foreignAt,
		Spread: a.recent.on, RecentUnits: min(a.recent.sum+a.flights.unanswered(), maxAmount),
		Shift: l.announced.shift,
	}
	if length, early := p.length.span.high, p.early.span.high; p.openings >= 2 && p.length.holds() && p.early.begun && upTo(maxAhead, length, early, p.sure) {
		s.Length, s.Early, s.Sure, s.Lost = length, early, p.sure, p.lost
	}
	b, _ := json.Marshal(s) // nil with an error
	return b
}

// Restore implements limit.Meter. An empty state is that of a ledger without announcements.
// Use since the state was saved is unknown, and the clock may have been set. So one probe
// is sent first, and trust in full windows starts again.
func (l *Ledger) Restore(now time.Time, state []byte) error {
	if len(state) == 0 {
		return nil
	}
	var s saved
	if json.Unmarshal(state, &s) != nil || s.Version != savedVersion || !s.valid() {
		return errState
	}
	a, v := &l.allowance, l.clock.At(now)
	// What was stored by a clock that was ahead is not in the future.
	by := min(v-s.Now, 0)
	at := func(t int64) int64 {
		if t == 0 {
			return 0
		}
		return min(max(t+by, 1), v+maxAhead)
	}
	l.announced.ever, a.kind, l.announced.unlimited, a.counts, l.probe.active = true, s.Kind, s.Off, s.Counts, s.Probing
	a.limit, a.level, a.levelAt, a.refill.rate, a.refill.announced = s.Limit, s.Level, at(s.Now), s.Rate, s.Rated
	a.cost = cost{each: s.Cost, mean: s.Mean, dev: s.Dev, peak: s.Mean, count: s.Samples}
	if !a.refill.announced {
		a.refill.byCount = a.refill.rate
	}
	a.window = window{
		reset: at(s.Reset), over: at(s.Over), slop: s.Slop, before: at(s.Before), opened: at(s.Opened),
		period: s.Period, lengthAnnounced: s.Said, limitGuessed: s.Guess, close: s.Close, hadPrevious: s.Passed, wholeInRow: s.Fulls, serverDelay: s.Extra,
	}
	a.window.longest = max(a.window.reset-a.window.opened, 0)
	l.refusals.until, l.refusals.inRow, a.flights.maxInFlight, l.announced.at = at(s.Until), s.Row, s.Slow, at(s.Heard)
	a.usage.own, a.usage.foreign, a.usage.foreignAt, a.increasedAt = s.Own, s.Foreign, at(s.ForeignAt), v
	l.announced.shift = s.Shift
	if s.Length > 0 {
		known := func(most int64) supposition { return supposition{span: span{-forever, most}, begun: true, at: v} }
		a.phase = phase{length: known(s.Length), early: known(s.Early), sure: s.Sure, openings: 2, tests: s.Lost, lost: s.Lost}
		a.phase.late.span.high = -forever
	}
	if s.Spread {
		a.recent = recent{}
		a.recent.begin(a.window.period)
		a.recent.add(at(s.Now), s.RecentUnits)
	}
	a.window.wholeInRow = 0
	l.probe.from, l.probe.sent = v, 0
	l.advance(v)
	if !l.announced.unlimited && l.options.Unit != learn.Concurrent && a.spend() >= a.cost.each {
		l.probe.active = true
	}
	l.announced.restored = true
	return nil
}

// valid reports whether a state can be that of a ledger.
func (s *saved) valid() bool {
	for _, n := range []float64{s.Limit, s.Rate, s.Mean, s.Dev} {
		if !(n >= 0 && n <= float64(maxAmount)) {
			return false
		}
	}
	if !(math.Abs(s.Level) <= float64(maxAmount)) || !(s.Cost > 0 && s.Cost <= float64(maxAmount)) {
		return false
	}
	return upTo(min(limit.FarFuture, s.Now+2*maxAhead), s.Now, s.Reset, s.Over, s.Before, s.Opened, s.Until, s.Heard, s.ForeignAt) &&
		upTo(maxAhead, s.Slop, s.Period, s.Extra) && -limit.FarFuture <= s.Shift && s.Shift <= limit.FarFuture &&
		upTo(maxAhead, s.Length, s.Early, s.Sure) && upTo(maxTests, int64(s.Lost)) && upTo(maxAmount, s.Slow, s.Own, s.Foreign, s.RecentUnits) && s.Kind <= sliding && s.Fulls >= 0 && s.Fulls <= trustedWindows && s.Row >= 0 && s.Row <= 16 &&
		s.Samples >= 0 && s.Samples <= 1<<20
}

// upTo tells whether all numbers are between 0 and most.
func upTo(most int64, list ...int64) bool { return slices.Min(list) >= 0 && slices.Max(list) <= most }

// storedRate is the stored form of a HiddenRate. It is stored as JSON: keep the keys.
type storedRate struct {
	Version int     `json:"v"`
	Now     int64   `json:"now"`
	Rate    float64 `json:"rate"`
	Bad     float64 `json:"bad,omitempty"`
	Fails   int     `json:"fails,omitempty"`
	Until   int64   `json:"until,omitempty"`
	Used    int64   `json:"used"`
	Refused bool    `json:"refused,omitempty"`

	Good   float64    `json:"good,omitempty"`
	Cycle  int64      `json:"cycle,omitempty"`
	Tried  bool       `json:"tried,omitempty"`  // it is a window
	Recent [][2]int64 `json:"recent,omitempty"` // recent.slots: until, units
	windowKnown
	Paced  bool    `json:"paced,omitempty"`   // the limit is no window, though refusals name ends
	Doubts bool    `json:"doubted,omitempty"` // the named ends may be too late
	AtOnce int64   `json:"at_once,omitempty"`
	Tries  uint    `json:"tries,omitempty"`   // of more at once that were refused
	Took   int64   `json:"latency,omitempty"` // an answer, in the mean
	Random float64 `json:"random,omitempty"`  // noise.share
	Full   float64 `json:"full,omitempty"`
	Cross  bool    `json:"crossed,omitempty"` // rateSharing.crossed
}

var errRate = errors.New("the state of a hidden rate is damaged")

func (p *HiddenRate) State() []byte {
	s := storedRate{
		Version: savedVersion, Now: p.clock.Last(), Rate: p.search.rate, Bad: p.search.refused, Fails: p.search.fails,
		Until: p.stop.until, Used: p.lastUsed, Refused: p.stop.active, Good: p.search.good, Cycle: p.search.cycle, AtOnce: p.atOnce.limit, Tries: p.atOnce.fails, Took: p.atOnce.latency, Random: p.noise.share, Full: p.search.full,
		Cross: p.sharing.crossed > 0, Paced: p.paced, Doubts: p.doubted,
	}
	if w := &p.window; p.windowed && w.Limit > 0 {
		s.windowKnown, s.Tried = w.windowKnown, w.trial == tried
		for i := range w.recent.len {
			t := w.recent.slots[(w.recent.head+i)%slots]
			s.Recent = append(s.Recent, [2]int64{t.until, t.units})
		}
	}
	if p.search.from == guessed {
		s.Rate, s.Good = 0, 0
	}
	b, _ := json.Marshal(s) // nil with an error
	return b
}

func (p *HiddenRate) Restore(now time.Time, state []byte) error {
	var s storedRate
	if json.Unmarshal(state, &s) != nil || s.Version != savedVersion || !s.valid() {
		return errRate
	}
	v := p.at(now)
	by := min(v-s.Now, 0)
	p.search = rateSearch{
		rate: s.Rate, refused: s.Bad, fails: s.Fails, good: s.Good, cycle: max(s.Cycle, second),
		since: v, full: s.Full, rested: true,
	}
	p.search.restart(v)
	if s.Cross {
		p.sharing.crossed = max(v, 1) // others may be there
	}
	p.window, p.windowed, p.paced, p.doubted = hiddenWindow{}, s.Limit > 0, s.Paced, s.Doubts
	if p.windowed {
		p.window = hiddenWindow{windowKnown: s.windowKnown, accepted: s.Taken}
		p.window.Start = max(s.Start+by, 0)
		p.window.recent.begin(s.Length)
		for _, t := range s.Recent {
			p.window.recent.add(max(t[0]+by, 1), t[1])
		}
		if s.Tried {
			p.window.trial = tried
		}
	}
	p.atOnce.limit, p.atOnce.fails, p.atOnce.after, p.atOnce.latency, p.noise.share = s.AtOnce, s.Tries, tryAfter(s.Tries), s.Took, s.Random
	p.stop.active, p.stop.until = s.Refused, max(s.Until+by, 0)
	p.stop.since, p.stop.refused = v, v
	p.lastUsed = max(s.Used+by, 0)
	if p.search.rate > 0 {
		p.nextAt = plus(v, 1/p.search.rate)
	}
	return nil
}

// valid reports whether all numbers are possible.
func (s *storedRate) valid() bool {
	rate := s.Rate >= minRate && s.Rate <= maxRate || s.Rate == 0
	search := s.Bad >= 0 && s.Bad <= 2*maxRate && s.Good >= 0 && s.Good <= maxRate &&
		s.Fails >= 0 && s.Fails <= 16 && s.Cycle >= 0 && s.Cycle <= maxAhead
	window := s.Limit >= 0 && s.Limit <= maxAmount && s.Length >= 0 && s.Length <= 2*maxAhead && (s.Limit == 0) == (s.Length == 0) &&
		s.Start >= 0 && s.Start <= s.Now && s.Taken >= 0 && s.Taken <= maxAmount && s.AtOnce >= 0 && s.AtOnce <= maxAmount && s.Tries <= 16 && s.Trials <= 16 && s.Step >= 0 && s.Step <= second &&
		s.Least >= 0 && s.Least <= s.Length && s.Held >= 0 && s.Took >= 0 && s.Took <= minute
	times := s.Now >= 0 && s.Now <= limit.FarFuture && s.Used >= 0 && s.Used <= s.Now && s.Until >= 0 &&
		s.Until <= min(s.Now+2*maxAhead, limit.FarFuture)
	for _, t := range s.Recent {
		window = window && t[0] >= 0 && t[0] <= s.Now && t[1] >= 0 && t[1] <= maxAmount
	}
	return rate && search && window && times && s.Random >= 0 && s.Random <= 1 && s.Full >= 0 && s.Full <= float64(maxAmount)
}

// Idle reports whether the limit has not been used for a day, or for a minute if nothing is
// known of it.
func (p *HiddenRate) Idle(now time.Time) bool { return p.unusedFor(now, idleAfter) }

// Spare reports whether the rate has not been used for a while.
func (p *HiddenRate) Spare(now time.Time) bool { return p.unusedFor(now, unusedTime) }

func (p *HiddenRate) unusedFor(now time.Time, known int64) bool {
	v := p.at(now)
	return len(p.atOnce.flying) == 0 && v >= p.stop.until && v-p.lastUsed >= p.lasts(known)
}

// SpareAt returns when the rate is spare, if it is not used before.
func (p *HiddenRate) SpareAt(now time.Time) time.Time {
	v := p.at(now)
	return p.clock.Time(now, min(max(p.stop.until, p.lastUsed+p.lasts(unusedTime)), v+maxAhead))
}

// lasts returns the time for which the meter stays unused: known if anything is learned.
func (p *HiddenRate) lasts(known int64) int64 {
	if p.Blank() {
		return minute
	}
	return known
}

// Blank implements queue.Storable: nothing is known of the limit, nor of refusals at random.
func (p *HiddenRate) Blank() bool {
	return p.noise.share == 0 && (p.search.rate == 0 || p.search.from == guessed) && p.window.Limit == 0 && p.atOnce.limit == 0
}
