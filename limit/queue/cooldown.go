package queue

import (
	"time"
)

// beginCooldown blocks the resource until a time, and begins a slow start after that. It
// changes nothing and returns false if the resource cools for as long already. grant is the
// number of the grant that the site refused; 0: not known.
func (r *resource) beginCooldown(until time.Time, why string, grant uint64) bool {
	if !until.After(r.coolUntil) {
		return false
	}
	row := r.cooldownsInRow(grant)
	r.coolUntil, r.coolWhy = until, why
	r.beginSlowStart(until, why, r.agenda.grants)
	r.slowStart.cooldowns = row
	r.markDirty()
	return true
}

// endCooldown ends a cooldown and its slow start.
func (r *resource) endCooldown() {
	r.coolUntil, r.coolWhy, r.slowStart = time.Time{}, "", nil
	r.markDirty()
}
