package ledger

import (
	"cmp"
	"math"
	"time"
)

const (
	// heads is the number of refusals, each after successes, that are enough for a verdict.
	heads = 3
	// Logarithms of how many times likelier the answers are if refusals come at random than with a limit: from noisy
	// on they do, and below limiting there is a limit. Below suspected it is likely, and it is suspected when a rate is set to
	// find out. One answer counts for so much at most.
	noisy, limiting, suspected, mostGain = 4.5, -5, -2, 3
	// Probability with a limit that it refuses a request at a rate that no limit refuses, and without one that as many requests
	// are accepted before one refusal as before another. Probabilities with a limit that this is so, and that it lets a request
	// pass after a refusal: at least, where nothing is known, and at most.
	background, alike         = 0.002, 0.05
	hardly, perhaps, probably = 0.05, 0.5, 0.8
	// Probabilities of refusals in a row, if they come at random: below doubtful the first ones begin a stop, and below
	// surprising they are taken for those of a limit for now. oncePer times the requests is the same once noise is known.
	doubtful, surprising, oncePer = 0.2, 0.05, 0.01
	// tolerated is the share of the requests since the first refusal that may be refused before a stop begins.
	tolerated = 0.08
	// mostShare bounds the share of the requests that noise is said to refuse: mostBeside where answers have shown a limit,
	// of one route, maybe. Rows are judged by usualShare at most, and leastShare is so little that it is none.
	mostShare, mostBeside, usualShare, leastShare = 0.6, 0.15, 0.45, 0.001
	// mostLost is the part of the time that the search for a limit may cost, beyond leastLost seconds, where the answers do not
	// speak for one.
	mostLost, leastLost = 0.2, 5
	// remembered is the number of refusals to be expected after which the share is measured again.
	remembered = 16
)

// noise finds out whether refusals come at random, whatever the rate is.
//
// Refusals in a row, without a success between, have a head. Each answer is likelier with a limit or without: a limit
// refuses the next request until something has come back, and none at a rate below it; refusals at random come at
// any time and rate. Once noise is known, a refusal is that of a limit only if too many come in a row, or too many in all.
type noise struct {
	head    int64   // when the first refused request of the last row was sent
	row     int     // refusals in a row
	chance  float64 // about the probability of such a row after its head, if refusals come at random
	against bool    // the head speaks against a limit
	all     tally   // at any rate
	odds    float64 // logarithm of how many times likelier the answers are without a limit
	limited bool    // the answers have shown a limit
	proved  bool    // the answers were much likelier with a limit once

	until  float64 // requests accepted until the head
	passed float64 // of these, those since the head before

	share float64 // of the requests, that noise refuses; 0: no noise is known
	seen  tally   // requests since it was measured
}

// flow tells how requests went.
type flow struct {
	rate     float64 // a second; 0: not known
	flying   float64 // at once
	accepted float64 // of them
}

// tally counts refusals and requests that were accepted.
type tally struct{ refused, accepted float64 }

// likely returns about the probability of a refusal, of which little may be known. The tally has one refusal of each row, so
// there are as many of them as successes that are followed by a refusal.
func (t tally) likely() float64 { return min((t.refused+1)/(t.accepted+2), mostShare) }

// weigh takes the probabilities of an answer without a limit and with one.
func (n *noise) weigh(without, with float64) {
	n.odds = min(max(n.odds+min(math.Log(without/with), mostGain), 2*limiting), 2*noisy)
}

// counted takes how many requests were accepted at a rate before one was refused, and before the refusal before: a limit
// often accepts about as many each time.
func (n *noise) counted(now, before float64) {
	random := max(alike, n.part()/(2-n.part()))
	if 20*min(now, before) >= 19*max(now, before) {
		n.weigh(random, perhaps)
	} else {
		n.weigh(1-random, 1-perhaps)
	}
}

// part returns about the share of the requests that noise refuses, if there is noise.
func (n *noise) part() float64 { return min(cmp.Or(n.share, n.all.likely()), usualShare) }

// refused counts a refusal of a request that was sent at a time. steady: the rate is the same as at the head before. slow: no
// limit refuses the rate. pass is the probability
// that a limit lets the request pass, if it follows another refusal. open requests between the head and this one have no answer yet.
// excused: it is noise. limit: it is certainly a limit, of which it is not the first refusal.
func (n *noise) refused(sent int64, steady, slow bool, pass float64, open int) (excused, limit bool) {
	if n.row++; n.row == 1 {
		passed := n.all.accepted - n.until
		if steady && n.all.refused > 0 {
			n.counted(passed, n.passed)
		}
		n.head, n.against, n.chance, n.passed, n.until = sent, slow, 1, passed, n.all.accepted
		n.all.refused++
	} else {
		ways := float64(open+n.row-1) / float64(n.row-1) // those without an answer may be accepted
		if n.chance *= min(max(n.all.likely(), n.share)*ways, 1); n.share == 0 {
			n.weigh(min(n.part()*ways, 1), 1-min(pass, 1/float64(n.row-1)))
		}
	}
	if n.share > 0 {
		n.seen.refused++
		mean := n.share * (n.seen.accepted + n.seen.refused)
		if n.share*n.chance*max(n.all.accepted+n.all.refused, remembered) > oncePer && n.seen.refused < mean+4*math.Sqrt(mean)+heads {
			return true, false
		}
		n.seen = tally{} // what is more than noise is that of a limit, once
		return false, false
	}
	if limit = n.row > 1 && n.odds < limiting; limit {
		*n = noise{head: n.head, row: n.row, chance: n.chance, all: n.all, passed: n.passed, until: n.until, limited: true, proved: true}
	}
	return false, limit
}

