package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	// wideOpen is how many may be in flight when a ramp is over.
	wideOpen = 1024
	// quiet is how long nothing has to happen at a slot for its ramp to be over.
	quiet = time.Minute
	// patience is how long a request is waited for that says whether the site
	// answers again. Then another may ask.
	patience = 15 * time.Second
)

// ramp is the way out of a cooldown. All that waited would go at once when it
// ends, to a site that may still refuse. So one request asks, and each success
// lets one more be in flight: twice as many for each round trip.
type ramp struct {
	after  string // who asked for the cooldown
	from   uint64 // what was granted up to this one was sent before it
	room   int    // how many may be in flight
	flying int    // how many are, of those granted since
	row    int    // how many cooldowns came before it without a success between
	went   time.Time
	still  time.Time // when it is over, if nothing happens until then
}

// climb begins a ramp, or begins it again.
func (s *Slot) climb(until time.Time, why string) {
	s.ramp = &ramp{after: why, from: s.s.grants, room: 1, went: until, still: until.Add(quiet)}
}

// row is how many cooldowns in a row came before the one that a hold asks for. One
// that was sent before the last cooldown only says again why that is there.
func (s *Slot) row(h *Hold) int {
	switch r := s.ramp; {
	case r == nil:
		return 0
	case h != nil && h.grant <= r.from:
		return max(r.row, 0)
	default:
		return r.row + 1
	}
}

// full tells whether the slot has to wait for an answer of its site.
func (s *Slot) full(now time.Time) bool {
	r := s.ramp
	return r != nil && r.flying >= r.room && now.Before(r.went.Add(patience))
}

// recovers tells whether the slot is on a ramp that means anything.
func (s *Slot) recovers(now time.Time) bool {
	r := s.ramp
	return r != nil && (r.flying > 0 || now.Before(r.still))
}

// recovered forgets a ramp that means nothing any more.
func (s *Slot) recovered(now time.Time) {
	if !s.recovers(now) {
		s.ramp = nil
	}
}

// depart counts a hold that was granted, and tells whether there is a ramp.
func (s *Slot) depart(now time.Time) bool {
	if s.ramp == nil {
		return false
	}
	if s.recovered(now); s.ramp == nil {
		return false
	}
	s.ramp.flying++
	s.ramp.went, s.ramp.still = now, now.Add(quiet)
	return true
}

// land hears how a hold that was granted on the ramp was answered.
func (s *Slot) land(now time.Time, h *Hold, success bool) {
	r := s.ramp
	if r == nil || h.grant <= r.from {
		return // it says how the site was before
	}
	r.flying--
	r.still = now.Add(quiet)
	if success {
		r.row = -1 // the next is the first again
		if r.room++; r.room > wideOpen {
			s.ramp = nil
		}
	}
	s.stir()
}

// Answered tells how a site has answered a granted request that is not over yet.
// Requests that wait for that news go the sooner; a refusal has to wait for
// Finish or Return, because the cooldown comes with it.
func (s *Scheduler) Answered(now time.Time, h *Hold, o limit.Outcome) {
	if h.state == granted && o != limit.Refused {
		s.landed(now, h, o == limit.Success)
	}
}

// landed tells all the ramps that a hold was granted on, once.
func (s *Scheduler) landed(now time.Time, h *Hold, success bool) {
	if !h.asks {
		return
	}
	h.asks = false
	for _, n := range h.Needs[h.choice] {
		n.Slot.land(now, h, success)
	}
}
