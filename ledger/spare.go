package ledger

import (
	"time"

	"github.com/abide-proxy/abide/learn"
)

// Spare tells whether forgetting the ledger costs only what the next answer says again:
// a new ledger lets one request go alone, and of this one as much is left. What only the
// ledger itself has counted stays: no answer would say it. It is for when there are very
// many.
func (l *Ledger) Spare(now time.Time) bool {
	v := l.clock.at(now)
	l.look(v)
	switch {
	case l.flights.busy > 0 || v < l.until:
		return false
	case !l.heard:
		return true
	case v-l.heardAt < partly:
		return false
	case l.free(v) || l.probing || l.options.Unit == learn.Concurrent:
		return true
	}
	if l.spend() < l.cost.each {
		return false
	}
	said := l.counts && l.missing == 0
	return said || l.limit <= 0 || l.level >= l.limit && (!l.spread || l.trail.sum == 0) ||
		v-l.heardAt > max(2*l.window.period, hour)
}

// Spare is as Ledger's: the rate of what nobody has used for a while.
func (p *Pace) Spare(now time.Time) bool {
	v := p.at(now)
	return p.flying == 0 && v >= p.until && v-p.used >= remembered
}
