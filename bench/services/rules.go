package main

import (
	"math"
	"time"
)

// rule is one limit of a simulated service, for one token. It shares no code with abide.
// A request arrives at a time; times never go back.
type rule interface {
	// next is when a request would be accepted that arrives at now or later, if no other
	// arrives before.
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

func (w *rolling) expire(now time.Time) {
	for len(w.times) > 0 && !now.Before(w.times[0].Add(w.length)) {
		w.times = w.times[1:]
	}
}

func (w *rolling) next(now time.Time, _ float64) time.Time {
	w.expire(now)
	if float64(len(w.times)) < w.amount {
		return now
	}
	return w.times[len(w.times)-int(w.amount)].Add(w.length)
}

func (w *rolling) take(now time.Time, _ float64) {
	w.expire(now)
	w.times = append(w.times, now)
}

func (w *rolling) refuse(time.Time) {}

// bucket allows a burst, and units that come back continuously.
type bucket struct {
	size, rate float64 // units, and units a second
	counts     bool    // refused requests cost as much as others

	level float64
	at    time.Time
}

func (b *bucket) fill(now time.Time) {
	if b.at.IsZero() {
		b.level = b.size
	} else {
		b.level = min(b.size, b.level+b.rate*now.Sub(b.at).Seconds())
	}
	b.at = now
}

func (b *bucket) next(now time.Time, cost float64) time.Time {
	b.fill(now)
	if b.level >= cost-1e-9 {
		return now
	}
	return now.Add(time.Duration(math.Ceil((cost - b.level) / b.rate * 1e9)))
}

func (b *bucket) take(now time.Time, cost float64) {
	b.fill(now)
	b.level -= cost
}

func (b *bucket) refuse(now time.Time) {
	if b.counts {
		b.fill(now)
		b.level = max(b.level-1, -b.size)
	}
}

// full is when nothing would be used.
func (b *bucket) full(now time.Time) time.Time {
	b.fill(now)
	return now.Add(time.Duration((b.size - b.level) / b.rate * 1e9))
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

// state returns what a rule announces: its amount, how many units are left, and when all of
// them are back. Of a rolling window this is when the next unit comes back.
func state(r rule, now time.Time) (amount, left int, back time.Time) {
	switch r := r.(type) {
	case *rolling:
		if r.expire(now); len(r.times) == 0 {
			return int(r.amount), int(r.amount), now
		}
		return int(r.amount), int(r.amount) - len(r.times), r.times[0].Add(r.length)
	case *bucket:
		full := r.full(now)
		return int(r.size), int(r.level + 1e-9), full
	case *window:
		return int(r.amount), int(r.left(now)), r.end()
	case *counted:
		return state(r.rule, now)
	}
	panic("no such rule")
}
