package ledger

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// HiddenRate is the meter of a limit that the server does not announce: a rate found by
// refusals. Requests are spaced evenly. After a refusal no request goes for a while; then
// they go on at a lower rate, which rises again to a little below the lowest rate that was
// refused. It is not safe for concurrent use.
type HiddenRate struct {
	clock  limit.Clock
	search rateSearch
	stop   stop

	inFlight int64 // requests in flight
	nextAt   int64 // when the next request may go
	lastSent int64 // when the last one went
	lastUsed int64 // last request or response

	sharing rateSharing
}

// stop is the time after a refusal in which only single probes go.
type stop struct {
	active    bool  // the last response was a refusal
	until     int64 // no request goes before
	pause     int64 // between probes
	probeSent int64 // 0: no probe is in flight
	rateSince int64 // requests before this time had another rate
}

var _ limit.Meter = (*HiddenRate)(nil)

// NewHiddenRate begins with the rate in requests per second that succeeded before a
// refusal; 0: unknown.
func NewHiddenRate(recent float64) *HiddenRate {
	guessed := !(recent > 0)
	if guessed {
		recent = 1
	}
	return &HiddenRate{
		search: rateSearch{rate: min(max(recent, minRate), maxRate), guessed: guessed, step: attemptFactor - 1},
		stop:   stop{pause: second},
	}
}

func (p *HiddenRate) at(now time.Time) int64 {
	v := p.clock.At(now)
	if p.search.since == 0 {
		p.search.since, p.search.refusedAt, p.lastUsed = v, v, v
	}
	return v
}

// Rate returns the present rate in requests per second.
func (p *HiddenRate) Rate() float64 { return p.search.rate }

// Refused takes a refusal, with its retry time, if any.
func (p *HiddenRate) Refused(now, sent, retryAt time.Time) {
	v, at := p.at(now), p.clock.On(sent)
	p.search.debt = min(p.search.debt+successesPerRefusal*float64(1+p.search.fails), successesPerRefusal*successesToAttempt)
	var until int64
	if !retryAt.IsZero() {
		if until = p.clock.On(retryAt); until-v > maxAhead {
			until = v + unbelievableHold
		}
	}
	if at < p.stop.rateSince {
		p.stop.until = max(p.stop.until, until)
		return // it was sent at an earlier rate
	}
	if p.stop.active {
		// The full window has not ended yet: the rate is not the cause.
		p.stop.pause = min(2*p.stop.pause, maxProbeInterval)
	} else {
		p.search.lower(v)
		p.stop.pause = second
	}
	p.stop.active, p.stop.rateSince, p.stop.probeSent = true, v+1, 0
	p.sharing.otherProbes = false
	p.stop.until = max(until, v+p.stop.pause)
}

// when is When without the fleet's budget.
func (p *HiddenRate) when(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > maxAmount {
		return now, false
	}
	v := p.at(now)
	if v < p.stop.until {
		return p.clock.Time(now, p.stop.until), true
	}
	if p.stop.active {
		if p.stop.probeSent > 0 && v-p.stop.probeSent < probeTimeout {
			return limit.Unknown, true
		}
		return now, true
	}
	return p.clock.Time(now, p.nextAt), true
}

// Patience returns when another request may go although the probe has no response yet.
func (p *HiddenRate) Patience(now time.Time) time.Time {
	v := p.at(now)
	if !p.stop.active || p.stop.probeSent == 0 {
		return time.Time{}
	}
	return p.clock.Time(now, max(p.stop.probeSent+probeTimeout, v))
}

// Take implements limit.Meter.
func (p *HiddenRate) Take(now time.Time, n int64) {
	v := p.at(now)
	if n = amount(n); n == 0 {
		return
	}
	if p.share(now) {
		p.sharing.budget.Take(now, n)
	}
	p.inFlight++
	p.lastUsed, p.lastSent = v, v
	p.nextAt = min(max(p.nextAt, v-maxLateStart), limit.FarFuture) + p.search.gap(n)
	if p.stop.active {
		p.stop.probeSent = max(v, 1)
	}
}

