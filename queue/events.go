package queue

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Cool keeps a slot from granting anything before until, and lets it begin with
// one request then. A cooldown is never shortened by another; Warm ends it.
func (s *Scheduler) Cool(slot *Slot, until time.Time, why string) { s.cool(slot, until, why, nil) }

// cool is Cool for what a hold has met, nil if nobody knows which.
// It tells whether the slot cools for longer by it.
func (s *Scheduler) cool(slot *Slot, until time.Time, why string, h *Hold) bool {
	if !until.After(slot.cool) {
		return false
	}
	row := slot.row(h)
	slot.cool, slot.coolWhy = until, why
	slot.climb(until, why)
	slot.ramp.row = row
	slot.stir()
	return true
}

// Warm ends a cooldown.
func (s *Scheduler) Warm(slot *Slot) {
	slot.cool, slot.coolWhy, slot.ramp = time.Time{}, "", nil
	slot.stir()
}

// Tell lets a slot's meter hear something, and tells whether there is one.
func (s *Scheduler) Tell(now time.Time, slot *Slot, tell func(now time.Time, m limit.Meter)) bool {
	if slot.meter == nil {
		return false
	}
	tell(now, slot.meter)
	slot.stir()
	return true
}

// Change gives a slot another meter, after a reload: one that limit.Move made of
// the slot's own, if moved, or a new one in which what the old one had spent
// becomes spent. Holds keep waiting.
func (s *Scheduler) Change(now time.Time, slot *Slot, m limit.Meter, fresh func() limit.Meter, moved bool) {
	if moved {
		slot.equip(now, m, fresh, false)
	} else {
		slot.change(now, m, fresh)
	}
	slot.stir()
}
