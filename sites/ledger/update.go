package ledger

import (
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Answer is a response, as far as it is about one limit.
type Answer struct {
	Sent   time.Time // when its request was let go: the time of Take
	Units  int64     // what it took of this limit; 0 is nothing, which nobody expected
	Beside int64     // requests in flight with it, of which none has taken of this limit either

	Limit   learn.Limit // the zero value is no word on it
	Denied  bool        // it was refused, so the server may not have counted it
	Refused bool        // it was refused because of this limit
	RetryAt time.Time   // of a refusal; zero is not said
	Named   bool        // the server named RetryAt; otherwise it follows from the announced limit
}

// Surprise is the difference between a response and the ledger's expectation.
type Surprise struct {
	Foreign int64 // units that somebody else has used since the answer before
	Flying  int64 // requests in flight, after an answer that does not announce the limit
	Higher  bool  // more is left, inside a window, than there was: two counters are taken for one

	// Until is the time of the next request, after a refusal. It may be earlier than
	// Answer.RetryAt: a bucket that is full at that time has a unit long before.
	Until time.Time
}

// Update takes what a response announces, when its headers have arrived.
func (l *Ledger) Update(now time.Time, answer Answer) Surprise {
	a := &l.allowance
	v, sent := l.clock.At(now), l.clock.On(answer.Sent)
	sent = min(sent, v)
	l.advance(v)
	n := amount(answer.Units)
	units := a.flights.answer(v, sent, n)
	a.finished(v, units)
	if answer.Denied || answer.Refused {
		a.uncounted += units
	}
	h, said := l.read(v, v-sent, &answer.Limit)
	if !said && !answer.Refused {
		l.unannounced(v, sent, units)
		return Surprise{Flying: a.flights.unanswered()}
	}
	if said {
		l.announced.rare = l.announced.rare || l.announced.missing > fewMissing
		l.announced.at, l.announced.missing, l.probe.inRow = v, 0, 0
		if l.announced.unlimited = h.limit == 0 && !answer.Refused; l.announced.unlimited {
			l.start(v)
			l.probe.active = false
			return Surprise{}
		}
	}
	if n == 0 && l.announced.ever && !answer.Refused && a.kind < refilling && a.window.place(&h) == same {
		a.pay(1) // the request was not expected to be under this limit
	}
	var news Surprise
	if answer.Refused {
		l.refuse(v, sent, units, &answer, &h)
		news.Until = l.clock.Time(now, l.refusals.until)
	} else {
		news = l.served(&reading{now: v, sent: sent, own: units, beside: answer.Beside, denied: answer.Denied, said: h})
	}
	a.level = min(max(a.level, -float64(maxAmount)), float64(maxAmount))
	a.refill.rate = min(a.refill.rate, float64(maxAmount))
	return news
}

// start begins the state with the first announcement.
func (l *Ledger) start(v int64) {
	a := &l.allowance
	if !l.announced.ever {
		l.announced.ever, a.levelAt, a.increasedAt, a.window.opened = true, v, v, v
	}
}

// served handles a response that is no refusal.
func (l *Ledger) served(r *reading) Surprise {
	a := &l.allowance
	first := !l.announced.ever
	if r.sent >= l.refusals.at {
		l.refusals.inRow = 0
	}
	a.resize(&r.said)
	l.start(r.now)
	r.bounds = a.bounds(r)
	r.said.renewed = a.renewed(r)
	r.probe = l.probe.active && r.sent >= l.probe.from
	r.probing = l.probe.active && !r.probe
	if l.options.Unit == learn.Concurrent {
		l.probe.active = r.probing
		return Surprise{}
	}
	if l.announced.restored {
		l.announced.restored = false
		if r.bounds.known && a.level > r.bounds.high {
			a.level = r.bounds.high // used by this process after its state was stored
		}
	}
	a.infer(r, first)
	defer func() {
		switch {
		case !l.sharing.used():
			a.inferVaryingCost(r)
		case a.unit == learn.Requests && a.kind < refilling: // what others use looks like a cost
			a.cost = cost{each: 1}
		}
		l.planProbe(r)
	}()
	if first || r.probe {
		l.probe.active, l.probe.sent = false, 0
	}
	switch {
	case first:
		a.begin(r)
		return Surprise{}
	case a.kind >= refilling:
		return a.updateRefilling(r)
	case r.said.reset == 0 && a.window.period == 0:
		return a.updateByLeft(r)
	}
	return a.updateFixed(r)
}

// planProbe sets the next probe to the announced time of the next unit, if nothing is left.
func (l *Ledger) planProbe(r *reading) {
	a := &l.allowance
	if a.spend() >= a.cost.each {
		a.backoff = second
		return
	}
	if r.said.next > 0 && r.said.left >= 0 && r.said.left < a.cost.each {
		l.probe.tryAt = max(r.said.next, r.now+second/100)
	}
}

// refuse handles a refusal because of this limit.
func (l *Ledger) refuse(v, sent, units int64, answer *Answer, h *announcement) {
	a, w := &l.allowance, &l.allowance.window
	a.resize(h)
	l.start(v)
	late := l.refusals.at > 0 && sent < l.refusals.at // sent before the last refusal was known
	old := sent < w.opened && (h.reset == 0 || w.place(h) == older)
	var at int64
	refills := !answer.Named && a.seemsToRefill()
	if !answer.RetryAt.IsZero() && !refills {
		at = l.clock.On(answer.RetryAt)
		if at-v > maxAhead {
			at = v + unbelievableHold
		}
		at = max(at, v+second)
	}
	if old && at <= v+second {
		return // the refusal belongs to a window that has ended
	}
	early := w.place(h) != newer && (w.reset == 0 || sent >= w.end())
	if h.reset > 0 && !old && a.kind < refilling && !refills {
		end := h.certainEnd
		if w.place(h) != older {
			if w.adopt(v, *h); early {
				w.over = end
			}
			end = w.over
		}
		if at == 0 && end > v {
			at = max(end+w.serverDelay, v+second)
		}
	}
	if at == 0 && refills && h.next > 0 {
		at = max(h.next, v+second)
	}
	if !late || at == 0 && l.refusals.until <= v {
		l.surprise(v, sent, early)
		l.refusals.inRow = min(l.refusals.inRow+1, 16)
		l.refusals.at = v
	}
	if at == 0 {
		at = v + min(a.refill.pause(refills, a.cost.each)<<max(l.refusals.inRow-1, 0), maxProbePause*second)
	}
	l.refusals.until = max(l.refusals.until, at)
	a.level = min(a.level, 0)
	w.lowestLeft, w.lowestLeftAt = 0, v
	if !l.probe.active || sent >= l.probe.from {
		l.probe.start(v)
	}
	l.probe.tryAt = 0
}

// surprise handles a refusal while units seemed to be left. early says that the window seemed to be over when the
// request was sent: otherwise others may have taken the units, and nothing is said against its end.
func (l *Ledger) surprise(v, sent int64, early bool) {
	a := &l.allowance
	if early {
		a.phase.restart()
	}
	if a.shared && l.sharing.lasted(v, a.window.period) {
		a.usage.foreignAt = max(v, 1) // although the fleet's budget had units left
	}
	if early && a.kind < refilling && a.window.wholeInRow >= trustedWindows && sent-a.window.opened < 5*second {
		a.window.delay()
	}
	a.window.wholeInRow = 0
	if a.kind >= refilling && !a.refill.announced {
		a.refill.rate *= 0.9
		a.refill.byCount, a.refill.starts = a.refill.rate, refillStarts{}
	}
}
