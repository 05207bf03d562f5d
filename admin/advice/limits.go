package advice

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

// busyShare is the part of the time for which a limit must have held requests to be worth a
// word.
const busyShare = 0.1

// busyLimits are the limits that have held requests for much of the time.
func busyLimits(f *Facts) (list []status.Advice) {
	for _, b := range f.History[store.BlockedRows] {
		share := f.share(b)
		if share < busyShare || b.Site == store.Others || b.Limit == store.Others || f.followsRefusals(b) {
			continue
		}
		what, change := f.aboutLimit(b)
		if what == "" {
			continue
		}
		list = append(list, status.Advice{
			Site: b.Site, Weight: share, Change: change,
			Text: fmt.Sprintf("%s: %s has held requests for %s of the last hour.", b.Site, what, status.Long(min(b.Busy, f.elapsed()))),
		})
	}
	return list
}

// aboutLimit returns the title of a limit, and the change by which it would hold fewer requests. Both are
// "" where nothing can be said.
func (f *Facts) aboutLimit(b store.Row) (what, change string) {
	switch {
	case b.Limit == "retry", b.Limit == "cooldown", b.Limit == "outage":
		return status.LimitName(b.Limit), "Look at the site: the log and abide status say how it refuses or fails."
	case b.Limit == "token", b.Limit == "no token":
		return status.LimitName(b.Limit), f.moreTokens(b.Site)
	case b.Limit == "store" && f.storeSlows(b):
		return status.LimitName(b.Limit), "Look at the disk of its data directory, or at the store: abide status says how it is."
	}
	if written := f.limits(b.Site, b.Limit); len(written) > 0 {
		return fmt.Sprintf("the configured limit %q", b.Limit), f.changeWritten(b.Site, written)
	}
	announced := f.announced(b.Site, b.Limit)
	if len(announced) > 0 && announced[0].State == status.Hidden {
		return announced[0].Label() + ",", f.changeHidden(b.Site, announced)
	}
	if len(announced) > 0 {
		return fmt.Sprintf("the limit %q, which the site announces,", announced[0].Label()), f.changeAnnounced(b.Site, announced)
	}
	return "", "" // a backend, which outages names, a pause by the operator, or a limit that is not known any more
}

// storeSlows reports whether a site was sent less than its limits allow because its requests waited for the store: no limit
// was reached, and none held requests for longer.
func (f *Facts) storeSlows(b store.Row) bool {
	const reachedShare = 0.9 // the part of a limit that has to be sent for it to count as reached
	sent := float64(f.usage[b.Site].Requests) / f.elapsed().Seconds()
	return f.others(b.Site, "", f.usable(f.Pools[b.Site]), sent/reachedShare).limit == "" && !slices.ContainsFunc(f.History[store.BlockedRows], func(other store.Row) bool {
		return other.Site == b.Site && other.Busy > b.Busy
	})
}

// Raise returns the rate with one more token, or with twice a limit: "" where that is not known.
func Raise(f Facts, site, name string) string {
	if written := f.limits(site, name); len(written) > 0 {
		if limit := written[0]; limit.Unit == "requests" && limit.Window > 0 && limit.Rate == 0 {
			return f.changeWritten(site, written)
		}
		return ""
	}
	pause := name == "cooldown" || name == "retry"
	if pause {
		name = "" // of whichever limit the refusals were
	}
	if found := f.hidden(site, name); pause || len(found) > 0 {
		return f.changeHidden(site, found)
	}
	if announced := f.announced(site, name); len(announced) > 0 {
		return f.changeAnnounced(site, announced)
	}
	return ""
}

func (f *Facts) moreTokens(site string) string {
	if n := f.usable(f.Pools[site]); n > 0 {
		return fmt.Sprintf("One more token in the pool %s would give %s more.", f.Pools[site], percent(1/float64(n)))
	}
	return "More tokens would help."
}

// usageBy adds up what became of requests, by a part of their key.
func usageBy[K comparable](f *Facts, part func(store.Row) K) map[K]store.Row {
	by := map[K]store.Row{}
	for _, u := range f.History[store.UsageRows] {
		s := by[part(u)]
		s.Requests, s.Refusals, s.Waited = s.Requests+u.Requests, s.Refusals+u.Refusals, s.Waited+u.Waited
		by[part(u)] = s
	}
	return by
}

// changeWritten describes the effect of a larger limit in the configuration.
func (f *Facts) changeWritten(site string, limits []status.Limit) string {
	limit := limits[0]
	switch {
	case limit.Unit == "bytes":
		return "Twice the limit would halve the wait, if the site allows it."
	case limit.Rate > 0:
		return fmt.Sprintf("The limit adapts to how the site answers, and is at %s now. A larger max would help only if the site does not slow down.", status.RateText(limit.Rate))
	case limit.Window <= 0:
		return fmt.Sprintf("More than %d at once would help, if the site allows it.", limit.Amount)
	}
	budget := budget{int64(len(limits)), limit.Amount, status.DurationOf(limit.Window), 0}
	for _, one := range limits {
		budget.left += max(one.Left, 0)
	}
	if limit.By == "token" && f.usable(f.Pools[site]) > 0 {
		budget.meters = int64(max(f.usable(f.Pools[site]), 1))
		return f.oneMoreToken(budget, site, limit.Limit)
	}
	others := f.others(site, limit.Limit, f.usable(f.Pools[site]), 2*budget.perSecond())
	more := budget
	more.amount *= 2
	more.left += budget.meters * budget.amount
	return budget.raised("Twice the limit", more, f.ends(site, budget, more), others, others, ", if the site allows it")
}

