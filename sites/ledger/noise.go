package ledger

import (
	"math"
	"time"
)

const (
	// heads is the number of refusals, each after successes, that are enough for a verdict.
	heads = 3
	// background is the share of the requests that a limit refuses even at a rate below it, because
	// they do not arrive evenly.
	background = 0.002
	// certain is the number of heads that would have to be seen if refusals came at random.
	certain = 3
	// Probabilities of refusals in a row, if they come at random: below doubtful the first ones begin a stop, below
	// surprising they are taken for those of a limit for now, and below unlikely for good. oncePer times the
	// requests is the same once noise is known.
	doubtful, surprising, unlikely, oncePer = 0.2, 0.05, 0.002, 0.01
	// tolerated is the share of the requests since the first refusal that may be refused before a stop begins.
	tolerated = 0.08
	// Probabilities of the refusals that follow others at once, at rates that no limit refuses: below
	// improbable there is a limit, and from plausible on the refusals may come at random.
	improbable, plausible = 0.02, 0.15
	// mostShare bounds the share of the requests that noise is said to refuse, and leastShare is so little that it
	// is none.
	mostShare, leastShare = 0.5, 0.001
	// remembered is the number of refusals to be expected after which the share is measured again.
	remembered = 64
)

// noise finds out whether refusals come at random, whatever the rate is.
//
// Refusals in a row, without a success between, have a head. A head speaks against a limit if the
// rate is one that no limit refuses, see rateSearch.floor. If heads are as frequent at such rates as
// they are at others, and the next request is refused no more often than any, they are noise. Once
// noise is known, a refusal is that of a limit only if too many come in a row, or too many in all.
type noise struct {
	head    int64 // when the first refused request of the last row was sent
	row     int   // refusals in a row
	against bool  // the head speaks against a limit
	all     tally // at any rate
	slow    tally // at rates that no limit refuses
	again   int   // refusals at such rates that followed another one
	limited bool  // refusals in a row have shown a limit
	certain bool  // the present ones

	share float64 // of the requests, that noise refuses; 0: no noise is known
	seen  tally   // requests since it was measured
}

// tally counts refusals and requests that were accepted.
type tally struct{ refused, accepted float64 }

// part returns the share of the requests that were refused.
func (t tally) part() float64 { return t.refused / max(t.accepted+t.refused, 1) }

// likely returns about the probability of a refusal, of which little may be known. The tally has one refusal of each row, so
// there are as many of them as successes that are followed by a refusal.
func (t tally) likely() float64 { return min((t.refused+1)/(t.accepted+2), mostShare) }

// refused counts a refusal of a request that was sent at a time. slow: no limit refuses the rate.
// excused: it is noise. limit: it is certainly a limit, of which it is not the first refusal.
func (n *noise) refused(sent int64, slow bool) (excused, limit bool) {
	part := n.all.likely()
	if n.row++; n.row == 1 {
		n.head, n.against = sent, slow
		n.all.refused++
	}
	if n.row > 1 && n.against {
		n.again++
	}
	if n.share > 0 {
		n.seen.refused++
		if slow {
			n.slow.refused++
		}
		mean := n.share * (n.seen.accepted + n.seen.refused)
		requests := max(n.all.accepted+n.all.refused, remembered)
		if math.Pow(n.share, float64(n.row))*requests > oncePer && n.seen.refused < mean+4*math.Sqrt(mean)+heads {
			return true, false
		}
		n.seen = tally{} // what is more than noise is that of a limit, once
		return false, false
	}
	if n.row > 1 && math.Pow(part, float64(n.row-1)) < unlikely {
		*n = noise{head: n.head, row: n.row, all: n.all, limited: true, certain: true}
		return false, true
	}
	return false, false
}

