package forecast

import (
	"time"

	"github.com/abide-proxy/abide/limit"
)

// windowAt is the window that is open at a time; false: it has no edges.
func windowAt(now time.Time, spec limit.Spec) (opens, ends time.Time, ok bool) {
	if spec.Traits().Returns != limit.AtEdges {
		return opens, ends, false
	}
	if ends = endOf(now, spec); ends.IsZero() {
		return opens, ends, false
	}
	// The window before ends where this one begins.
	for at := ends.Add(-spec.Length() - 2*time.Hour); at.Before(ends); {
		next := endOf(at, spec)
		if next.IsZero() {
			break
		}
		if !next.Before(ends) {
			return at, ends, true
		}
		at = next
	}
	return opens, ends, false
}

// endOf is the end of the window that a time is in.
func endOf(at time.Time, spec limit.Spec) time.Time {
	spec.Amount = 1
	m, err := limit.New(spec)
	if err != nil {
		return time.Time{}
	}
	at = at.Round(0) // by the clock, for which these windows are
	m.Take(at, 1)
	end, ok := m.When(at, 1)
	if !ok || !end.After(at) {
		return time.Time{}
	}
	return end
}
