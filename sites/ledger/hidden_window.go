package ledger

import "cmp"

// hiddenWindow is the model of a hidden limit whose refusals name their end: so many requests
// in any time of a length. It learns the amount and the length from what passes between two
// ends. Whether the server's windows are rolling or fixed, no more is accepted than that.
type hiddenWindow struct {
	windowKnown
	recent recent // requests that were answered within the length

	opened   int64 // when the present window began at the earliest; 0: not known
	end      int64 // its end, as a refusal named it; 0: none was refused in it
	accepted int64 // requests of it

	before struct{ start, opened, accepted int64 } // of the window before
	late   bool                                    // requests of the window before count in the present one
	quick  bool                                    // the last window that was refused was full before half of it
	trial  trial                                   // whether more than the limit goes, evenly over a window
}

// windowKnown outlives a restart, as JSON: keep the keys.
type windowKnown struct {
	Limit  int64  `json:"limit,omitempty"` // requests in a window; 0: not known
	Length int64  `json:"length,omitempty"`
	Start  int64  `json:"start,omitempty"`  // first request of the present window; 0: none yet
	Taken  int64  `json:"taken,omitempty"`  // requests in it
	Least  int64  `json:"least,omitempty"`  // the length is more
	Step   int64  `json:"step,omitempty"`   // ends are named in such steps
	Clock  bool   `json:"clock,omitempty"`  // windows begin before their first request
	Held   int    `json:"held,omitempty"`   // windows in a row of which none was refused
	Trials uint   `json:"trials,omitempty"` // that were refused
	Since  uint64 `json:"since,omitempty"`  // requests accepted since the last trial
}

// trial is the state of the question whether the limit is a window at all. A server may
// instead punish requests that come too fast, with a wait that is always the same.
type trial uint8

const (
	untried trial = iota
	trying
	tried // it is a window
)

const (
	shorten         = 0.96 // part of a length down to which a shorter one is tried
	slowStartWindow = 8    // requests of the first windows that allow one more in flight
	trialFactor     = 3    // times the limit is sent in a trial
	// After so many times the limit of a window, or so many requests, were accepted there is another trial, and after
	// twice as many for each trial that was refused.
	windowsToTry, acceptedToTry = 3, 1000
)

// refused takes the refusal of a request that was sent at a time, and the named end of a window.
func (w *hiddenWindow) refused(v, sent, until int64) {
	w.recent.expire(v)
	soon := w.Held > 0 && 2*w.accepted < w.Limit && v-w.Start < w.Length/4
	w.Held, w.Step, w.end = 0, 0, until-(v-sent)
	if (until-v+second/50)%second <= second/50 { // some time has passed since the answer came
		w.Step = second
	}
	since := w.before.accepted + w.accepted
	rolling := w.accepted < w.Limit && w.trial == trying && w.accepted > 0 && 10*w.recent.sum >= 9*w.Limit && w.end-w.Step <= w.recent.free(v, w.recent.sum-1)+w.Length/16
	lasts := w.accepted == 0 || soon || w.trial == untried && 10*w.accepted < 9*w.Limit && 10*since >= 9*w.Limit && 9*since <= 10*w.Limit
	if w.Limit > 0 && w.before.start > 0 && lasts && !rolling {
		w.late, w.Least = true, w.Length
		w.measure(w.before.start, w.before.opened)
		return
	}
	w.late = w.late || rolling || w.accepted < w.Limit && v-w.Start < w.Length/2 && until-v < w.Length/4
	if w.trial == trying {
		w.late = w.late || w.accepted < w.Limit // what was sent before makes the difference
		w.trial, w.Since = tried, 0
		w.Trials = min(w.Trials+1, 10)
	}
}

// measure takes the named end of a window. Of the lengths that this leaves, the longest of whole seconds is believed.
func (w *hiddenWindow) measure(start, opened int64) {
	least, most := max(w.end-w.Step-start-w.Length/64, w.Least), w.end-start
	w.Clock = w.Clock || w.Length > 0 && least >= w.Length
	switch {
	case w.Clock && opened > 0:
		most = w.end - opened
	case w.Clock:
		most = max(most, w.Length)
	}
	if w.trial != untried && w.Length > 0 {
		least, most = min(least, 2*w.Length), min(most, 2*w.Length)
	}
	if w.Step > 0 {
		most = max(most-most%second, least-least%second+second)
	}
	if w.Least = least; w.Length == 0 || most < w.Length || least >= w.Length {
		w.Length = max(most, least)
		w.recent.begin(w.Length)
	}
}

