package sites

import (
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/sites/routes"
)

// Answer is an answer of a site, with the request it answers.
type Answer struct {
	Lesson  *learn.Lesson // limits that the answer tells of
	At      time.Time     // arrival of its head
	Class   *routes.Class // of the request
	Sent    time.Time     // when the request was sent, by the ledgers' time
	Budget  string        // key of the ledgers that the request took from
	Backend bool          // the request went to one of several backends, which have limits of their own
	Origin  string        // the backend, or the host of a group, that answered; "": the site has one
	Reserve ledger.Reserve
	Level   int64 // requests to the site that were in flight with it; 0: unknown
	Failed  bool  // the site failed to answer: a status from 500 on, or no answer
	Denied  bool  // the status is 403

	// Unavailable: the status is 503, or the site has closed the connection in place of an answer. The answer
	// is a refusal for no other reason: see Site.Unavailable.
	Unavailable, Closed bool
}

// updater applies updates to the meters of limits: a permit of the queue.
type updater interface {
	Update(list []queue.Update)
}

// whose returns the key of the ledger that the announcement belongs to.
func (a *Answer) whose(announcement *routes.Announcement) string {
	if announcement.Site && !a.Backend {
		return ""
	}
	return a.Budget
}

const (
	// longestBreak is the time without successes that ends a site's activity.
	longestBreak = time.Minute
)

// answers counts a site's successes. The zero value has counted none.
type answers struct {
	successes  int64
	latest     time.Time // the last success
	latestSent time.Time // the latest request that succeeded

	// since requests began, without long breaks
	active map[string]int64 // :: budget → successes
	began  time.Time

	origins map[string]*unavailable // :: Answer.Origin → whether it is unavailable
}

// origin returns what is known of whether an origin is unavailable: others do not count for it.
func (a *answers) origin(name string) *unavailable {
	u := a.origins[name]
	if u == nil {
		if a.origins == nil || len(a.origins) >= mostBudgets {
			a.origins = map[string]*unavailable{}
		}
		u = &unavailable{}
		a.origins[name] = u
	}
	return u
}

// add counts a success of a request that was sent at a time to an origin.
func (a *answers) add(now, sent time.Time, budget, origin string) {
	if a.active == nil || sent.Sub(a.latest) > longestBreak {
		a.active, a.began = map[string]int64{}, sent
	}
	a.successes++
	if a.active[budget]++; len(a.active) > mostBudgets {
		delete(a.active, budget)
	}
	a.latest = now
	if sent.After(a.latestSent) {
		a.latestSent = sent
	}
	a.origin(origin).succeeded(now, sent)
}

// history counts the requests that a limit of a budget that is found now has accepted so far; of
// all budgets together if together is true.
func (a *answers) history(now time.Time, budget string, together bool) ledger.History {
	if now.Sub(a.latest) > longestBreak {
		return ledger.History{}
	}
	n := a.active[budget]
	if together {
		n = 0
		for _, one := range a.active {
			n += one
		}
	}
	return ledger.History{Accepted: n, Lasted: now.Sub(a.began)}
}

const (
	// certain is the number by which more refusals must speak for a common limit than against it.
	certain = 3
	// mostBudgets bounds the budgets that are counted, and the origins.
	mostBudgets = 256
)

// common finds out whether the budgets of a site share one limit: a budget is then refused
// although it has waited, because others have succeeded meanwhile. The zero value has seen
// nothing.
type common struct {
	budgets map[string]*usage // :: budget → its use, of those that were refused
	latest  time.Time         // when the latest request was sent that succeeded
	score   int
	by      int // budgets that have raised it
}

// usage records the last refusal of a budget, and a success since.
type usage struct {
	succeeded bool      // since its last refusal
	refusedAt time.Time // its last refusal
	shared    bool      // it was refused although it had waited
}

// succeeded counts a success of a request that was sent at a time.
func (c *common) succeeded(sent time.Time, budget string) {
	if sent.After(c.latest) {
		c.latest = sent
	}
	if u := c.budgets[budget]; u != nil && sent.After(u.refusedAt) {
		u.succeeded = true
	}
}