// Give implements limit.Meter.
func (p *HiddenRate) Give(now, taken time.Time, n int64) {
	p.at(now)
	if n = amount(n); n == 0 {
		return
	}
	if p.sharing.budget != nil {
		p.sharing.budget.Give(now, taken, n)
	}
	p.inFlight = max(p.inFlight-1, 0)
	at := p.clock.On(taken)
	if at >= p.lastSent {
		p.nextAt = max(p.nextAt-p.search.gap(n), p.lastSent-maxLateStart)
	}
	if at == p.stop.probeSent {
		p.stop.probeSent = 0
	}
}

// Postpone implements limit.Meter.
func (p *HiddenRate) Postpone(now, taken time.Time, n int64) {
	v := p.at(now)
	if n > 0 && p.stop.probeSent > 0 && p.clock.On(taken) == p.stop.probeSent {
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
	p.inFlight = max(p.inFlight-1, 0)
	p.lastUsed = v
	at := p.clock.On(taken)
	if at == p.stop.probeSent {
		p.stop.probeSent = 0
	}
	if o != limit.Success {
		return
	}
	if at < p.stop.rateSince {
		p.search.sinceRefusal += float64(p.weight())
		return
	}
	if p.stop.active {
		p.stop.active, p.stop.pause = false, second
		p.sharing.otherProbes = false
		p.search.since = v
	}
	p.search.succeeded(v, p.weight())
}

// Left returns the requests of one second, or 0 while none may go.
func (p *HiddenRate) Left(now time.Time) int64 {
	v := p.at(now)
	switch {
	case v < p.stop.until || !p.stop.active && v < p.nextAt:
		return 0
	case p.stop.active:
		if p.stop.probeSent > 0 && v-p.stop.probeSent < probeTimeout {
			return 0
		}
		return 1
	}
	return max(int64(p.search.rate), 1)
}

// Idle reports whether the rate has not been used for a day.
func (p *HiddenRate) Idle(now time.Time) bool {
	v := p.at(now)
	return p.inFlight == 0 && v >= p.stop.until && v-p.lastUsed >= idleAfter
}

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
}

var errRate = errors.New("the state of a hidden rate is damaged")

// State is limit.Meter's.
func (p *HiddenRate) State() []byte {
	b, err := json.Marshal(storedRate{
		Version: savedVersion, Now: p.clock.Last(), Rate: p.search.rate, Bad: p.search.refused, Debt: p.search.debt, Fails: p.search.fails,
		Until: p.stop.until, Used: p.lastUsed, Refused: p.stop.active,
	})
	if err != nil {
		return nil
	}
	return b
}

// Restore is limit.Meter's.
func (p *HiddenRate) Restore(now time.Time, state []byte) error {
	var s storedRate
	if json.Unmarshal(state, &s) != nil || s.Version != savedVersion ||
		!(s.Rate >= minRate && s.Rate <= maxRate) || !(s.Bad >= 0 && s.Bad <= 2*maxRate) ||
		!(s.Debt >= 0 && s.Debt <= successesPerRefusal*successesToAttempt) || s.Fails < 0 || s.Fails > 16 ||
		s.Now < 0 || s.Now > limit.FarFuture || s.Used < 0 || s.Used > s.Now || s.Until < 0 || s.Until > min(s.Now+2*maxAhead, limit.FarFuture) {
		return errRate
	}
	v := p.at(now)
	by := min(v-s.Now, 0)
	p.search.rate, p.search.refused, p.search.debt, p.search.fails, p.stop.active = s.Rate, s.Bad, s.Debt, s.Fails, s.Refused
	p.stop.until = max(s.Until+by, 0)
	p.lastUsed = max(s.Used+by, 0)
	p.nextAt = plus(v, 1/p.search.rate)
	return nil
}