// changeHidden describes what helps where a site refuses requests by limits that it does not announce, or at random.
func (f *Facts) changeHidden(site string, limits []status.Announced) string {
	if len(limits) == 0 {
		return ""
	}
	_, of, _ := strings.Cut(limits[0].Title, status.HiddenTitle) // its routes
	rule := fmt.Sprintf("such as limits: [{concurrency: %d", limits[0].Limit)
	switch l := limits[0]; {
	case l.SoFar && l.Window > 0: // the limit may be another
		rule = "as limits: [{requests: N, per: T"
	case l.SoFar:
		rule = "as limits: [{concurrency: N"
	case l.Window > 0 && l.Remaining >= 0: // a window was found
		rule = fmt.Sprintf("such as limits: [{requests: %d, per: %s", l.Limit, status.DurationOf(l.Window))
	case l.Window > 0: // one by one, as it was found: how much may come at once was not
		rule = fmt.Sprintf("such as limits: [{requests: 1, per: %s", time.Duration(math.Ceil(1e3*l.Window/float64(max(l.Limit, 1))))*time.Millisecond)
	}
	if route := strings.Fields(of); len(route) == 3 { // " for GET /search"; without it, the limit would hold the whole site
		rule += ", method: " + route[1] + ", path: " + route[2]
	} else if of != "" {
		rule += ", path: ..."
	}
	write := fmt.Sprintf(" If more is written under sites, abide forget %s lets that hold alone.", site)
	if !f.written(site) {
		write = fmt.Sprintf(" If you know its limit, write it under sites, %s}], and run abide forget %s: then nothing is refused to find it.", rule, site)
	}
	switch found := limits[0].FoundText(); {
	case slices.ContainsFunc(limits, status.Announced.Noise) && found == "":
		return site + " refuses some requests at random, whatever the rate is: abide sends them again, and nothing here makes them fewer."
	case found == "" && slices.ContainsFunc(f.History[store.BlockedRows], func(b store.Row) bool { return b.Site == site && b.Limit == "outage" }):
		return site + " answered no request with success for a time, and no refusal shows a limit."
	case found == "":
		return fmt.Sprintf("%s refused requests, and no limit is known that explains it: more requests will tell whether it has one, or refuses some at random.", site)
	case limits[0].Blocked:
		return fmt.Sprintf("%s refused everything for a while after too many requests: abide keeps to %s since then, and tries no higher rate, because the site may refuse everything again.", site, found+of) + write
	case limits[0].SoFar:
		return fmt.Sprintf("%s accepts %s: it may accept more, or refuse some requests at random.", site, found+of) + write
	case f.usable(f.Pools[site]) == 0:
		return fmt.Sprintf("%s accepts %s, and does not say so: fewer requests, or an account of which it allows more, would help.", site, found+of) + write
	}
	return f.changeAnnounced(site, limits)
}

// changeAnnounced describes the effect of another token on a limit of the site's own.
func (f *Facts) changeAnnounced(site string, limits []status.Announced) string {
	n := f.usable(f.Pools[site])
	if n == 0 {
		return "The limit is the site's own: fewer requests, or an account of which the site allows more, would help."
	}
	announced := limits[0]
	if announced.Limit <= 0 || announced.Window <= 0 {
		return f.moreTokens(site)
	}
	remaining := int64(0)
	for _, l := range limits {
		remaining += max(l.Remaining, 0)
	}
	return f.oneMoreToken(budget{int64(n), announced.Limit, status.DurationOf(announced.Window), remaining}, site, announced.Name())
}

// ceiling is the lowest rate, below the one that is wanted, that limits allow, and the title of the limit; "": no limit
// is in the way now. until is the title of the limit that will be the first in the way, soon.
type ceiling struct {
	perSecond    float64
	limit, until string
}

const (
	// momentUsed is the time for which enough must be left of a limit at the new rate not to be in the way now.
	momentUsed = time.Minute
	// soonUsed is the time within which a limit has to be used up at the new rate to be worth a word.
	soonUsed = time.Hour
)

