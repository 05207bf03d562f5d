package ledger

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// storedRate is the stored form of a HiddenRate. It is stored as JSON: keep the keys.
type storedRate struct {
	Version int     `json:"v"`
	Now     int64   `json:"now"`
	Rate    float64 `json:"rate"`
	Bad     float64 `json:"bad,omitempty"`
	Debt    float64 `json:"debt,omitempty"`
	Fails   int     `json:"fails,omitempty"`
	Until   int64   `json:"until,omitempty"`
	Used    int64   `json:"used"`
	Refused bool    `json:"refused,omitempty"`

	Good   float64 `json:"good,omitempty"`
	Cycle  int64   `json:"cycle,omitempty"`
	Limit  int64   `json:"limit,omitempty"`  // of a window
	Length int64   `json:"length,omitempty"` // of a window
	Start  int64   `json:"start,omitempty"`  // of the present window
	Taken  int64   `json:"taken,omitempty"`  // in the present window
	Tried  bool    `json:"tried,omitempty"`  // it is a window
	AtOnce int64   `json:"at_once,omitempty"`
}

var errRate = errors.New("the state of a hidden rate is damaged")

// State is limit.Meter's.
func (p *HiddenRate) State() []byte {
	s := storedRate{
		Version: savedVersion, Now: p.clock.Last(), Rate: p.search.rate, Bad: p.search.refused, Debt: p.search.debt, Fails: p.search.fails,
		Until: p.stop.until, Used: p.lastUsed, Refused: p.stop.active, Good: p.search.good, Cycle: p.search.cycle, AtOnce: p.atOnce.limit,
	}
	if w := &p.window; p.windowed && w.limit > 0 {
		s.Limit, s.Length, s.Start, s.Taken, s.Tried = w.limit, w.length, w.start, w.taken, w.trial == tried
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return b
}

// Restore is limit.Meter's.
func (p *HiddenRate) Restore(now time.Time, state []byte) error {
	var s storedRate
	if json.Unmarshal(state, &s) != nil || s.Version != savedVersion || !s.valid() {
		return errRate
	}
	v := p.at(now)
	by := min(v-s.Now, 0)
	p.search = rateSearch{
		rate: s.Rate, refused: s.Bad, debt: s.Debt, fails: s.Fails, good: s.Good, cycle: max(s.Cycle, second),
		since: v, emptyAt: v, gain: firstGain, step: attemptFactor - 1,
	}
	p.window, p.windowed = hiddenWindow{}, s.Limit > 0
	if p.windowed {
		p.window = hiddenWindow{limit: s.Limit, length: s.Length, start: max(s.Start+by, 0), taken: s.Taken}
		p.window.recent.begin(s.Length)
		p.window.recent.add(max(p.window.start, 1), s.Taken)
		if s.Tried {
			p.window.trial = tried
		}
	}
	p.atOnce.limit = s.AtOnce
	p.stop.active, p.stop.until = s.Refused, max(s.Until+by, 0)
	p.stop.since = p.stop.until
	p.lastUsed = max(s.Used+by, 0)
	if p.search.rate > 0 {
		p.nextAt = plus(v, 1/p.search.rate)
	}
	return nil
}

// valid reports whether all numbers are possible.
func (s *storedRate) valid() bool {
	rate := s.Rate >= minRate && s.Rate <= maxRate || s.Rate == 0
	search := s.Bad >= 0 && s.Bad <= 2*maxRate && s.Good >= 0 && s.Good <= maxRate && s.Debt >= 0 &&
		s.Debt <= successesPerRefusal*successesToAttempt && s.Fails >= 0 && s.Fails <= 16 && s.Cycle >= 0 && s.Cycle <= maxAhead
	window := s.Limit >= 0 && s.Limit <= maxAmount && s.Length >= 0 && s.Length <= 2*maxAhead && (s.Limit == 0) == (s.Length == 0) &&
		s.Start >= 0 && s.Start <= s.Now && s.Taken >= 0 && s.Taken <= maxAmount && s.AtOnce >= 0 && s.AtOnce <= maxAmount
	times := s.Now >= 0 && s.Now <= limit.FarFuture && s.Used >= 0 && s.Used <= s.Now && s.Until >= 0 &&
		s.Until <= min(s.Now+2*maxAhead, limit.FarFuture)
	return rate && search && window && times
}
