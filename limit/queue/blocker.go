package queue

import "time"

// label names the resource, and why it blocks holds if the reason is not its amount.
func (r *resource) label(now time.Time) string {
	return Blocker{Limit: r.name, Why: r.why(now)}.String()
}

// blocker is what blocks a hold that waits or is delayed, and the resource, which is nil
// for a delayed hold.
func blocker(now time.Time, h *hold) (found Blocker, res *resource) {
	if h.state == stateDelayed {
		return Blocker{Limit: retryLimit, Until: h.later}, nil
	}
	asking := false
	for i, needs := range h.needs {
		var k Blocker
		var by *resource
		asks := false
		for _, n := range needs {
			at := n.resource.when(now, n.n)
			switch {
			case at.After(now) && (k.Limit == "" || k.Behind || at.After(k.Until)):
				k, by, asks = Blocker{Limit: n.resource.name, Until: at}, n.resource, n.resource.asking(now, at, n.n)
				k.Asking = asks && n.resource.asks(now, n.n)
				if n.resource.away(now) && !n.resource.coolUntil.After(now) {
					asks, k.Asking = true, true
				}
				if n.resource.coolUntil.Equal(at) || n.resource.awaitsAnswer(now) {
					k.Why = n.resource.why(now)
				}
			case k.Limit == "" && n.resource.waitlist != nil:
				k, by = Blocker{Limit: n.resource.name, Until: n.resource.wake, Behind: true}, n.resource
			}
		}
		if i == 0 || !k.Until.IsZero() && k.Until.Before(found.Until) {
			found, res, asking = k, by, asks
		}
	}
	if asking || found.Until.Sub(now) > far {
		found.Until = time.Time{}
	}
	return found, res
}

// titledBlocker is blocker with the title of the limit in place of the name of the
// resource.
func titledBlocker(now time.Time, h *hold) Blocker {
	k, res := blocker(now, h)
	if res != nil {
		k.Limit = res.title
	}
	return k
}

// missing is the resource that is known to have too little for the longest time; nil if
// there is none. asks tells whether a store is asked about others.
func missing(now time.Time, needs []need) (found *resource, until time.Time, asks bool) {
	for _, n := range needs {
		switch at := n.resource.when(now, n.n); {
		case !at.After(now), n.resource.unknown(now, n.n):
		case n.resource.asking(now, at, n.n):
			asks = true
		case found == nil || at.After(until):
			found, until = n.resource, at
		}
	}
	return found, until, asks
}

// unknown tells whether the resource blocks n units only because nothing is known of its
// limit.
func (r *resource) unknown(now time.Time, n int64) bool {
	m, ok := r.meter.(Unknowing)
	return ok && r.waitingBytes == 0 && !r.coolUntil.After(now) && !r.awaitsAnswer(now) && m.Unknown(now, n)
}

// asks tells whether a hold waits for nothing but the answer of a store.
func (h *hold) asks(now time.Time) bool {
	if h.state != stateWaiting {
		return false
	}
	for _, needs := range h.needs {
		if res, _, asks := missing(now, needs); res == nil && asks {
			return true
		}
	}
	return false
}

// refuseNow refuses a request that goes now or not at all, before it is queued, if each
// alternative lacks something that is known to be missing.
func refuseNow(now time.Time, h *hold) *Refusal {
	var soonest *Refusal
	for _, needs := range h.needs {
		res, at, _ := missing(now, needs)
		if res == nil {
			return nil
		}
		refusal := &Refusal{Reason: res.tooLong(now), Limit: res.label(now)}
		if refusal.Reason != Away && at.Sub(now) <= far {
			refusal.RetryAt = at
		}
		if soonest == nil || !refusal.RetryAt.IsZero() && (soonest.RetryAt.IsZero() || refusal.RetryAt.Before(soonest.RetryAt)) {
			soonest = refusal
		}
	}
	return soonest
}

// blockerOf is what blocks a hold that waits or is delayed.
func blockerOf(now time.Time, h *hold) Blocker {
	k, _ := blocker(now, h)
	return k
}
