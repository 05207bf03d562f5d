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

// SpareAt is when the ledger is spare at the latest, if nothing happens before: when its
// window is over, or what was said of it does not count any more.
func (l *Ledger) SpareAt(now time.Time) time.Time {
	v := l.clock.at(now)
	at := max(l.until, l.window.end(), l.heardAt+max(2*l.window.period, hour))
	return l.clock.time(now, min(at, v+credible))
}

// SpareAt is as Ledger's.
func (p *Pace) SpareAt(now time.Time) time.Time {
	v := p.at(now)
	return p.clock.time(now, min(max(p.until, p.used+remembered), v+credible))
}