// succeeded counts a success of a request that was sent at a time, and reports whether the head of
// the last refusals speaks against a limit.
func (n *noise) succeeded(sent int64, slow bool) (against bool) {
	n.all.accepted++
	n.seen.accepted++
	if slow {
		n.slow.accepted++
	}
	if sent > n.head {
		if against = n.against; against {
			n.slow.refused++
		}
		n.row, n.certain, n.against = 0, false, false
	}
	if n.share > 0 && (n.seen.accepted+n.seen.refused)*n.share >= remembered {
		n.share = n.seen.part()
		if n.seen = (tally{}); n.share < leastShare {
			*n = noise{limited: n.limited}
		}
	}
	return against
}

// scattered reports whether the first refusals may come at random: neither too many in a row nor among so many
// requests that were accepted since the first.
func (n *noise) scattered(since float64) bool {
	row := n.row == 1 || n.all.accepted >= fewUnits && n.chanceOfRow() >= doubtful
	return row && n.all.refused < heads+tolerated*since
}

// possible reports whether there are enough heads to find out whether they are noise, and nothing has shown a limit.
func (n *noise) possible() bool { return n.share == 0 && !n.limited && n.all.refused >= heads }

// usual reports whether so many refusals in a row are no surprise, as far as the share of refusals
// is known. Where refusals are scattered among successes they may be frequent, so longer rows are no surprise.
func (n *noise) usual() bool {
	least := surprising
	if n.possible() {
		least = oncePer
	}
	return !n.certain && n.chanceOfRow() >= least
}

// chanceOfRow returns about the probability of so many refusals in a row, if they come at random.
func (n *noise) chanceOfRow() float64 {
	return math.Pow(max(n.all.likely(), n.share), float64(n.row-1))
}

// judge reports whether refusals turn out to be noise, or those of a limit, at rates that were
// thought to be too low for it: after a refusal, the next request is refused more often than others are.
func (n *noise) judge() (noisy, limit bool) {
	others := tally{n.all.refused - n.slow.refused, n.all.accepted - n.slow.accepted}.part()
	switch {
	case n.share > 0 && n.share*n.slow.accepted > certain*(n.slow.refused+1):
		*n = noise{head: n.head, limited: true} // they were those of a limit
	case n.share > 0:
	case n.chance() < improbable:
		*n = noise{head: n.head, all: n.all, limited: true}
		return false, true
	case n.chance() >= plausible && n.slow.refused >= heads+background*n.slow.accepted && n.slow.refused >= others*n.slow.accepted/2:
		*n = noise{head: n.head, share: n.all.likely(), limited: n.limited}
		return true, false
	case others*n.slow.accepted > certain*(n.slow.refused+1):
		*n = noise{head: n.head, limited: n.limited}
	}
	return false, false
}

// chance returns about the probability that so many refusals have followed others at once, at rates that
// no limit refuses, if each request is refused with the same probability.
func (n *noise) chance() float64 {
	part, chance := n.all.part(), 1.0
	for i := range n.again {
		chance *= (n.slow.refused + float64(i)) / float64(i+1) * part
	}
	return chance
}

// slow reports whether the present rate is one that no limit refuses, or fewer requests were accepted in this window than were in one
// before. others: the next request tells at once whether the window has less now.
func (p *HiddenRate) slow(others bool) bool {
	if p.windowed {
		return 10*p.window.accepted < 9*p.window.limit && others
	}
	return p.search.rate > 0 && p.search.rate <= p.search.floor
}

// doubt takes a success for what it tells of noise, and reports whether the head of the last refusals
// speaks against a limit.
func (p *HiddenRate) doubt(now time.Time, sent int64) (against bool) {
	against = p.noise.succeeded(sent, p.slow(true))
	noisy, limit := p.noise.judge()
	if p.search.from == compared && p.noise.slow.accepted == 0 {
		p.search.from = measured
	}
	switch {
	case limit:
		p.search.unmeasured()
		return false
	case !noisy:
		return against
	case !p.noise.limited:
		p.Forget(now)
		return true
	}
	p.search.innocent(p.at(now))
	return true
}
