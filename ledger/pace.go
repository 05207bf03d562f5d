package ledger

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	slowest, fastest = 1.0 / 3600, 1e6 // requests a second

	cut      = 0.7   // what remains of a rate that was refused
	deepest  = 0.3   // and at least, however little got through
	below    = 0.955 // of the lowest that was refused, where it stands
	above    = 1.04  // what it tries after that
	steps    = 200   // successes before it goes half the way back
	calm     = 1000  // before it tries more than was refused
	price    = 600   // successes that each refusal costs before that
	settle   = 20 * second
	hold     = 5 * minute
	unused   = 24 * hour
	latest   = 50 * int64(time.Millisecond) // by which one that goes late does not delay the next
	longest  = 60 * second                  // between probes while everything is refused
	hopeless = 1 << 18                      // an attempt waits for no more successes than these and the price
)

// Pace is a limit of which the server says nothing, and which it only shows by
// refusing: a rate that is found out. It lets requests go evenly. After a refusal
// it waits, goes on with less, and comes back to a little below the lowest rate
// that was refused. There it stays, the longer the more was refused, before it
// tries a little more.
type Pace struct {
	clock clock

	rate    float64
	bad     float64 // the lowest rate that was refused; 0: none
	good    int     // successes at this rate
	since   int64   // when this rate began
	cutAt   int64   // when it was cut last: what was sent before was sent at another rate
	debt    float64 // successes before the next attempt
	fails   int     // attempts that were refused, one after the other
	step    float64 // by how much the next attempt goes above
	passed  float64 // successes since refusals began
	began   int64   // when that was
	trying  bool
	guessed bool // nothing had succeeded
	refused bool // and nothing has succeeded since

	until   int64 // nothing goes before
	pause   int64
	probeAt int64 // when one went to see whether it is over; 0: none
	flying  int64
	free    int64 // when the next may go
	last    int64 // when something was taken last
	used    int64

	sharing paceSharing
}

var _ limit.Meter = (*Pace)(nil)

// NewPace begins at the rate that had succeeded before a refusal; 0 is not known.
func NewPace(recent float64) *Pace {
	guessed := !(recent > 0)
	if guessed {
		recent = 1
	}
	return &Pace{rate: min(max(recent, slowest), fastest), guessed: guessed, pause: second, step: above - 1}
}

func (p *Pace) at(now time.Time) int64 {
	v := p.clock.at(now)
	if p.since == 0 {
		p.since, p.began, p.used = v, v, v
	}
	return v
}

func (p *Pace) gap(n int64) int64 {
	return plus(0, float64(n)/p.rate)
}

// Rate is how many requests a second may go.
func (p *Pace) Rate() float64 { return p.rate }

// Refused hears that a request that was sent then was refused, and until when.
func (p *Pace) Refused(now, sent, retryAt time.Time) {
	v, at := p.at(now), p.clock.on(sent)
	p.debt = min(p.debt+price*float64(1+p.fails), price*calm)
	var until int64
	if !retryAt.IsZero() {
		if until = p.clock.on(retryAt); until-v > credible {
			until = v + incredible
		}
	}
	if at < p.cutAt {
		p.until = max(p.until, until)
		return // it went at a rate that was left since
	}
	if p.refused {
		// Still: the window that is full is not over. The rate is not the reason.
		p.pause = min(2*p.pause, longest)
	} else {
		p.lower(v)
	}
	p.refused, p.cutAt, p.probeAt = true, v+1, 0
	p.sharing.waits = false
	p.until = max(until, v+p.pause)
}

// lower goes below a rate that was refused.
func (p *Pace) lower(v int64) {
	next := p.rate * cut
	if took := float64(v-p.began) / float64(second); took >= 1 && p.passed >= 10 {
		// From one refusal to the next about as much got through as the limit is.
		next = min(max(1.05*p.passed/took, p.rate*deepest), next)
	}
	if p.guessed {
		p.guessed = false // it says nothing of a rate that was never tried
	} else if p.bad == 0 || p.rate < p.bad {
		p.bad = p.rate
	}
	if p.trying {
		p.fails = min(p.fails+1, 16)
	}
	p.trying, p.step = false, above-1
	p.rate = max(next, slowest)
	p.good, p.since = 0, v
	p.passed, p.began = 0, v
	p.debt = max(p.debt, min(float64(calm)*float64(int64(1)<<p.fails), hopeless))
	p.pause = second
}

// succeeded goes up when a rate has held.
func (p *Pace) succeeded(v int64) {
	n := p.weight()
	p.good += int(n)
	p.passed += float64(n)
	p.debt = max(p.debt-float64(n), 0)
	if took := float64(v-p.since) / float64(second); took > 60 && float64(p.good) < p.rate*took/2 {
		p.good, p.since = 0, v // it has not been tried
		return
	}
	switch {
	case p.bad == 0:
		// Nothing is known to be too much.
		if p.good >= 50 && v-p.since >= settle/2 {
			p.rise(v, p.rate*1.3)
		}
	case p.rate < p.bad*below*0.999:
		if p.good >= steps && v-p.since >= settle {
			next := (p.rate + p.bad*below) / 2
			if next > p.bad*below*0.98 {
				next = p.bad * below
			}
			p.rise(v, next)
		}
	case p.good >= calm && p.debt == 0 && v-p.since >= hold:
		if p.rate > p.bad {
			// It is not too much any more, or what had been saved is not used up.
			p.bad, p.fails = p.rate/below, p.fails/2
			p.debt = calm * float64(int64(1)<<p.fails)
			p.step = min(1.5*p.step, 0.5)
		}
		p.trying = true
		p.rise(v, p.rate*(1+p.step))
	}
}

