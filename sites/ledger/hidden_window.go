package ledger

// hiddenWindow is the model of a hidden limit whose refusals name their end: so many requests
// in any time of a length. It learns the amount and the length from what passes between two
// ends. Whether the server's windows are rolling or fixed, no more is accepted than that.
type hiddenWindow struct {
	limit  int64 // requests in a window; 0: not known
	length int64
	recent recent // requests that were answered within the length

	start    int64 // first request of the present window; 0: none yet
	end      int64 // its end, as a refusal named it; 0: none was refused in it
	taken    int64 // requests in it
	accepted int64 // of these

	before int64 // first request of the window before
	least  int64 // a lower bound of the length
	longer int64 // length before it was shortened; 0: it was not
	whole  bool  // ends are named in whole seconds
	even   bool  // requests of a window go evenly: the server's window is rolling, and the requests of the one before are not known
	late   bool  // the first request of a window was refused: the window before lasts longer

	held  int    // windows in a row of which none was refused
	trial trial  // whether more than the limit goes, evenly over a window
	fails uint   // trials that were refused
	since uint64 // requests accepted since the last trial
}

// trial is the state of the question whether the limit is a window at all. A server may
// instead punish requests that come too fast, with a wait that is always the same.
type trial uint8

const (
	untried trial = iota
	trying
	tried // it is a window
)

// shorten is the part of a length down to which its lower bound is looked for, where the
// server names ends in whole seconds.
const shorten = 0.93

// slowStartWindow is the number of requests of the first windows that allow one more in flight.
const slowStartWindow = 8

// After so many times the limit of a window, or so many requests, were accepted there is another trial, and after
// twice as many for each trial that was refused.
const (
	windowsToTry  = 3
	acceptedToTry = 1000
)

// trialFactor times the limit is sent in a trial.
const trialFactor = 3

// begin starts the model with what was accepted before the first refusal.
func (w *hiddenWindow) begin(start, accepted int64) {
	w.start, w.accepted, w.taken = start, accepted, accepted
}

// refused takes the named end of a window. whole: it is named in whole seconds.
func (w *hiddenWindow) refused(v, until int64, whole bool) {
	soon := w.held > 0 && 2*w.accepted < w.limit && v-w.start < w.length/4
	w.held, w.whole = 0, whole
	switch {
	case w.limit > 0 && w.before > 0 && (w.accepted == 0 || soon):
		w.lengthen(until)
	case w.limit > 0 && !w.even && w.accepted < w.limit && v-w.start < w.length/2 && until-v < w.length/4:
		w.late, w.even = true, true
	default:
		w.end = until
	}
	if w.trial == trying {
		w.trial, w.since = tried, 0
		w.fails = min(w.fails+1, 10)
	}
}

// lengthen takes a refusal at the beginning of a window: the window before lasts longer.
func (w *hiddenWindow) lengthen(until int64) {
	w.late, w.least = true, w.length
	if w.longer > w.length {
		w.length, w.longer = w.longer, 0
	} else {
		end := until - w.before
		if w.whole {
			end = max(end-second, w.length*9/8)
		}
		w.length = min(max(end, w.length), 2*w.length)
	}
	w.recent.begin(w.length)
}

// several reports whether the present window shows that there are several limits: it lasts longer than
// the one before, and fewer requests were accepted in it.
func (w *hiddenWindow) several() bool {
	return w.limit > 0 && w.end > 0 && 2*(w.end-w.start) > 3*w.length && w.accepted < w.limit*9/10
}

// ended begins a window after a refusal, when its first request succeeds.
func (w *hiddenWindow) ended(taken int64) {
	switch n := max(w.accepted, 1); {
	case w.late:
	case w.limit > 0 && n >= w.limit:
		w.limit = n
	case w.end > w.start:
		w.limit, w.length, w.longer = n, w.end-w.start, 0
		if w.least = w.length; w.whole {
			w.least = max(w.length-second, w.length/4)
		}
		w.recent.begin(w.length)
	}
	w.late, w.start, w.end, w.taken, w.accepted = false, taken, 0, 1, 0
}

// over reports whether the present window has ended, as far as that is known.
func (w *hiddenWindow) over(v int64) bool {
	return w.limit > 0 && w.end == 0 && v-w.start >= w.length
}

// roll begins the next window with a request. first is true if the window before was used
// up: then its end is only a prediction.
func (w *hiddenWindow) roll(v int64) (first bool) {
	first = w.taken >= w.limit
	if first {
		w.held++
	}
	if w.held >= 1 && (w.trial == untried || w.trial == tried && w.mayTryAgain()) {
		w.trial = trying
	}
	w.before, w.start, w.taken, w.accepted = w.start, v, 0, 0
	if w.longer = 0; w.held >= 2 && float64(w.least) < shorten*float64(w.length) {
		w.longer, w.length = w.length, (w.least+w.length)/2
		w.recent.begin(w.length)
	}
	return first
}

// mayTryAgain reports whether so many requests or windows have passed since the last trial that
// another is worth its refusal. Several limits together may have shown a window that is not
// there, and few requests a window take long to be many.
func (w *hiddenWindow) mayTryAgain() bool {
	return w.since >= uint64(min(acceptedToTry, windowsToTry*w.limit))<<w.fails
}

// disproved reports whether a whole window has passed in which more than the limit was
// accepted.
func (w *hiddenWindow) disproved() bool {
	return w.trial == trying && w.accepted*2 >= w.limit*(2*trialFactor-1)
}

// answered counts a request that was accepted.
func (w *hiddenWindow) answered(v int64) {
	w.accepted++
	w.since++
	if w.recent.on {
		w.recent.add(v, 1)
	}
}

// next returns the time at which another request of this instance may go, which has a part of the limit, while others of
// it are in flight; ok is false if one of these has to be answered first.
func (w *hiddenWindow) next(v, flying, part int64) (at int64, ok bool) {
	if w.limit == 0 || w.start == 0 {
		return v, true
	}
	if w.trial == trying && !w.over(v) && w.taken < trialFactor*w.limit {
		return w.start + w.taken*(w.length/(trialFactor*w.limit)), true
	}
	w.recent.expire(v)
	if flying >= part || flying > w.accepted || w.held == 0 && flying > w.accepted/slowStartWindow {
		return v, false // the first requests of a window may be the last of the one before
	}
	at = w.recent.free(v, part-1-flying)
	if w.even {
		at = max(at, w.start+w.taken*(w.length/w.limit))
	}
	return at, true
}