// refused takes a refusal of a request that was sent at a time, and reports whether all
// budgets share the limit.
func (c *common) refused(now, sent time.Time, budget string) bool {
	u := c.budgets[budget]
	switch {
	case u == nil:
		if c.budgets == nil || len(c.budgets) >= mostBudgets {
			c.budgets, c.by = map[string]*usage{}, 0
		}
		u = &usage{}
		c.budgets[budget] = u
	case !sent.After(u.refusedAt): // of the same crowd of requests
		return c.found()
	case u.succeeded:
		c.score = max(c.score-1, 0)
	case c.latest.After(u.refusedAt):
		if c.score++; !u.shared {
			u.shared = true
			c.by++
		}
	}
	u.refusedAt, u.succeeded = now, false
	return c.found()
}

// found reports whether all budgets share the limit. One budget alone may be refused for itself.
func (c *common) found() bool { return c.score >= certain && c.by > 1 }

const (
	// longestAnswering is the time after a success in which a site that is unavailable may
	// refuse instead.
	longestAnswering = 10 * time.Minute
	// mostUnavailable times in a row, without a success, a site may be unavailable before that is
	// an outage.
	mostUnavailable = 10
	// failureLasts is the time after another failure for which a site is unavailable because it fails.
	failureLasts = 30 * time.Second
)

// unavailable decides whether an origin of a site that answers 503, and says no more, or closes connections, refuses or is out of
// order. Refusals that come whatever the rate is are told apart later. The zero value has seen nothing.
type unavailable struct {
	latest  time.Time // the last success
	inRow   int       // such answers since then
	at      time.Time // the last of these
	failsTo time.Time // until then the answers are failures

	closedAt time.Time // the last closed connection
	closings int       // rows of them, without a success between, and without long breaks
}

// closes takes a refusal by a closed connection, and reports whether it may be due to a restart of
// the site: no others came before.
func (u *unavailable) closes(now time.Time) (first bool) {
	switch {
	case now.Sub(u.closedAt) > longestAnswering:
		u.closings = 1
	case u.inRow == 1 && u.at.Equal(now) && !u.closedAt.Equal(now): // the first of its row
		u.closings++
	}
	u.closedAt = now
	return u.closings <= 1
}

// succeeded counts a success of a request that was sent at a time.
func (u *unavailable) succeeded(now, sent time.Time) {
	u.latest = now
	if sent.After(u.at) {
		u.inRow = 0
	}
}

// failed takes another failure of the site.
func (u *unavailable) failed(now time.Time) { u.failsTo = now.Add(failureLasts) }

// refuses takes an answer to a request that was sent at a time, and reports whether it is a
// refusal.
func (u *unavailable) refuses(now, sent time.Time) bool {
	if now.Before(u.failsTo) || u.latest.IsZero() || u.inRow == 0 && now.Sub(u.latest) > longestAnswering {
		return false
	}
	if sent.After(u.at) {
		u.inRow++
		u.at = now
	}
	return u.inRow <= mostUnavailable
}

const (
	// together is the longest time between refusals of two tokens on one route, if it is not the
	// tokens that are limited.
	together = 10 * time.Second
	// mostRefusals bounds the refusals of routes, whose names strangers choose.
	mostRefusals = 256
)

// refusals are a site's refusals that no announced limit explains. The zero value is empty.
// It is not safe for concurrent use.
type refusals struct {
	last map[string]refusal // :: route → the last refusal
}

// refusal is the last refusal of a route.
type refusal struct {
	budget string
	at     time.Time
}

// shared records that a route was refused with a budget, and reports whether another budget
// was refused shortly before: then the limit may not be the token's.
func (r *refusals) shared(now time.Time, route, budget string) bool {
	last, ok := r.last[route]
	if r.last == nil || len(r.last) >= mostRefusals {
		r.last = map[string]refusal{}
	}
	r.last[route] = refusal{budget, now}
	return ok && last.budget != budget && now.Sub(last.at) <= together
}
