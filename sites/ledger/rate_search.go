package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit"
)

const (
	minRate, maxRate = 1.0 / 3600, 1e6 // requests a second

	settled      = 0.97 // of the lowest rate that was refused: the search ends there
	safe         = 0.95 // of what came back between refusals is a rate that no limit refuses
	used         = 0.7  // of a rate has to be used for a cycle, or the cycle says nothing
	bisect       = 0.4  // part of the way, in logarithms, from a good rate to a refused one
	wide         = 3.0  // quotient of an upper and a lower bound that say little
	fewUnits     = 3    // units or more in a window of a usual length are believed to be its amount
	usually      = 4    // times as likely as another length of a window is a usual one
	unlikelier   = 2    // times less likely than the likeliest length is one that may be it, too
	manyUnits    = 8    // units or more between two refusals tell a rate
	afterBlock   = 0.5  // of a rate that was blocked remains
	firstGain    = 1.4  // factor of the first step up, while nothing was refused
	laterGain    = 2.0  // factor of the next steps
	furtherStep  = 0.1  // part by which a settled rate is exceeded in an attempt
	mostSaved    = 20   // times what came back until a request was accepted again may have been saved
	waitCycles   = 6    // cycles without a refusal before an attempt
	waitRequests = 150  // and so many requests
	mostFails    = 16   // attempts refused in a row that count
	measuredPast = 8.0  // intervals between refusals that are remembered

	idleAfter     = 24 * hour
	maxLateStart  = 50 * int64(time.Millisecond) // by which a request that goes late does not delay the next
	lateStartPart = 8                            // of the time between two requests, and at most such a part of it
)

// rateSearch finds the highest rate that is not refused.
//
// At a refusal nothing is left of the limit, and at the next refusal nothing is left again. So the
// requests accepted between both have come back meanwhile, whether one by one or all at the end of
// a window. That bounds the rate from both sides: the requests came back between the last
// refused request before and the first accepted one after; and not more than one more came back
// between the first accepted and the next refused one. The search begins inside these bounds. It
// goes up in growing steps, and halves the interval once a rate was refused.
type rateSearch struct {
	rate    float64 // requests a second; 0: not known, and requests are not paced
	good    float64 // the highest rate that held for a cycle; 0: none
	firm    float64 // the highest rate that held for long; 0: none
	refused float64 // the lowest rate that was refused; 0: none
	floor   float64 // a rate that no limit refuses that has let so many requests pass; 0: none
	pooled  bool    // several limits may refuse: there is no floor
	cycle   int64   // for which a rate has to hold
	window  windowState
	from    source // of the rate

	total     float64  // requests accepted
	starts    Starts   // before the first refusal
	idle      int64    // time in which no request was waiting, and so no more were accepted
	empty     episodes // at whose ends nothing was left
	rested    bool     // requests paused since the last, so that units may have been saved
	lowest    float64  // the lowest rate since the last
	full      float64  // requests that may have been saved, or that a window has; before the first refusal, those accepted
	passes    float64  // requests accepted between the refusals before the last
	most      int64    // the longest window that passes so many
	cameBack  float64  // requests accepted between the last refusals
	seconds   float64  // from the first of these refusals to the last
	intervals float64  // how many times between refusals are in cameBack

	served int   // successes at this rate
	since  int64 // start of this rate

	trying bool // the rate is an attempt above a rate that held
	cycles int  // that the settled rate has held, without a refusal
	passed int  // requests in these cycles
	fails  int  // attempts refused in a row
}

// windowState tells how far a window is known whose length is the cycle.
type windowState int

const (
	noWindow windowState = iota
	shown                // by its end
	held                 // for its length
)

// source tells from which refusals a rate follows.
type source int

const (
	measured source = iota // what was accepted between refusals
	guessed                // refusals that may have been failures of the server, which say nothing of a rate
	compared               // refusals that may come at random: the rate stays until that is decided
	blocked                // a block: the rate is set already when the refusals end
)

// restart forgets all episodes: requests begin at a time.
func (s *rateSearch) restart(v int64) { s.empty = sinceBegin(v, s.total, s.idle) }