// others is the ceiling of all limits of a site but one, with so many tokens, where a rate is wanted.
func (f *Facts) others(site, but string, tokens int, rate float64) (lowest ceiling) {
	limits := map[string]budget{}
	add := func(limit string, amount, left int64, window float64, byToken bool) {
		meters := 1
		if byToken {
			meters = max(tokens, 1)
		}
		if limit != but && amount > 0 && window > 0 {
			limits[limit] = budget{meters: int64(meters), amount: amount, window: status.DurationOf(window), left: limits[limit].left + max(left, 0)}
		}
	}
	for _, l := range f.Limits {
		if l.Site == site && l.Unit == "requests" && l.Rate == 0 && (l.By == "" || l.By == "token") {
			add(l.Limit, l.Amount, l.Left, l.Window, l.By == "token")
		}
	}
	for _, l := range f.announced(site, "") {
		add(l.Name(), l.Limit, l.Remaining, l.Window, f.usable(f.Pools[site]) > 0)
	}
	first := soonUsed.Seconds()
	for _, limit := range slices.Sorted(maps.Keys(limits)) {
		perSecond, lasts := limits[limit].perSecond(), float64(limits[limit].left)/rate
		switch {
		case perSecond >= rate:
		case lasts > momentUsed.Seconds() && lasts < first:
			first, lowest.until = lasts, limit
		case lasts <= momentUsed.Seconds() && (lowest.limit == "" || perSecond < lowest.perSecond):
			lowest.perSecond, lowest.limit = perSecond, limit
		}
	}
	return lowest
}

// oneMoreToken describes the effect of one more token on a limit that each token has.
func (f *Facts) oneMoreToken(b budget, site, limit string) string {
	more := b
	more.meters++
	more.left += b.amount
	what := "One more token in the pool " + f.Pools[site]
	before := f.others(site, limit, int(b.meters), b.perSecond())
	return b.raised(what, more, f.ends(site, b, more), before, f.others(site, limit, int(more.meters), more.perSecond()), "")
}

// budget is a limit of which several have their own.
type budget struct {
	meters int64 // how many have their own
	amount int64 // of each
	window time.Duration
	left   int64 // of all
}

// perSecond returns the rate of all of the limit.
func (b budget) perSecond() float64 { return float64(b.meters*b.amount) / b.window.Seconds() }

// windows returns the number of windows that have to begin before so many requests have gone.
func (b budget) windows(requests int) time.Duration {
	all := max(b.meters*b.amount, 1)
	return time.Duration(max(int64(requests)-b.left+all-1, 0) / all)
}

// raised describes the effect of a change. The ceilings of the other limits, before and after it, may make
// the effect smaller. ends says what becomes of the requests that wait, and provided ends the sentence where the change helps.
func (b budget) raised(what string, more budget, ends string, before, after ceiling, provided string) string {
	now, then := b.perSecond(), more.perSecond()
	if before.limit != "" {
		now = min(now, before.perSecond)
	}
	switch {
	case after.limit == "" && after.until != "":
		return fmt.Sprintf("%s would raise %s to %s, until %q is used up%s.", what, status.RateText(now), status.RateText(then), after.until, provided)
	case after.limit == "":
		return fmt.Sprintf("%s would raise %s to %s%s%s.", what, status.RateText(now), status.RateText(then), ends, provided)
	case after.perSecond > now*1.01:
		return fmt.Sprintf("%s would raise %s to %s, which %q allows%s.", what, status.RateText(now), status.RateText(after.perSecond), after.limit, provided)
	}
	return fmt.Sprintf("%s would not help: %q allows %s.", what, after.limit, status.RateText(after.perSecond))
}

// ends says when the requests that wait at a site will have gone: with a limit as it is, as the queue expects, and with
// more of it, by which fewer windows have to begin.
func (f *Facts) ends(site string, now, then budget) string {
	waits := f.Waiting[site]
	sooner := (now.windows(waits.Held) - then.windows(waits.Held)) * now.window
	if waits.Held < 2 || sooner < time.Second {
		return ""
	}
	last := waits.Last()
	if last.IsZero() {
		return ""
	}
	at := status.Later(last.Add(-sooner), f.Now)
	return fmt.Sprintf(", and the %d requests that wait now would have gone by %s instead of %s UTC", waits.Held, clock(at, f.Now), clock(last, f.Now))
}

// belowAnnounced are limits of the configuration that hold requests, and are below what their
// site announces.
func belowAnnounced(f *Facts) (list []status.Advice) {
	for _, b := range f.History[store.BlockedRows] {
		written := f.limits(b.Site, b.Limit)
		if len(written) == 0 || f.share(b) < busyShare/10 {
			continue
		}
		limit := written[0]
		if limit.Unit != "requests" || limit.Window <= 0 || limit.Amount <= 0 {
			continue
		}
		ofConfig, site := float64(limit.Amount)/limit.Window, leastAnnounced(f.announced(b.Site, ""))
		if site <= ofConfig*1.1 {
			continue
		}
		list = append(list, status.Advice{
			Site: b.Site, Weight: f.share(b),
			Text:   fmt.Sprintf("%s: the configured limit %q (%s) is below the %s that the site announces.", b.Site, b.Limit, status.RateText(ofConfig), status.RateText(site)),
			Change: "Raise or remove the configured limit: abide keeps the announced one by itself.",
		})
	}
	return list
}

// leastAnnounced is the lowest rate that a site announces, per second; 0: none is known.
func leastAnnounced(limits []status.Announced) (lowest float64) {
	for _, one := range limits {
		if perSecond := float64(one.Limit) / one.Window; one.Limit > 0 && one.Window > 0 && (lowest == 0 || perSecond < lowest) {
			lowest = perSecond
		}
	}
	return lowest
}
