package sites

import "time"

const (
	// longestAnswering is the time after a success in which a site that is unavailable may
	// refuse instead.
	longestAnswering = 10 * time.Minute
	// mostUnavailable times in a row, without a success, a site may be unavailable before that is
	// an outage.
	mostUnavailable = 7
	// rare is the least number of successes between two refusals, once the rate has been lowered.
	rare = 5
	// mostFrequent refusals in a row may have fewer between them. After that they are failures,
	// which come whatever the rate is.
	mostFrequent = 6
	// manyRefusals refusals, each after a success, are enough to tell failures that come at any
	// rate from a limit: if there are fewer than mostServed successes for each.
	manyRefusals = 12
	mostServed   = 40
	// failing is the time for which answers are taken for failures after that, four times as long
	// with each time. failureLasts is that time after another failure.
	failing      = 10 * time.Minute
	mostFailing  = 24 * time.Hour
	failureLasts = 30 * time.Second
)

// unavailable decides whether a site that answers 503, and says no more, refuses or fails. The
// zero value has seen nothing.
type unavailable struct {
	inRow     int       // such answers since the last success
	at        time.Time // the last of these
	successes int       // since then
	frequent  int       // refusals in a row with few successes between
	refusals  int       // since they are no failures, each after a success
	served    int       // successes between these
	fails     uint      // how often refusals turned out to be failures
	failsTo   time.Time // until then the answers are failures
}

// succeeded counts a success of a request that was sent at a time.
func (u *unavailable) succeeded(sent time.Time) {
	if sent.After(u.at) {
		u.inRow = 0
		u.successes++
	}
}

// failed takes another failure of the site.
func (u *unavailable) failed(now time.Time) {
	if until := now.Add(failureLasts); until.After(u.failsTo) {
		u.failsTo = until
	}
}

// refuses takes an answer to a request that was sent at a time, and reports whether it is
// a refusal. again is true if refusals turn out to be failures.
func (u *unavailable) refuses(now, sent, latest time.Time) (refuses, again bool) {
	if now.Before(u.failsTo) || latest.IsZero() || u.inRow == 0 && now.Sub(latest) > longestAnswering {
		return false, false
	}
	if sent.After(u.at) {
		switch {
		case u.successes >= rare:
			u.frequent = 0
		case u.successes > 0:
			u.frequent++
		}
		if u.successes > 0 {
			u.refusals++
			u.served += u.successes
		}
		u.inRow++
		u.at, u.successes = now, 0
	}
	if u.frequent > mostFrequent || u.refusals >= manyRefusals && u.served < mostServed*u.refusals {
		u.frequent, u.refusals, u.served = 0, 0, 0
		u.failsTo = now.Add(min(failing<<(2*min(u.fails, 8)), mostFailing))
		u.fails++
		return false, true
	}
	if u.refusals >= 2*manyRefusals {
		u.refusals, u.served = u.refusals/2, u.served/2
	}
	return u.inRow <= mostUnavailable, false
}