// accepted returns the requests accepted since the last episode.
func (s *rateSearch) accepted() float64 { return s.total - s.empty.last().total }

func (s *rateSearch) gap(n int64) int64 {
	if s.rate <= 0 {
		return 0
	}
	return plus(0, float64(n)/s.rate)
}

// late returns by how much a request may go late and not delay the next. The server may refuse
// requests that come closer to each other than at the rate.
func (s *rateSearch) late() int64 { return min(maxLateStart, s.gap(1)/lateStartPart) }

func (s *rateSearch) set(v int64, rate float64) {
	s.rate = min(max(rate, minRate), maxRate)
	s.lowest = min(s.lowest, s.rate)
	s.served, s.since, s.cycles, s.passed = 0, v, 0, 0
}

// begin sets the first rate, at the end of the first refusals: the last refused request was
// sent at a, and the first accepted one at v. The requests before were accepted at once if the limit
// saves units, so only a window tells how many come back. probed: single requests were refused
// between.
func (s *rateSearch) begin(a, v, recovery int64, probed bool) {
	n, began := max(s.full, 1), s.empty[0].empty
	s.cycle, s.passes, s.most = max(recovery, second), n, limit.FarFuture
	defer func() {
		s.full = min(max(n-s.rate*secondsOf(a-began), s.rate*secondsOf(s.cycle)), mostSaved*s.rate*secondsOf(recovery))
	}()
	if shortest, longest := s.empty[0].lengths(a, v); longest > 0 && n >= fewUnits {
		s.set(v, n/secondsOf(longest)*settled)
		if s.cycle = longest; shortest == longest && probed {
			s.window = shown
		}
		return
	}
	s.set(v, n/secondsOf(v-began))
}

// guess sets a rate after refusals that may have been failures of the server, which say nothing of a rate: the one before,
// which a limit refuses soon again, or half of it if the first probe succeeded.
func (s *rateSearch) guess(first, v int64, probed bool) {
	n, began := max(s.full, 1), s.empty[0].empty
	rate := n / secondsOf(v-began)
	if before := n / secondsOf(first-began); probed {
		rate = before
	} else if n >= manyUnits {
		rate = max(rate, before/2)
	}
	s.set(v, rate)
	s.cycle, s.full, s.from = second, 0, guessed
}

// compare sets a rate below that at which requests were accepted since the first refusal, to find out whether
// it is refused less often.
func (s *rateSearch) compare(first, v int64) {
	last := s.empty.last()
	s.set(v, safe*max(s.accepted()-1, 1)/secondsOf(first-last.empty))
	s.full = max(last.total-s.rate*secondsOf(last.empty-s.empty[0].empty), 0) // what may have been saved, if there is a limit
	s.cycle, s.floor, s.from = second, s.rate, compared
}

// lengths returns the shortest and the longest likely length of a window that began when the episode ended, and ends
// after one time and not after another; 0: there is none.
func (e *episode) lengths(after, by int64) (shortest, longest int64) {
	fits := func(length int64) int64 { // the times at which such a window may have begun; most begin with a request
		fit := max(min(by-length, e.resumed)-max(after-length, e.empty)+1, 0)
		if after-length < e.resumed && by-length >= e.resumed {
			fit += 2 * (e.resumed - e.empty)
		}
		if slices.Contains(usualWindows[:], length/second) {
			fit *= usually
		}
		return fit
	}
	best := int64(1)
	for _, seconds := range windows {
		best = max(best, fits(seconds*second))
	}
	for _, seconds := range windows {
		if length := seconds * second; unlikelier*fits(length) >= best {
			shortest, longest = min(cmp.Or(shortest, length), length), max(longest, length)
		}
	}
	return shortest, longest
}

// secondsOf returns a time in seconds, at least a millisecond.
func secondsOf(d int64) float64 { return max(float64(d)/float64(second), 1e-3) }

