package knowledge

import (
	"time"

	"github.com/abide-proxy/abide/ledger"
)

const (
	// longestBreak is the time without successes that ends a site's activity.
	longestBreak = time.Minute
	// longestAnswering is the time after a success in which a site that is unavailable may
	// refuse instead.
	longestAnswering = 10 * time.Minute
	// mostUnavailable is how many times in a row, without a success, a site may be
	// unavailable before that is an outage.
	mostUnavailable = 6
)

// answers counts a site's successes. The zero value has counted none.
type answers struct {
	successes  int64
	latest     time.Time // the last success
	latestSent time.Time // the latest request that succeeded

	// since requests began, without long breaks
	active int64
	began  time.Time

	unavailableInRow int       // answers that the site is unavailable, since the last success
	unavailableAt    time.Time // the last of these
}

// add counts a success of a request that was sent at a time.
func (a *answers) add(now, sent time.Time) {
	if a.active == 0 || sent.Sub(a.latest) > longestBreak {
		a.active, a.began = 0, sent
	}
	a.successes++
	a.active++
	a.latest = now
	if sent.After(a.latestSent) {
		a.latestSent = sent
	}
	if sent.After(a.unavailableAt) {
		a.unavailableInRow = 0
	}
}

// since reports whether a request succeeded that was sent after a time.
func (a *answers) since(t time.Time) bool { return a.latestSent.After(t) }

// history is what a limit that is found now has accepted so far.
func (a *answers) history(now time.Time) ledger.History {
	if a.active == 0 || now.Sub(a.latest) > longestBreak {
		return ledger.History{}
	}
	return ledger.History{Accepted: a.active, Lasted: now.Sub(a.began)}
}

// unavailable takes an answer that the site is unavailable, to a request that was sent at a
// time, and reports whether the site refuses: others succeed.
func (a *answers) unavailable(now, sent time.Time) bool {
	if a.latest.IsZero() || a.unavailableInRow == 0 && now.Sub(a.latest) > longestAnswering {
		return false
	}
	if sent.After(a.unavailableAt) {
		a.unavailableInRow++
		a.unavailableAt = now
	}
	return a.unavailableInRow <= mostUnavailable
}
