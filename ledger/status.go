package ledger

import (
	"math"
	"time"

	"github.com/abide-proxy/abide/learn"
)

// Status is what there is to tell about a ledger.
type Status struct {
	Limit, Remaining int64         // -1: not known
	Reset            time.Time     // zero: not known
	Window           time.Duration // 0: not known
	State            string        // "unknown", "probing", "open" or "spent"
	Kind             string        // "unknown", "fixed", "refilling", "sliding" or "concurrent"
	Own, Foreign     int64         // units used of late, by us and by others
}

// Status tells how it stands.
func (l *Ledger) Status(now time.Time) Status {
	v := l.clock.at(now)
	l.look(v)
	s := Status{
		Limit: -1, Remaining: -1, Window: time.Duration(l.window.period),
		State: "open", Kind: kinds[l.kind], Own: l.own + l.ownBefore, Foreign: l.foreign + l.foreignBefore,
	}
	if l.limit > 0 {
		s.Limit = whole(l.limit)
	}
	if l.options.Unit == learn.Concurrent {
		s.Kind = "concurrent"
		if l.limit > 0 {
			s.Remaining = max(s.Limit-l.flights.busy, 0)
		}
	} else if level := l.spend() + l.reserve(); l.heard && !math.IsInf(level, 0) {
		s.Remaining = max(whole(level), 0)
	}
	if l.kind < refilling && l.window.end() > v {
		s.Reset = l.clock.time(now, max(l.window.end(), l.until))
	}
	switch {
	case !l.heard:
		s.State = "unknown"
	case v < l.until:
		s.State = "spent"
		s.Remaining = min(s.Remaining, 0)
		if s.Reset.IsZero() {
			s.Reset = l.clock.time(now, l.until)
		}
	case l.free(v):
	case l.probing:
		s.State = "probing"
	case l.Left(now) == 0 && (l.options.Unit == learn.Concurrent || l.spend() < l.cost.each):
		s.State = "spent"
		if s.Reset.IsZero() && l.options.Unit != learn.Concurrent {
			s.Reset = l.clock.time(now, l.enough(v, l.cost.each))
		}
	}
	return s
}