func (p *Pace) rise(v int64, rate float64) {
	p.rate = min(rate, fastest)
	p.good, p.since = 0, v
}

// when is When, as far as the pace knows by itself.
func (p *Pace) when(now time.Time, n int64) (time.Time, bool) {
	if n <= 0 {
		return now, true
	}
	if n > most {
		return now, false
	}
	v := p.at(now)
	if v < p.until {
		return p.clock.time(now, p.until), true
	}
	if p.refused {
		if p.probeAt > 0 && v-p.probeAt < patience {
			return limit.Unknown, true
		}
		return now, true
	}
	return p.clock.time(now, p.free), true
}

// Patience is queue.Impatient's: when another may go though a probe is not answered.
func (p *Pace) Patience(now time.Time) time.Time {
	v := p.at(now)
	if !p.refused || p.probeAt == 0 {
		return time.Time{}
	}
	return p.clock.time(now, max(p.probeAt+patience, v))
}

// Take is limit.Meter's.
func (p *Pace) Take(now time.Time, n int64) {
	v := p.at(now)
	if n = amount(n); n == 0 {
		return
	}
	if p.share(now) {
		p.sharing.budget.Take(now, n)
	}
	p.flying++
	p.used, p.last = v, v
	p.free = min(max(p.free, v-latest), edge) + p.gap(n)
	if p.refused {
		p.probeAt = max(v, 1)
	}
}

// Give is limit.Meter's.
func (p *Pace) Give(now, taken time.Time, n int64) {
	p.at(now)
	if n = amount(n); n == 0 {
		return
	}
	if p.sharing.budget != nil {
		p.sharing.budget.Give(now, taken, n)
	}
	p.flying = max(p.flying-1, 0)
	at := p.clock.on(taken)
	if at >= p.last {
		p.free = max(p.free-p.gap(n), p.last-latest)
	}
	if at == p.probeAt {
		p.probeAt = 0
	}
}

// Postpone is limit.Meter's.
func (p *Pace) Postpone(now, taken time.Time, n int64) {
	v := p.at(now)
	if n > 0 && p.probeAt > 0 && p.clock.on(taken) == p.probeAt {
		p.probeAt = v
	}
}

// Settle is limit.Meter's, and does nothing: requests are counted.
func (p *Pace) Settle(_, _ time.Time, _, _ int64) {}

// Done is limit.Meter's. Refused says what was refused.
func (p *Pace) Done(now, taken time.Time, n int64, o limit.Outcome) {
	v := p.at(now)
	if n = amount(n); n == 0 {
		return
	}
	p.flying = max(p.flying-1, 0)
	p.used = v
	at := p.clock.on(taken)
	if at == p.probeAt {
		p.probeAt = 0
	}
	if o != limit.Success {
		return
	}
	if at < p.cutAt {
		p.passed += float64(p.weight())
		return
	}
	if p.refused {
		p.refused, p.pause = false, second
		p.sharing.waits = false
		p.since = v
	}
	p.succeeded(v)
}

// Left is limit.Meter's: what a second brings when the way is free.
func (p *Pace) Left(now time.Time) int64 {
	v := p.at(now)
	switch {
	case v < p.until || !p.refused && v < p.free:
		return 0
	case p.refused:
		if p.probeAt > 0 && v-p.probeAt < patience {
			return 0
		}
		return 1
	}
	return max(int64(p.rate), 1)
}

// Idle is limit.Meter's. What was found out is kept for a day.
func (p *Pace) Idle(now time.Time) bool {
	v := p.at(now)
	return p.flying == 0 && v >= p.until && v-p.used >= unused
}

type storedPace struct {
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

var errPace = errors.New("the state of a pace is damaged")

// State is limit.Meter's.
func (p *Pace) State() []byte {
	b, err := json.Marshal(storedPace{
		Version: savedVersion, Now: p.clock.last, Rate: p.rate, Bad: p.bad, Debt: p.debt, Fails: p.fails,
		Until: p.until, Used: p.used, Refused: p.refused,
	})
	if err != nil {
		return nil
	}
	return b
}

// Restore is limit.Meter's.
func (p *Pace) Restore(now time.Time, state []byte) error {
	var s storedPace
	if json.Unmarshal(state, &s) != nil || s.Version != savedVersion ||
		!(s.Rate >= slowest && s.Rate <= fastest) || !(s.Bad >= 0 && s.Bad <= 2*fastest) ||
		!(s.Debt >= 0 && s.Debt <= price*calm) || s.Fails < 0 || s.Fails > 16 ||
		s.Now < 0 || s.Now > edge || s.Used < 0 || s.Used > s.Now || s.Until < 0 || s.Until > min(s.Now+2*credible, edge) {
		return errPace
	}
	v := p.at(now)
	by := min(v-s.Now, 0)
	p.rate, p.bad, p.debt, p.fails, p.refused = s.Rate, s.Bad, s.Debt, s.Fails, s.Refused
	p.until = max(s.Until+by, 0)
	p.used = max(s.Used+by, 0)
	p.free = plus(v, 1/p.rate)
	return nil
}