// several reports whether the present window shows that there are several limits: it lasts longer than
// the one before, and fewer requests were accepted in it.
func (w *hiddenWindow) several() bool {
	return w.Limit > 0 && !w.late && 2*(w.end-w.Start) > 3*w.Length && w.accepted < w.Limit*9/10
}

// ended begins a window after a refusal, when its first request succeeds.
func (w *hiddenWindow) ended(taken, refused int64) {
	switch n := max(w.accepted, 1); {
	case w.late:
	case w.Limit > 0 && n >= w.Limit:
		w.Limit = n
		w.measure(w.Start, w.opened)
	case w.end > w.Start:
		if w.Limit == 0 {
			w.recent.begin(w.end - w.Start)
			w.recent.add(refused, n)
		}
		w.Clock = w.Clock || w.Length > w.end-w.Start // the window before had begun before its first request
		w.Limit, w.Length, w.Least = n, 0, 0
		w.measure(w.Start, w.opened)
	}
	w.quick = 2*(refused-w.Start) < w.Length
	w.Start, w.opened, w.Taken, w.accepted = taken, 0, 1, 0
	if taken-w.end < second {
		w.opened = min(w.end-w.Step, taken)
	}
	w.late, w.end = false, 0
}

// over reports whether the present window has ended, as far as that is known.
func (w *hiddenWindow) over(v int64) bool {
	return w.Limit > 0 && w.end == 0 && v-w.Start >= w.Length
}

// roll begins the next window with a request. first is true if the window before was used
// up: then its end is only a prediction.
func (w *hiddenWindow) roll(v int64) (first bool) {
	first = w.Taken >= w.Limit
	if first {
		w.Held++
	}
	if w.Held >= 1 && w.trial == untried || w.trial == tried && w.Since >= uint64(min(acceptedToTry, windowsToTry*w.Limit))<<w.Trials {
		w.trial = trying
	}
	w.before.start, w.before.opened, w.before.accepted = w.Start, w.opened, w.accepted
	w.Start, w.opened, w.Taken, w.accepted = v, 0, 0, 0
	if shorter := (w.Length - 1) - (w.Length-1)%second; w.Held >= 2 && w.Step > 0 && shorter > w.Least && float64(shorter) < shorten*float64(w.Length) {
		w.Length = shorter
		w.recent.begin(w.Length)
	}
	return first
}

// answered counts a request that was accepted. pooled: the tokens of a pool may have limits of their own.
func (w *hiddenWindow) answered(v int64, pooled bool) {
	w.accepted++
	w.Since++
	if w.trial == untried && w.quick && !pooled && w.accepted >= w.Limit && w.end == 0 {
		w.trial = trying
	}
	if w.recent.on {
		w.recent.add(v, 1)
	}
}

// next returns the time at which another request of this instance may go, which has a part of the limit, after the last was
// sent, while others are in flight; ok is false if one of these has to be answered first.
func (w *hiddenWindow) next(v, sent, flying, part int64) (at int64, ok bool) {
	if w.Limit == 0 || w.Start == 0 {
		return v, true
	}
	if w.trial == trying {
		gap := w.Length / (trialFactor * w.Limit)
		return max(w.Start+min(w.Taken, trialFactor*w.Limit)*gap, sent+gap/2), true // also where another limit lets several go at once
	}
	w.recent.expire(v)
	if flying >= part || flying > w.accepted || w.Held == 0 && flying > w.accepted/slowStartWindow {
		return v, false // the first requests of a window may be the last of the one before
	}
	return w.recent.free(v, part-1-flying), true
}

// takeInWindow counts a request in its window. The first after a window that was used up goes alone.
func (p *HiddenRate) takeInWindow(v int64) {
	w := &p.window
	if !p.stop.active && w.over(v) {
		if w.trial == trying && w.accepted*2 >= w.Limit*(2*trialFactor-1) { // in one window more than the limit was accepted
			p.paced, p.doubted, p.windowed = true, true, false
			p.search.set(v, float64(w.accepted)/(float64(w.Length)/float64(second)))
			p.search.cycle, p.search.full = max(w.Length/16, second), 0
			p.search.restart(w.Start)
			p.nextAt = v + p.search.gap(1)
			return
		}
		if w.roll(v) {
			p.stop.active, p.stop.since, p.stop.until = true, v, v
			p.stop.pause = max(w.Length/64, leastPause)
		}
	}
	w.Start = cmp.Or(w.Start, v)
	w.Taken++
}
