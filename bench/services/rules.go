package main

import (
	"math"
	"time"
)

// rule is one limit of a simulated service, for one token. It shares no code with abide.
// A request arrives at a time; times never go back.
type rule interface {
	// next is when a request would be accepted that arrives at now or later, if no other
	// arrives before. It changes nothing: a service with several rules asks for later times.
	next(now time.Time, cost float64) time.Time
	// take counts a request that is accepted.
	take(now time.Time, cost float64)
	// refuse counts a request that is refused.
	refuse(now time.Time)
}

// window allows an amount in each window. A window begins with its first request, or is
// aligned to the clock.
type window struct {
	amount  float64
	length  time.Duration
	aligned bool
	phase   time.Duration // of aligned windows

	start time.Time
	used  float64
}

func (w *window) roll(now time.Time) {
	switch {
	case w.aligned:
		if start := now.Add(-w.phase).Truncate(w.length).Add(w.phase); start.After(w.start) {
			w.start, w.used = start, 0
		}
	case w.start.IsZero() || !now.Before(w.start.Add(w.length)):
		w.start, w.used = now, 0
	}
}

func (w *window) end() time.Time { return w.start.Add(w.length) }

func (w *window) next(now time.Time, cost float64) time.Time {
	if w.start.IsZero() || !now.Before(w.end()) || w.used+cost <= w.amount {
		return now
	}
	return w.end()
}

func (w *window) take(now time.Time, cost float64) {
	w.roll(now)
	w.used += cost
}

func (w *window) refuse(time.Time) {}

// left is what is left of the window.
func (w *window) left(now time.Time) float64 {
	if !w.start.IsZero() && now.Before(w.end()) {
		return w.amount - w.used
	}
	return w.amount
}

// rolling allows an amount in any time of a length.
type rolling struct {
	amount float64
	length time.Duration
	times  []time.Time
}

// counted returns the times that count at a time.
func (w *rolling) counted(now time.Time) []time.Time {
	times := w.times
	for len(times) > 0 && !now.Before(times[0].Add(w.length)) {
		times = times[1:]
	}
	return times
}

func (w *rolling) next(now time.Time, _ float64) time.Time {
	times := w.counted(now)
	if float64(len(times)) < w.amount {
		return now
	}
	return times[len(times)-int(w.amount)].Add(w.length)
}

func (w *rolling) take(now time.Time, _ float64) {
	w.times = append(w.counted(now), now)
}

func (w *rolling) refuse(time.Time) {}

// bucket allows a burst, and units that come back continuously.
type bucket struct {
	size, rate float64 // units, and units a second
	counts     bool    // refused requests cost as much as others

	level float64
	at    time.Time
}

// left is what is left at a time.
func (b *bucket) left(now time.Time) float64 {
	if b.at.IsZero() {
		return b.size
	}
	return min(b.size, b.level+b.rate*now.Sub(b.at).Seconds())
}

func (b *bucket) next(now time.Time, cost float64) time.Time {
	left := b.left(now)
	if left >= cost-1e-9 {
		return now
	}
	return now.Add(time.Duration(math.Ceil((cost - left) / b.rate * 1e9)))
}

func (b *bucket) take(now time.Time, cost float64) {
	b.level, b.at = b.left(now)-cost, now
}

func (b *bucket) refuse(now time.Time) {
	if b.counts {
		b.level, b.at = max(b.left(now)-1, -b.size), now
	}
}

// full is when nothing would be used.
func (b *bucket) full(now time.Time) time.Time {
	return now.Add(time.Duration((b.size - b.left(now)) / b.rate * 1e9))
}

// penalty allows what another rule allows, and refuses everything for some time after an
// excess. If it extends, each refused request begins the time again.
type penalty struct {
	rule
	length  time.Duration
	extends bool
	until   time.Time
}

func (p *penalty) next(now time.Time, cost float64) time.Time {
	if now.Before(p.until) {
		return p.until
	}
	return p.rule.next(now, cost)
}

func (p *penalty) refuse(now time.Time) {
	if !now.Before(p.until) || p.extends {
		p.until = now.Add(p.length)
	}
	p.rule.refuse(now)
}

// counted counts requests, whatever they cost.
type counted struct{ rule }

func (c *counted) next(now time.Time, _ float64) time.Time { return c.rule.next(now, 1) }
func (c *counted) take(now time.Time, _ float64)           { c.rule.take(now, 1) }

// changing is one rule until a time, and another one from then on.
type changing struct {
	before, after rule
	at            time.Time
}

func (c *changing) now(now time.Time) rule {
	if now.Before(c.at) {
		return c.before
	}
	return c.after
}

func (c *changing) next(now time.Time, cost float64) time.Time {
	if now.Before(c.at) {
		if at := c.before.next(now, cost); at.Before(c.at) {
			return at
		}
		now = c.at
	}
	return c.after.next(now, cost)
}

func (c *changing) take(now time.Time, cost float64) { c.now(now).take(now, cost) }
func (c *changing) refuse(now time.Time)             { c.now(now).refuse(now) }

// foreign is a rule of which another user takes a unit in each time of a length, as far as it may.
type foreign struct {
	rule
	every time.Duration
	last  time.Time
}

// elapse has the other user send its requests until now.
func (f *foreign) elapse(now time.Time) {
	if f.last.IsZero() {
		f.last = now
	}
	for ; !f.last.Add(f.every).After(now); f.last = f.last.Add(f.every) {
		if at := f.last.Add(f.every); !f.rule.next(at, 1).After(at) {
			f.rule.take(at, 1)
		}
	}
}

// state returns what a rule announces: its amount, how many units are left, and when all of
// them are back. Of a rolling window this is when the next unit comes back.
func state(r rule, now time.Time) (amount, left int, back time.Time) {
	switch r := r.(type) {
	case *rolling:
		times := r.counted(now)
		if len(times) == 0 {
			return int(r.amount), int(r.amount), now
		}
		return int(r.amount), int(r.amount) - len(times), times[0].Add(r.length)
	case *bucket:
		return int(r.size), int(r.left(now) + 1e-9), r.full(now)
	case *window:
		return int(r.amount), int(r.left(now)), r.end()
	case *counted:
		return state(r.rule, now)
	}
	panic("no such rule")
}
