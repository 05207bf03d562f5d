package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Spare reports whether the next announcement would restore all that is lost with the
// ledger. A new ledger sends a probe, so at least one unit must be left. Counts that only
// the ledger has are not spare.
func (l *Ledger) Spare(now time.Time) bool {
	v := l.clock.At(now)
	l.advance(v)
	switch {
	case l.flights.busy > 0 || v < l.refusals.until:
		return false
	case !l.announced.ever:
		return true
	case v-l.announced.at < entityUnusedKept:
		return false
	case l.announced.free(v, l.window.period) || l.probe.active || l.options.Unit == learn.Concurrent:
		return true
	}
	if l.spend() < l.cost.each {
		return false
	}
	said := l.counts && l.announced.missing == 0
	return said || l.limit <= 0 || l.level >= l.limit && (!l.recent.on || l.recent.sum == 0) ||
		v-l.announced.at > max(2*l.window.period, hour)
}

// Spare reports whether the rate has not been used for a while.
func (p *HiddenRate) Spare(now time.Time) bool {
	v := p.at(now)
	return len(p.atOnce.flying) == 0 && v >= p.stop.until && v-p.lastUsed >= p.kept(unusedKept)
}

// SpareAt returns when the ledger is spare at the latest, if it is not used before: at the
// end of its window, or when its announcements have expired.
func (l *Ledger) SpareAt(now time.Time) time.Time {
	v := l.clock.At(now)
	at := max(l.refusals.until, l.window.end(), l.announced.at+max(2*l.window.period, hour))
	return l.clock.Time(now, min(at, v+maxAhead))
}

// SpareAt returns when the rate is spare, if it is not used before.
func (p *HiddenRate) SpareAt(now time.Time) time.Time {
	v := p.at(now)
	return p.clock.Time(now, min(max(p.stop.until, p.lastUsed+p.kept(unusedKept)), v+maxAhead))
}