// succeeded counts a success of a request that was sent at a time, and reports whether the head of
// the last refusals speaks against a limit.
func (n *noise) succeeded(sent int64, slow bool, pass float64) (against bool) {
	part := n.part()
	n.all.accepted++
	n.seen.accepted++
	switch {
	case sent > n.head && n.row > 0:
		if n.share == 0 {
			n.weigh(1-part, pass)
		}
		if against = n.against; against {
			n.weigh(max(part, background), background)
		}
		n.row, n.against = 0, false
	case slow:
		n.weigh(1-part, 1)
	}
	if all := n.seen.accepted + n.seen.refused; n.share > 0 && all*n.share >= remembered {
		n.share = n.seen.refused / all
		if n.seen = (tally{}); n.share < leastShare {
			*n = noise{limited: n.limited}
		}
	}
	return against
}

// scattered reports whether the first refusals may come at random: a limit is not much likelier, and there are neither too many
// in a row nor among so many requests that were accepted since the first.
func (n *noise) scattered(since float64) bool {
	return n.odds > suspected && (n.row == 1 || n.all.accepted >= fewUnits && n.chance*n.all.refused >= doubtful) && n.all.refused < heads+tolerated*since
}

// possible reports whether there are enough heads to find out whether they are noise, and nothing has shown a limit.
func (n *noise) possible() bool { return n.share == 0 && !n.limited && n.all.refused >= heads }

// usual reports whether so many refusals in a row are no surprise, as far as the share of refusals is known.
func (n *noise) usual() bool {
	return (!n.limited || n.odds >= noisy) && n.chance*n.all.refused >= surprising
}

// judge reports whether refusals turn out to be noise. No limit is shown by successes at rates that no limit refuses, so
// the question is asked anew.
func (n *noise) judge() (random, again bool) {
	again = n.odds < limiting
	limited, enough := n.limited, noisy
	if limited && n.all.likely() >= mostBeside { // so much is no noise beside a limit: the limit is disproved
		limited, enough = false, 2*noisy
	}
	random = n.share == 0 && n.odds >= enough && n.all.refused >= heads
	if again {
		*n = noise{head: n.head, all: n.all, passed: n.passed, until: n.until, limited: n.limited || n.share > 0, proved: true}
	} else if random {
		*n = noise{head: n.head, share: n.all.likely(), limited: limited, proved: limited}
	}
	return random, again
}

// slow reports whether no limit refuses the present rate, or fewer requests were accepted in this window than in one before.
func (p *HiddenRate) slow() bool {
	if p.windowed {
		return 10*p.window.accepted < 9*p.window.Limit && !p.search.pooled
	}
	return p.search.rate > 0 && p.search.rate <= p.search.floor && !p.hurries
}

// pass returns about the probability that a limit lets a request pass that is sent at a time, after refusals.
func (p *HiddenRate) pass(sent int64, refused bool) float64 {
	switch {
	case refused && p.search.pooled:
		return perhaps
	case refused && p.search.rate == 0: // where single requests were refused before, others in flight are often refused with one
		return max(perhaps, 1-float64(p.noise.row+1)/(p.noise.all.refused+1))
	case p.search.pooled || p.search.rate == 0:
		return 1 - p.noise.part() // another request may have ended, or the limit is that of another token: it says nothing
	}
	return min(max(secondsOf(sent-p.noise.head)*p.search.rate, hardly), probably)
}

// doubt takes a success for what it tells of noise, and reports whether the head of the last refusals
// speaks against a limit.
func (p *HiddenRate) doubt(now time.Time, sent int64) (against bool) {
	against = p.noise.succeeded(sent, p.slow(), p.pass(sent, false))
	random, again := p.noise.judge()
	if p.search.from == compared && (random || again) {
		p.search.from = measured
	}
	switch {
	case random && p.noise.limited:
		p.search.innocent(p.at(now))
	case random:
		p.Forget(now)
	}
	return against || random
}

// tooSlow reports whether the search for a limit does not go on at its rate: clients that pause for a second after each refusal would
// have been so much faster, and the answers do not speak for a limit, or speak clearly for noise where they have proved one.
func (p *HiddenRate) tooSlow(v int64) bool {
	n := &p.noise
	if !n.possible() || n.odds < 0 || n.proved && n.odds < noisy || p.search.pooled || p.windowed || p.paced {
		return false
	}
	took := secondsOf(v - p.made - p.search.idle)
	paused := (p.search.total-p.before.accepted)/p.before.rate + n.all.refused/p.before.flying
	return took-paused > max(leastLost, took*mostLost)
}
