package ledger

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Status is a ledger's state for operators.
type Status struct {
	Limit, Remaining int64         // -1: not known
	Reset            time.Time     // zero: not known
	Window           time.Duration // 0: not known
	State            string        // "unknown", "probing", "open" or "spent"
	Own, Foreign     int64         // units recently used by this process, and by other clients
}

// Status returns what is shown of the ledger.
func (l *Ledger) Status(now time.Time) Status {
	v := l.clock.At(now)
	l.advance(v)
	s := Status{
		Limit: -1, Remaining: -1, Window: time.Duration(l.window.period),
		State: "open", Own: l.usage.own + l.usage.ownBefore, Foreign: l.usage.foreign + l.usage.foreignBefore,
	}
	if l.limit > 0 {
		s.Limit = whole(l.limit)
	}
	if l.options.Unit == learn.Concurrent {
		if l.limit > 0 {
			s.Remaining = max(s.Limit-l.flights.busy, 0)
		}
	} else if level := l.spend() + l.reserve(); l.announced.ever && !math.IsInf(level, 0) {
		s.Remaining = max(whole(level), 0)
	}
	if l.kind < refilling && l.window.end() > v {
		s.Reset = l.clock.Time(now, max(l.window.end(), l.refusals.until))
	}
	switch {
	case !l.announced.ever:
		s.State = "unknown"
	case v < l.refusals.until:
		s.State = "spent"
		s.Remaining = min(s.Remaining, 0)
		if s.Reset.IsZero() {
			s.Reset = l.clock.Time(now, l.refusals.until)
		}
	case l.announced.free(v, l.window.period):
	case l.probe.active:
		s.State = "probing"
	case l.Left(now) == 0 && (l.options.Unit == learn.Concurrent || l.spend() < l.cost.each):
		s.State = "spent"
		if s.Reset.IsZero() && l.options.Unit != learn.Concurrent {
			s.Reset = l.clock.Time(now, l.enough(v, l.cost.each))
		}
	}
	return s
}