// ended takes the end of later refusals, as begin does. test: they may come at any rate, which is
// found out at one that no limit refuses.
func (s *rateSearch) ended(stop *stop, a, v, recovery int64, test bool) {
	if s.from == blocked {
		s.from, s.since = measured, v
		return
	}
	s.from = measured
	e := s.empty.like(recovery)
	last := s.empty.last()
	same := s.accepted() == s.passes && a-last.resumed < s.most // the same window refuses: it passes as many each time
	if same {
		e = last
	}
	s.passes, s.most = s.accepted(), v-last.empty
	n := s.total - e.total
	low, high := n/secondsOf(v-e.empty), (n+1)/secondsOf(a-e.resumed-(s.idle-e.idle))
	sent := (s.accepted() + 1) / secondsOf(a-last.resumed-(s.idle-last.idle)) // at the present rate, with nothing lost
	if s.measure(s.accepted(), a, v); stop.sooner {
		s.set(v, s.rate)
		return
	}
	rate := n / secondsOf(a-e.empty-(s.idle-e.idle))
	if !stop.single && n >= manyUnits {
		s.floor = min(s.floor, rate)
	}
	shortest, longest := e.lengths(a, v)
	window := longest > 0 && n >= fewUnits && (same || stop.probed && shortest == longest && n/secondsOf(longest) >= s.good)
	before, vague := s.rate, high > wide*low || n < fewUnits
	early := stop.single && !stop.probed && !same && s.window != noWindow && s.accepted() < 0.9*s.rate*secondsOf(s.cycle) // for the window
	if sent < s.lowest || before <= s.good*1.01 {
		s.good = 0 // that used what had been saved, or the limit has become lower
	}
	if before <= s.firm*1.01 {
		s.firm = 0
	}
	switch {
	case s.trying && s.firm > 0:
		s.fails = min(s.fails+1, mostFails)
		rate, s.refused, test = s.firm, s.firm/settled, false
	case s.trying && s.good > 0:
		if rate, s.refused = s.good, before; s.window != noWindow {
			s.refused = s.good / settled // more than in the window does not pass
		}
	case window:
		s.refused, s.cycle, s.window = min(before, n/secondsOf(shortest)), longest, shown
		rate = min(before, n/secondsOf(longest)) * settled
	case early, vague && stop.single:
		if rate = max(before*(n+1)/(n+2), low); !early {
			s.window = noWindow
		}
	case vague:
		rate, s.window = min(max(before/2, low), high), noWindow
	default:
		rate, s.refused, s.window = min(rate, before*settled), before, noWindow
	}
	if sent < s.lowest && !vague {
		s.refused = min(s.refused, sent) // nothing was lost, as requests were always sent faster
		rate = min(rate, s.refused*settled)
	}
	if s.floor > 0 && test && !window {
		rate = s.floor * safe
	}
	if s.window == noWindow || recovery > s.cycle*3/2 {
		s.cycle, s.window = max(recovery, s.cycle*3/4, second), noWindow
	}
	s.trying = false
	if s.set(v, max(rate, low*safe)); s.refused > 0 {
		s.refused = max(s.refused, s.rate/settled)
	}
}

// measure notes what was accepted between two refusals. No limit refuses the rate at which so
// much has come back in the long run.
func (s *rateSearch) measure(n float64, a, v int64) {
	rested := s.rested
	if s.rested = false; s.pooled || rested {
		return
	}
	s.cameBack += n
	s.seconds += secondsOf(a - s.empty.last().empty - (s.idle - s.empty.last().idle))
	if s.intervals++; s.intervals > measuredPast {
		s.intervals, s.cameBack, s.seconds = s.intervals/2, s.cameBack/2, s.seconds/2
	}
	if s.intervals >= 2 && s.window == noWindow {
		s.floor = max(s.floor, max(s.cameBack-1, 0)/s.seconds)
	}
	if n >= manyUnits {
		s.floor = max(s.floor, min((n-1)/secondsOf(v-s.empty.last().empty-(s.idle-s.empty.last().idle)), s.rate))
	}
}

// innocent takes the verdict that refusals came whatever the rate was, beside a limit.
func (s *rateSearch) innocent(v int64) {
	s.good, s.firm, s.refused, s.full, s.fails, s.trying = 0, 0, 0, 0, 0, false
	if s.window != held {
		s.unmeasured()
		s.cycle, s.window = second, noWindow
		return
	}
	s.set(v, s.floor)
	s.refused = s.floor / settled
}

