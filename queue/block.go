package queue

import "time"

// block is what keeps a hold from one of its alternatives.
type block struct {
	slot   *Slot
	at     time.Time
	behind bool // the slot has enough, but others come first
	refuse bool // nobody waits for it
	asking bool // it is not known yet whether it has enough
}

// lacking is the slot that has too little for longest, and after from.
func lacking(now, from time.Time, needs []Need) block {
	var b block
	for _, n := range needs {
		at := n.Slot.when(now, n.N)
		if at.After(from) && (b.slot == nil || at.After(b.at) || b.refuse && !n.Refuse && at.Equal(b.at)) {
			b = block{slot: n.Slot, at: at, refuse: n.Refuse, asking: n.Slot.asking(now, at, n.N)}
		}
	}
	return b
}

// spent tells whether nobody waits for what the slot lacks. What depends on an
// answer that is still to come, of the site or of what the meter asks, may be there
// at once.
func (b block) spent(now time.Time) bool {
	return b.refuse && !b.asking && (b.at.Sub(now) <= far || b.slot.flying == 0 && !b.slot.full(now))
}

// exhausted is the refusal of who would have to wait for it.
func (b block) exhausted(now time.Time) *Refusal {
	no := &Refusal{Reason: Exhausted, Limit: b.slot.title}
	if b.slot.away(now) {
		no.Reason = Away
		return no
	}
	if b.at.Sub(now) <= far {
		no.RetryAt = b.at
	}
	return no
}

// exhausted refuses a hold that is new or has come back, and would wait for limits
// that nobody waits for whatever alternative it takes. Who is before it does not
// matter.
func (s *Scheduler) exhausted(now time.Time, h *Hold) *Refusal {
	from := now
	if h.state == resting {
		from = h.later
	}
	var first block
	for _, needs := range h.Needs {
		b := lacking(now, from, needs)
		if b.slot == nil || !b.spent(now) {
			return nil
		}
		if first.slot == nil || b.at.Before(first.at) {
			first = b
		}
	}
	if first.slot == nil {
		return nil
	}
	return first.exhausted(now)
}
