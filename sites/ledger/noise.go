package ledger

import (
	"math"
	"time"
)

const (
	// heads is the number of refusals, each after successes, that are enough for a verdict.
	heads = 3
	// certain is the number of heads expected of noise without which a limit is certain.
	certain = 3
	// unlikely is the probability below which refusals in a row are not noise, and oncePer times
	// the requests the same once noise is known.
	unlikely, oncePer = 0.002, 0.01
	// mostShare bounds the share of the requests that noise refuses, and leastShare is so little
	// that it is none.
	mostShare, leastShare = 0.6, 0.001
	// remembered is the number of refusals to be expected after which the share is measured again.
	remembered = 64
)

// noise finds out whether refusals come at random, whatever the rate is.
//
// Refusals in a row, without a success between, have a head. A head speaks against a limit if the
// rate is one that no limit refuses, see rateSearch.floor, and the next request succeeds. If
// heads are as frequent at such rates as they are at others, they are noise. Once noise is known, a
// refusal is that of a limit only if too many come in a row, or too many in all.
type noise struct {
	head    int64 // when the first refused request of the last row was sent
	row     int   // refusals in a row
	against bool  // the head speaks against a limit, unless the next request is refused, too
	all     tally // at any rate
	slow    tally // at rates that no limit refuses
	limited bool  // refusals in a row have shown a limit

	share float64 // of the requests, that noise refuses; 0: no noise is known
	seen  tally   // requests since it was measured
}

// tally counts refusals and requests that were accepted.
type tally struct{ refused, accepted float64 }

// part returns the share of the requests that were refused.
func (t tally) part() float64 { return t.refused / max(t.accepted+t.refused, 1) }

// refused counts a refusal of a request that was sent at a time. slow: no limit refuses the rate.
// excused: it is noise. limit: it is certainly a limit, of which it is not the first refusal.
func (n *noise) refused(sent int64, slow bool) (excused, limit bool) {
	part := (n.all.refused + 1) / (n.all.refused + n.all.accepted + 2)
	if n.row++; n.row == 1 {
		n.head, n.against = sent, slow
		n.all.refused++
	}
	if n.share > 0 {
		n.seen.refused++
		requests := n.seen.accepted + n.seen.refused
		mean := n.share * requests
		if math.Pow(n.share, float64(n.row))*requests > oncePer && n.seen.refused < mean+3*math.Sqrt(mean)+heads {
			return true, false
		}
		n.seen = tally{} // what is more than noise is that of a limit, once
		return false, false
	}
	if n.row > 1 && math.Pow(part, float64(n.row-1)) < unlikely {
		*n = noise{head: n.head, row: n.row, limited: true}
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
	n.row = 0
	if against = n.against && sent > n.head; against {
		n.against = false
		n.slow.refused++
	}
	if n.share > 0 && (n.seen.accepted+n.seen.refused)*n.share >= remembered {
		n.share = n.seen.part()
		if n.seen = (tally{}); n.share < leastShare {
			*n = noise{limited: n.limited}
		}
	}
	return against
}

// judge reports whether refusals turn out to be noise.
func (n *noise) judge() bool {
	part := n.all.part()
	switch {
	case n.share > 0:
	case n.slow.refused >= heads && n.slow.refused >= part*n.slow.accepted/2:
		*n = noise{head: n.head, share: min(part, mostShare), limited: n.limited}
		return true
	case part*n.slow.accepted > certain*(n.slow.refused+1):
		*n = noise{head: n.head, limited: n.limited}
	}
	return false
}

// undone is the state before a refusal.
type undone struct {
	search rateSearch
	stop   stop
	nextAt int64
}

// slow reports whether the present rate is one that no limit refuses.
func (p *HiddenRate) slow() bool {
	return !p.windowed && p.search.rate > 0 && p.search.rate <= p.search.floor*1.001
}

// doubt takes a success for what it tells of noise.
func (p *HiddenRate) doubt(now time.Time, v, sent int64) {
	if p.noise.succeeded(sent, p.slow()) {
		accepted := p.search.accepted
		p.search, p.nextAt = p.before.search, p.before.nextAt
		p.search.accepted += accepted
		p.stop.active, p.stop.until, p.stop.pause, p.stop.rateSince = false, min(p.stop.until, v), p.before.stop.pause, p.before.stop.rateSince
	}

	if !p.noise.judge() {
		return
	}
	if !p.noise.limited {
		p.Forget(now)
		return
	}
	s := &p.search
	s.refused, s.good, s.floor, s.trying, s.debt, s.gain = 0, 0, 0, false, 0, lastGain
}