// reopen searches for a higher rate again, as requests of others may have been the cause of refusals. What a block has shown stays.
func (s *rateSearch) reopen(v int64) {
	if s.fails < mostFails {
		s.refused, s.fails, s.trying, s.served, s.since = 0, 0, false, 0, v
	}
}

// unmeasured forgets the floor: refusals have shown a limit.
func (s *rateSearch) unmeasured() { s.floor, s.cameBack, s.seconds, s.intervals = 0, 0, 0, 0 }

// block takes a block of a client that sent a request at a time. It ends the search: each
// block costs too much to find the rate more exactly.
func (s *rateSearch) block(v, sent int64) {
	n, took := max(s.accepted(), 1), max(sent-s.began(), second)
	rate := cmp.Or(s.rate, n/secondsOf(took)) * afterBlock
	if _, longest := new(episode).lengths(2*took-1, 4*took); longest > 0 && n >= fewUnits { // in which it may accept so many
		rate = min(rate, n/secondsOf(longest)*settled)
	}
	s.set(v, rate)
	s.refused, s.good, s.full, s.fails = s.rate/settled, 0, 0, mostFails
	s.cycle, s.from = max(s.cycle, second), blocked
}

// pause returns the time without requests after a refusal of a rate. A window that is used up early
// ends when its requests had been sent at the rate that held.
func (s *rateSearch) pause(a int64) int64 {
	pause := max(s.gap(1), leastPause)
	if good := min(s.good, s.rate); good > 0 {
		pause = max(pause, min(plus(0, (s.accepted()+1)/good)-(a-s.empty.last().resumed), s.cycle))
	}
	return min(pause, maxPause)
}

// succeeded counts n successes, and raises the rate when it has held for long enough.
func (s *rateSearch) succeeded(v, n int64) {
	s.served += int(n)
	s.total += float64(n)
	if s.rate <= 0 {
		s.full += float64(n)
	}
	if s.rate <= 0 || s.from == compared || v-s.since < s.cycle || s.served < 2 {
		return
	}
	served := float64(s.served)
	if served < used*s.rate*secondsOf(v-s.since) {
		if v-s.since > max(2*s.cycle, minute) {
			s.served, s.since = 0, v // the rate was not used
		}
		return
	}
	if known := max(s.good, s.floor); served < s.full+1 || known < s.rate && served*(1-known/s.rate) < 1 {
		return // what was saved, or the end of a window, may have let so many pass
	}
	if s.good = max(s.good, s.rate); s.trying && s.refused == 0 {
		s.window = noWindow // more passes than in the window
	}
	if s.window != noWindow && !s.trying && !s.pooled && s.rate >= s.refused*settled*0.99 {
		s.floor, s.window = max(s.floor, s.rate), held
	}
	switch {
	case s.refused == 0:
		gain := laterGain
		if !s.trying {
			gain = firstGain
		}
		s.set(v, s.rate*gain)
		s.trying = true
	case s.searches():
		next := s.rate * math.Pow(s.refused/s.rate, bisect)
		if next > s.refused*0.95 {
			next = s.refused * settled
		}
		s.set(v, next)
		s.trying = true
	default:
		s.cycles++
		s.passed += s.served
		s.served, s.since = 0, v
		cycles, requests := waitCycles<<s.fails, waitRequests<<s.fails
		more := s.rate > s.refused
		if more && s.window != noWindow { // each window would have refused it
			cycles, requests = waitCycles/2, 0
		}
		if s.cycles < cycles || s.passed < requests {
			return
		}
		if s.firm = s.rate; more { // it is not too much any more: the search begins again
			s.refused, s.firm, s.fails = 0, 0, s.fails/2
			s.set(v, s.rate*(1+2*furtherStep))
		} else {
			s.set(v, s.rate*(1+furtherStep)) // more than has held
		}
		s.trying = true
	}
}

// searches reports whether a rate between one that held and one that was refused, or above all, is still to be tried.
func (s *rateSearch) searches() bool { return s.refused == 0 || s.rate < s.refused*settled*0.999 }

// began returns when the requests began that were refused.
func (s *rateSearch) began() int64 {
	if s.rate == 0 {
		return s.empty[0].empty
	}
	return s.empty.last().resumed
}
