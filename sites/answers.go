package sites

import (
	"cmp"
	"path"
	"slices"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/sites/routes"
	"github.com/abide-proxy/abide/status"
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

// whose returns the key of the ledger of a limit, which counts all credentials together if site is true.
func (a *Answer) whose(site bool) string {
	if site && !a.Backend {
		return ""
	}
	return a.Budget
}

const (
	// together is the longest time between refusals of two tokens on one route, if it is not the
	// tokens that are limited.
	together = 10 * time.Second
	// certain is the score from which on a limit is one of all budgets. A refusal counts twice if its budget has waited for longer
	// than any budget needed from a refusal to its next success: see answers.refused.
	certain = 5
	// A route is taken to have a limit of its own if it is as improbable that one of all routes has refused it alone: at the first refusal
	// of a site, and later. So many requests more than were accepted of the route are counted as such, so that few say little.
	unlikeAtFirst, unlikeFor, fewAccepted = 0.5, 0.04, 4
	// unlikely is at most the probability that a limit refuses a route so far below its rate.
	unlikely = 0.1
	// mostNames bounds the budgets, routes and origins that are counted: strangers choose their names.
	mostNames = 256
)

// answers counts a site's successes, and finds out from its refusals whether all budgets share one limit, and whether a route has one of
// its own. The zero value has counted none.
type answers struct {
	successes int64
	latest    time.Time // the last success
	anew      time.Time // what was accepted before says nothing of a rate

	all     use
	budgets map[string]*use // :: budget →
	routes  map[string]*use // :: template of a route →

	score   int           // by how much more refusals speak for a limit of all budgets than against it
	longest time.Duration // from the first refusal of a budget to its next success

	alone  string // the template of the routes that were refused last
	runs   int    // how often that was another template than before
	pace   pace
	chance float64 // the probability that in so many runs a limit of all routes refuses none but these so often
	whose  string  // the budget that was refused last
	at     time.Time

	origins map[string]*unavailable // :: Answer.Origin → whether it is unavailable: others do not count for it
}

// use counts the requests of a budget, or of the routes of a template.
type use struct {
	accepted int64 // without long breaks
	starts   ledger.Starts
	sent     time.Time // when the latest that succeeded was sent
	refused  time.Time // the last refusal
	since    time.Time // the first one since the last success; zero: none
	shared   bool      // one of its refusals speaks for a limit of all budgets
}

// of returns what is known of a name.
func of[T any](all *map[string]*T, name string) *T {
	known := (*all)[name]
	if known == nil {
		if *all == nil || len(*all) >= mostNames {
			*all = map[string]*T{}
		}
		known = new(T)
		(*all)[name] = known
	}
	return known
}

// add counts a success of a request of a route that was sent at a time to an origin.
func (a *answers) add(now, sent time.Time, route, budget, origin string) {
	for _, u := range []*use{&a.all, of(&a.budgets, budget), of(&a.routes, route)} {
		if !u.sent.After(a.anew) {
			u.accepted, u.starts = 0, nil
		}
		u.starts = u.starts.Add(ledger.Start{At: sent, Before: u.accepted}, u.sent)
		u.accepted, u.sent = u.accepted+1, status.Later(u.sent, sent)
	}
	if u := of(&a.budgets, budget); !u.since.IsZero() && sent.After(u.refused) {
		a.longest, u.since = max(a.longest, sent.Sub(u.since)), time.Time{}
	}
	a.successes++
	a.latest = now
	if len(a.budgets) > 1 { // each may have a limit of its own
		a.pace = pace{of: a.pace.of}
	}
	a.pace.accept(sent, route)
	of(&a.origins, origin).succeeded(now, sent)
}

// history counts the requests that a limit of a budget that is found now has accepted so far; of
// all budgets together if together is true, and of the routes of a template, unless that is empty.
func (a *answers) history(now time.Time, route, budget string, together bool) ledger.History {
	u := &a.all
	if !together {
		u = of(&a.budgets, budget)
	}
	if r := of(&a.routes, route); route != "" && r.accepted < u.accepted {
		u = r
	}
	if len(u.starts) == 0 {
		return ledger.History{}
	}
	return ledger.History{Accepted: u.accepted, Lasted: now.Sub(u.starts[0].At), Starts: slices.Clone(u.starts)}
}

// refused takes a refusal of a request that was sent at a time. all: all budgets share the limit: they are refused although they have
// waited; near: another was refused on the same route just now, so that it may be.
func (a *answers) refused(now, sent time.Time, route, budget string) (all, near bool) {
	u, again := of(&a.routes, route), a.alone == route
	near = again && a.whose != budget && now.Sub(a.at) <= together
	a.whose, a.at = budget, now
	others, sum, alike := time.Time{}, int64(fewAccepted), fewAccepted+u.accepted
	for name, o := range a.routes {
		if sum += o.accepted; o == u {
			continue
		}
		others = status.Later(others, o.sent)
		if within, _ := path.Match(route, name); within || max(o.accepted, u.accepted) < 2 {
			alike += o.accepted // a name that has become this route, or a URL that was asked for once, as this one: the limit may have met any
		}
	}
	share, short := float64(alike)/float64(sum), a.pace.of != route && a.pace.short(now) && len(a.routes) > 1
	if short {
		share = min(share, unlikely)
	}
	switch {
	case !again:
		a.runs++
		a.alone, a.chance, u.refused = route, share*float64(a.runs), now
	case sent.After(u.refused) && (short || others.After(u.refused)):
		a.chance, u.refused = a.chance*share, now
	}
	u = of(&a.budgets, budget)
	if !u.since.IsZero() && sent.After(u.refused) && a.all.sent.After(u.refused) && sent.Sub(u.since) > a.longest {
		a.weigh(budget, 2)
	}
	if sent.After(u.refused) {
		u.refused = now
	}
	if u.since.IsZero() {
		u.since = now
	}
	by := 0 // one budget alone may be refused for itself
	for _, o := range a.budgets {
		if o.shared {
			by++
		}
	}
	return a.score >= certain && by > 1, near
}

// weigh takes by how much a refusal of a budget speaks for a limit of all budgets.
func (a *answers) weigh(budget string, by int) {
	u := of(&a.budgets, budget)
	a.score, u.shared = max(a.score+by, 0), u.shared || by > 0
}

// only reports whether no other route has answered yet. With several budgets each may have a limit, whatever the route.
func (a *answers) only(route string) bool {
	for name, u := range a.routes {
		if name != route && u.accepted > 0 {
			return false
		}
	}
	return len(a.budgets) < 2
}

// mostly returns a route if most requests that have succeeded were of it, so that its limit may be taken for one of all; else "".
func (a *answers) mostly(route string) string {
	if u := a.routes[route]; u != nil && 5*u.accepted >= 4*a.all.accepted {
		return route
	}
	return ""
}

// ofRoute reports whether the route that was refused last has a limit of its own, by the probability of one of all routes.
func (a *answers) ofRoute(chance float64) bool { return a.alone != "" && a.chance <= chance }

const (
	// longestAnswering is the time after a success in which a site that is unavailable may
	// refuse instead.
	longestAnswering = 10 * time.Minute
	// longestUnavailable is the time after the first such answer in a row in which the next ones may be refusals. Later ones are
	// those of an outage.
	longestUnavailable = 5 * time.Minute
	// failureLasts is the time after another failure for which a site is unavailable because it fails.
	failureLasts = 30 * time.Second
)

// unavailable decides whether an origin of a site that answers 503, and says no more, or closes connections, refuses or is out of
// order. Refusals that come whatever the rate is are told apart later. The zero value has seen nothing.
type unavailable struct {
	latest  time.Time // the last success
	since   time.Time // the first such answer since then; zero: none
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
	case u.since.Equal(now) && !u.closedAt.Equal(now): // the first of its row
		u.closings++
	}
	u.closedAt = now
	return u.closings <= 1
}

// succeeded counts a success of a request that was sent at a time.
func (u *unavailable) succeeded(now, sent time.Time) {
	u.latest = now
	if sent.After(u.at) {
		u.since = time.Time{}
	}
}

// failed takes another failure of the site.
func (u *unavailable) failed(now time.Time) { u.failsTo = now.Add(failureLasts) }

// refuses takes an answer to a request that was sent at a time, and reports whether it is a
// refusal.
func (u *unavailable) refuses(now, sent time.Time) bool {
	if now.Before(u.failsTo) || u.latest.IsZero() || u.since.IsZero() && now.Sub(u.latest) > longestAnswering {
		return false
	}
	if sent.After(u.at) {
		u.since, u.at = cmp.Or(u.since, now), now
	}
	return now.Sub(u.since) <= longestUnavailable
}
