package ledger

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/abide-proxy/abide/learn"
)

// savedVersion is that of the states that meters write. Others are not read.
const savedVersion = 1

var errSaved = errors.New("the state of a ledger is damaged")

// saved is a ledger without what is in flight. Times are nanoseconds since 1970.
type saved struct {
	Version   int     `json:"v"`
	Now       int64   `json:"now"`
	Kind      kind    `json:"kind,omitempty"`
	Off       bool    `json:"off,omitempty"`
	Counts    bool    `json:"counts,omitempty"`
	Probing   bool    `json:"probing,omitempty"`
	Limit     float64 `json:"limit,omitempty"`
	Level     float64 `json:"level"`
	Rate      float64 `json:"rate,omitempty"`
	Rated     bool    `json:"rated,omitempty"`
	Cost      float64 `json:"cost"`
	Mean      float64 `json:"mean,omitempty"`
	Dev       float64 `json:"dev,omitempty"`
	Samples   int     `json:"samples,omitempty"`
	Reset     int64   `json:"reset,omitempty"`
	Over      int64   `json:"over,omitempty"`
	Slop      int64   `json:"slop,omitempty"`
	Before    int64   `json:"before,omitempty"`
	Opened    int64   `json:"opened,omitempty"`
	Period    int64   `json:"period,omitempty"`
	Said      bool    `json:"said,omitempty"`
	Guess     bool    `json:"guess,omitempty"`
	Passed    bool    `json:"passed,omitempty"`
	Fulls     int     `json:"fulls,omitempty"`
	Extra     int64   `json:"extra,omitempty"`
	Until     int64   `json:"until,omitempty"`
	Row       int     `json:"row,omitempty"`
	Slow      int64   `json:"slow,omitempty"`
	Heard     int64   `json:"heard"`
	Own       int64   `json:"own,omitempty"`
	Foreign   int64   `json:"foreign,omitempty"`
	ForeignAt int64   `json:"foreign_at,omitempty"`
	Spread    bool    `json:"spread,omitempty"`
	Trail     int64   `json:"trail,omitempty"` // what was answered within the window
}

// State is limit.Meter's: nil of a ledger that has heard nothing.
func (l *Ledger) State() []byte {
	if !l.heard {
		return nil
	}
	w := &l.window
	b, err := json.Marshal(saved{
		Version: savedVersion, Now: l.clock.last, Kind: l.kind, Off: l.off, Counts: l.counts, Probing: l.probing,
		Limit: l.limit, Level: l.level, Passed: w.passed, Rate: l.rate, Rated: l.rated,
		Cost: l.cost.each, Mean: l.cost.mean, Dev: l.cost.dev, Samples: l.cost.count,
		Reset: w.reset, Over: w.over, Slop: w.slop, Before: w.before, Opened: w.opened,
		Period: w.period, Said: w.said, Guess: w.guess, Fulls: w.fulls, Extra: w.extra,
		Until: l.until, Row: l.row, Slow: l.slow, Heard: l.heardAt,
		Own: min(l.own, most), Foreign: l.foreign, ForeignAt: l.foreignAt,
		Spread: l.spread, Trail: min(l.trail.sum+l.flights.unanswered(), most),
	})
	if err != nil {
		return nil
	}
	return b
}

// Restore is limit.Meter's. An empty state is that of a ledger that has heard
// nothing. What was used since it was made is not in it, and the clock may have been
// set meanwhile. So of what should be left one is tried alone, and that the next
// window is whole has to be seen again.
func (l *Ledger) Restore(now time.Time, state []byte) error {
	if len(state) == 0 {
		return nil
	}
	var s saved
	if json.Unmarshal(state, &s) != nil || s.Version != savedVersion || !s.sound() {
		return errSaved
	}
	v := l.clock.at(now)
	// What was stored by a clock that was ahead is not in the future.
	by := min(v-s.Now, 0)
	at := func(t int64) int64 {
		if t == 0 {
			return 0
		}
		return min(max(t+by, 1), v+credible)
	}
	l.heard, l.kind, l.off, l.counts, l.probing = true, s.Kind, s.Off, s.Counts, s.Probing
	l.limit, l.level, l.at, l.rate, l.rated = s.Limit, s.Level, at(s.Now), s.Rate, s.Rated
	l.cost = cost{each: s.Cost, mean: s.Mean, dev: s.Dev, peak: s.Mean, count: s.Samples}
	if !l.rated {
		l.least = l.rate
	}
	l.window = window{
		reset: at(s.Reset), over: at(s.Over), slop: s.Slop, before: at(s.Before), opened: at(s.Opened),
		period: s.Period, said: s.Said, guess: s.Guess, passed: s.Passed, fulls: s.Fulls, extra: s.Extra,
	}
	l.until, l.row, l.slow, l.heardAt = at(s.Until), s.Row, s.Slow, at(s.Heard)
	l.own, l.foreign, l.foreignAt, l.gainedAt = s.Own, s.Foreign, at(s.ForeignAt), v
	if l.spread = s.Spread; l.spread {
		l.trail = trail{}
		l.trail.span(l.window.period)
		l.trail.add(at(s.Now), s.Trail)
	}
	l.window.fulls = 0
	l.probeFrom, l.probeAt = v, 0
	l.look(v)
	if !l.off && l.options.Unit != learn.Concurrent && l.spend() >= l.cost.each {
		l.probing = true
	}
	l.away = true
	return nil
}

// sound tells whether a state can be a ledger's.
func (s *saved) sound() bool {
	for _, n := range []float64{s.Limit, s.Rate, s.Mean, s.Dev} {
		if !(n >= 0 && n <= float64(most)) {
			return false
		}
	}
	if !(math.Abs(s.Level) <= float64(most)) || !(s.Cost > 0 && s.Cost <= float64(most)) {
		return false
	}
	for _, t := range []int64{s.Now, s.Reset, s.Over, s.Before, s.Opened, s.Until, s.Heard, s.ForeignAt} {
		if t < 0 || t > edge || t > s.Now+2*credible {
			return false
		}
	}
	for _, n := range []int64{s.Slop, s.Period, s.Extra} {
		if n < 0 || n > credible {
			return false
		}
	}
	for _, n := range []int64{s.Slow, s.Own, s.Foreign, s.Trail} {
		if n < 0 || n > most {
			return false
		}
	}
	return s.Kind <= sliding && s.Fulls >= 0 && s.Fulls <= trusted && s.Row >= 0 && s.Row <= 16 &&
		s.Samples >= 0 && s.Samples <= 1<<20
}
