package queue

import (
	"time"

	"github.com/abide-proxy/abide/status"
)

// estimate returns the time at which n more units will have passed, one after the other. The zero time is
// not known.
func (r *resource) estimate(now time.Time, n int64) time.Time {
	if r.cooldown.awaitsAnswer(now) {
		return time.Time{}
	}
	at := status.Later(r.cooldown.until, now)
	p := r.measure(now)
	if r.meter == nil || n <= 0 || p.whole == 0 && r.fresh != nil {
		return at
	}
	first := min(n, p.whole)
	if r.fresh == nil {
		first = n // only the meter knows, as far as it does
	}
	t, ok := r.meter.When(now, first)
	if ok && r.remote != nil && n > first && t.Sub(now) > far || ok && r.asking(now, t, first) {
		t = now // nobody knows, but what comes after the first takes its time
	}
	if !ok || t.Sub(now) > far || n > first && p.each == 0 {
		return time.Time{}
	}
	at = status.Later(t, at)
	behind := time.Duration(n-first) * p.each
	if n > first && (behind/p.each != time.Duration(n-first) || behind > far) {
		behind = far
	}
	return at.Add(behind)
}

// neverFits refuses needs of which each alternative is larger than a limit.
func neverFits(now time.Time, needs [][]need) *Refusal {
	var refusal *Refusal
	for _, alternative := range needs {
		res := tooSmall(now, alternative)
		if res == nil {
			return nil
		}
		refusal = &Refusal{Reason: Never, Limit: res.name}
	}
	return refusal
}

// tooSmall is the resource whose limit is smaller than what is needed, or nil.
func tooSmall(now time.Time, needs []need) *resource {
	for _, n := range needs {
		if n.resource.meter == nil || n.n <= 0 {
			continue
		}
		if _, fits := n.resource.meter.When(now, n.n); !fits && n.resource.measure(now).whole < n.n {
			return n.resource
		}
	}
	return nil
}

// estimate refuses a hold that could never go, or that by all that is known would
// not go before its deadline.
func (all *clients) estimate(now time.Time, h *hold) *Refusal {
	h.clampPriority()
	soonest := neverFits(now, h.needs)
	if soonest != nil {
		return soonest
	}
	if refusal := exhausted(now, h); refusal != nil {
		return refusal
	}
	for _, needs := range h.needs {
		if tooSmall(now, needs) != nil {
			continue
		}
		res, at := all.estimateOne(now, h, needs)
		if res == nil || h.deadline.IsZero() || !at.After(h.deadline) {
			return nil
		}
		if soonest == nil || at.Before(soonest.RetryAt) {
			soonest = &Refusal{Reason: res.tooLong(now), Limit: res.label(now), RetryAt: at}
		}
	}
	return soonest
}

// estimateOne returns the time at which a hold that is not in the queue yet would go by one
// alternative, and which resource keeps it until then.
func (all *clients) estimateOne(now time.Time, h *hold, needs []need) (keeps *resource, at time.Time) {
	at = now
	if h.deadline.IsZero() {
		return nil, at
	}
	if h.deadline.Before(now.Add(leastAnswer)) {
		if _, asks := missing(now, needs); asks {
			return nil, at // it is known in time
		}
	}
	for _, n := range needs {
		res := n.resource
		ahead := int64(0)
		for p := range h.priority + 1 {
			ahead += res.wanted(p)
		}
		t := res.estimate(now, ahead+n.n)
		if t.After(h.deadline) && ahead > 0 {
			t = res.estimate(now, int64(float64(ahead)*all.fairShare(h))+n.n)
		}
		if t.IsZero() { // not before it could alone
			if alone := res.when(now, n.n); alone.Sub(now) <= far && !res.asking(now, alone, n.n) {
				t = alone
			}
		}
		if t.After(at) {
			keeps, at = res, t
		}
	}
	return keeps, at
}
