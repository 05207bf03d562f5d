package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Answer is what a response says of one limit.
type Answer struct {
	Sent  time.Time // when its request was let go: the time of Take
	Units int64     // what it took of this limit; 0 is nothing, which nobody expected

	Limit   learn.Limit // the zero value is no word on it
	Refused bool        // it was refused because of this limit
	RetryAt time.Time   // of a refusal; zero is not said
	Named   bool        // the server named RetryAt; otherwise it follows from the announced limit
}

// Surprise is how a response differs from what the ledger expected.
type Surprise struct {
	Foreign int64 // units that somebody else has used since the answer before
	Higher  bool  // more is left, inside a window, than there was: two counters are taken for one

	// Until is when the next request may go, after a refusal. It may be earlier than
	// Answer.RetryAt: a bucket that is full at that time has a unit long before.
	Until time.Time
}

// Update takes what a response announces, when its headers have arrived.
func (l *Ledger) Update(now time.Time, a Answer) Surprise {
	v, sent := l.clock.At(now), l.clock.On(a.Sent)
	sent = min(sent, v)
	l.advance(v)
	n := amount(a.Units)
	own := l.flights.answer(v, sent, n)
	l.finished(v, own)
	h, said := l.read(v, v-sent, &a.Limit)
	if !said && !a.Refused {
		l.unannounced(v, sent, own)
		return Surprise{}
	}
	if said {
		l.announced.at, l.announced.missing, l.probe.inRow = v, 0, 0
		if l.announced.unlimited = h.limit == 0 && !a.Refused; l.announced.unlimited {
			l.start(v)
			l.probe.active = false
			return Surprise{}
		}
	}
	if n == 0 && l.announced.ever && !a.Refused && l.kind < refilling && l.window.place(&h) == same {
		l.pay(1) // the request was not expected to be under this limit
	}
	var news Surprise
	if a.Refused {
		l.refuse(v, sent, own, &a, &h)
		news.Until = l.clock.Time(now, l.refusals.until)
	} else {
		news = l.served(&reading{now: v, sent: sent, own: own, announcement: h})
	}
	l.level = min(max(l.level, -float64(maxAmount)), float64(maxAmount))
	l.refill.rate = min(l.refill.rate, float64(maxAmount))
	return news
}

// start begins the state with the first announcement.
func (l *Ledger) start(v int64) {
	if !l.announced.ever {
		l.announced.ever, l.levelAt, l.increasedAt, l.window.opened = true, v, v, v
	}
}

// served handles a response that is no refusal.
func (l *Ledger) served(r *reading) Surprise {
	first := !l.announced.ever
	if r.sent >= l.refusals.at {
		l.refusals.inRow = 0
	}
	l.resize(&r.announcement)
	l.start(r.now)
	r.bounds = l.bounds(r.sent, r.own, &r.announcement)
	r.probe = l.probe.active && r.sent >= l.probe.from
	r.probing = l.probe.active && !r.probe
	if l.options.Unit == learn.Concurrent {
		l.probe.active = r.probing
		return Surprise{}
	}
	if l.announced.restored {
		l.announced.restored = false
		if r.known && l.level > r.high {
			l.level = r.high // used by this process after its state was stored
		}
	}
	l.infer(r, first)
	defer func() {
		if l.sharing.budget == nil {
			l.inferVaryingCost(r)
		}
		l.planProbe(r)
	}()
	if first || r.probe {
		l.probe.active, l.probe.sent = false, 0
	}
	switch {
	case first:
		l.begin(r)
		return Surprise{}
	case l.kind >= refilling:
		return l.updateRefilling(r)
	case r.reset == 0 && l.window.period == 0:
		return l.updateByLeft(r)
	}
	return l.updateFixed(r)
}

// planProbe sets the next probe to the announced time of the next unit, if nothing is left.
func (l *Ledger) planProbe(r *reading) {
	if l.spend() >= l.cost.each {
		l.backoff = second
		return
	}
	if r.next > 0 && r.left >= 0 && r.left < l.cost.each {
		l.probe.tryAt = max(r.next, r.now+second/100)
	}
}

// refuse handles a refusal because of this limit.
func (l *Ledger) refuse(v, sent, own int64, a *Answer, h *announcement) {
	l.uncounted += own
	l.resize(h)
	l.start(v)
	late := l.refusals.at > 0 && sent < l.refusals.at // sent before the last refusal was known
	old := sent < l.window.opened && (h.reset == 0 || l.window.place(h) == older)
	var at int64
	refills := !a.Named && l.seemsToRefill()
	if !a.RetryAt.IsZero() && !refills {
		at = l.clock.On(a.RetryAt)
		if at-v > maxAhead {
			at = v + unbelievableHold
		}
		at = max(at, v+second)
	}
	if old && at <= v+second {
		return // the refusal belongs to a window that has ended
	}
	if h.reset > 0 && !old && l.kind < refilling && !refills {
		if l.window.place(h) != older {
			l.window.adopt(v, *h)
		}
		if at == 0 && h.certainEnd > v {
			at = max(h.certainEnd+l.window.serverDelay, v+second)
		}
	}
	if at == 0 && refills && h.next > 0 {
		at = max(h.next, v+second)
	}
	if !late || at == 0 && l.refusals.until <= v {
		l.surprise(v, sent)
		l.refusals.inRow = min(l.refusals.inRow+1, 16)
		l.refusals.at = v
	}
	if at == 0 {
		at = v + min(l.refill.pause(refills, l.cost.each)<<max(l.refusals.inRow-1, 0), maxProbePause*second)
	}
	l.refusals.until = max(l.refusals.until, at)
	l.level = min(l.level, 0)
	l.window.lowestLeft, l.window.lowestLeftAt = 0, v
	if !l.probe.active || sent >= l.probe.from {
		l.probe.start(v)
	}
	l.probe.tryAt = 0
}

// surprise handles a refusal while units seemed to be left.
func (l *Ledger) surprise(v, sent int64) {
	l.phase.restart()
	if l.shared && l.sharing.lasted(v, l.window.period) {
		l.usage.foreignAt = max(v, 1) // although the fleet's budget had units left
	}
	if l.kind < refilling && l.window.wholeInRow >= trustedWindows && sent-l.window.opened < 5*second {
		l.window.delay()
	}
	l.window.wholeInRow = 0
	if l.kind >= refilling && !l.refill.announced {
		l.refill.rate *= 0.9
		l.refill.byCount, l.refill.starts = l.refill.rate, refillStarts{}
	}
}
