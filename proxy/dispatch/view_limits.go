package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/forecast"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store/budget"
)

const (
	// sampleEvery is the time between two samples of the use of the limits.
	sampleEvery = 2 * time.Second
	// mostUsed bounds the limits of which the use is sampled.
	mostUsed = 10_000
)

// slotName names a meter: by its site, its limit and its key.
type slotName struct {
	site string
	at   queue.Scope
}

// limitUse finds the limits of the configuration that have a meter, and measures the rates at
// which those with long windows are used.
type limitUse struct {
	gate    *queue.Gate
	current *atomic.Pointer[Snapshot]
	budgets *budget.Keeper // nil: nothing is stored, and nothing shared

	mu    sync.Mutex
	known map[slotName]*forecast.Rate
}

// all returns the limits of the configuration that have a meter. It omits the trickle of limits
// of bytes, and limits that the configuration does not have any more.
func (u *limitUse) all() (list []*written) {
	var metered []*written
	u.gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		if at.Spec == nil || strings.HasSuffix(at.At.Limit, bandwidth.TrickleSuffix) {
			return
		}
		item := &written{now: now, at: at.At, spec: *at.Spec, shown: status.Limit{Site: at.Site, Limit: at.Title, Of: at.At.Key, Amount: at.Spec.Amount, Left: at.Left(now)}}
		if nothing := item.shown.Left == 0 && at.At.Key != ""; nothing && (u.budgets == nil || !u.budgets.Shared()) { // a shared meter would ask for more
			item.shown.Reset, _ = at.Meter.When(now, 1)
		} else if nothing {
			item.shown.Reset = (&forecast.Budget{Spec: item.spec, Amount: item.spec.Amount, Used: item.spec.Amount}).Forecast(now, 1).Done
		}
		if adaptive, ok := at.Meter.(interface{ Rate(now time.Time) float64 }); ok && at.Spec.Traits().Adapts {
			item.shown.Rate = adaptive.Rate(now)
		}
		metered = append(metered, item)
	})
	if len(metered) == 0 {
		return nil
	}
	st := u.current.Load()
	rules := st.writtenRules()
	var owners owners // made only where a limit belongs to a token
	for _, item := range metered {
		rule, shown := rules[item.at.Limit], &item.shown
		set := st.overrides[shown.Site] // in place of the rule's limits
		if rule == nil || set != nil && !slices.ContainsFunc(set.Limits, func(l plans.Limit) bool { return l.Need.Name == item.at.Limit }) {
			continue
		}
		shown.Unit, shown.Per, shown.By, shown.Window = string(rule.Unit), rule.Per.String(), string(rule.By), item.spec.Length().Seconds()
		if rule.Unit == policy.Bytes { // the part that trickles is in the title, too
			whole := bandwidth.Whole(shown.Amount)
			shown.Amount, shown.Left = whole, min(shown.Left+whole-shown.Amount, whole)
		}
		shown.Most = item.most()
		if !item.spec.Traits().Windowed {
			shown.Per = ""
		} else if u.budgets != nil {
			shown.Shared, shown.Kept = u.budgets.Shared() && item.spec.Shareable(), !u.budgets.Shared()
		}
		if shown.Of != "" {
			if owners.sites == nil {
				owners = st.owners()
			}
			if item.pool = owners.pool(st.policy, shown.Site); item.pool != "" {
				shown.Of = cmp.Or(owners.labels[item.pool][shown.Of], shown.Of)
			}
		}
		list = append(list, item)
	}
	return list
}

// sorted returns the limits of all in the order of sites, limits and keys.
func (u *limitUse) sorted() []*written {
	list := u.all()
	slices.SortFunc(list, func(x, y *written) int {
		a, b := &x.shown, &y.shown
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Of, b.Of))
	})
	return list
}

// sample samples the use of the limits.
func (u *limitUse) sample() {
	list := u.all()
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.known
	u.known = map[slotName]*forecast.Rate{}
	for _, l := range list {
		if !forecast.Covers(&l.spec) || len(u.known) >= mostUsed {
			continue
		}
		name := slotName{l.shown.Site, l.at}
		rate := before[name]
		if rate == nil {
			// All that was not used before the start was used since the last sample.
			used := l.used()
			if !l.shown.Shared {
				used = min(u.usedBefore(l), used)
			}
			rate = forecast.NewRate(l.now.Add(-sampleEvery), used)
		}
		u.known[name] = rate
		rate.Sample(l.now, l.used(), l.spec)
	}
}

// usedBefore returns the part of a limit that had been used when the process began. It tells that
// once for each limit.
func (u *limitUse) usedBefore(l *written) int64 {
	left, known := u.budgets.LeftBefore(l.shown.Site, l.at)
	if !known {
		return 0
	}
	return (&written{shown: status.Limit{Amount: l.spec.Amount, Left: left}, spec: l.spec}).used()
}

// rateOf returns the rate at which a limit is used lately, per second, and for how many seconds it
// was observed.
func (u *limitUse) rateOf(l *written) (perSecond, observed float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if rate := u.known[slotName{l.shown.Site, l.at}]; rate != nil {
		return rate.PerSecond(), rate.Observed().Seconds()
	}
	return 0, 0
}

// size counts the limits of which the use is sampled.
func (u *limitUse) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.known)
}

// writtenRules returns the limits as the operator has written them, by identity. Limits that
// differ only in the amount have the same identity.
func (st *Snapshot) writtenRules() map[string]*policy.Limit {
	rules := map[string]*policy.Limit{}
	all := slices.AppendSeq(slices.Collect(maps.Values(st.plans)), maps.Values(st.overrides))
	for _, p := range slices.AppendSeq(all, maps.Values(st.clients)) {
		for i := range p.Limits {
			rules[p.Limits[i].Need.Name] = p.Limits[i].Rule
		}
	}
	return rules
}

// written is a limit of the configuration: its state as it is shown, and its meter.
type written struct {
	shown status.Limit
	pool  string // of the token that it is of
	now   time.Time
	at    queue.Scope
	spec  limit.Spec
}

// used returns the used part of the limit, in its unit.
func (l *written) used() int64 { return max(l.most()-l.shown.Left, 0) }

// most returns the largest amount that can be left of the limit. A bucket never has more than
// its burst, so that an idle bucket is not taken for a used one.
func (l *written) most() int64 {
	return l.spec.AtOnce() + l.shown.Amount - l.spec.Amount // of bytes, Amount has the part that trickles as well
}

// Tokens returns the pools, and the limits that sites have announced to tokens or without one.
func (v *View) Tokens() status.Tokens {
	tokenLimits := slices.DeleteFunc(v.of.housekeeper.use.sorted(), func(l *written) bool { return l.pool == "" || l.shown.By != "token" || !l.spec.Traits().Windowed })
	return tokensOf(v.Pools(), v.Limits(), tokenLimits, v.of.clock.Now())
}

// Limits returns the limits that were learned and not forgotten yet, in order.
func (v *View) Limits() []LimitStatus {
	var found []LimitStatus // with the budget as the token
	cooling := map[slotName]time.Time{}
	v.of.gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		route, learned := v.of.storage.learned.ID(at.At.Limit)
		if !learned {
			return
		}
		item := LimitStatus{status.Announced{Site: at.Site, Route: route, Title: at.Title}, "", at.At.Key}
		if !item.read(now, at.Meter) {
			cooling[slotName{at.Site, at.At}] = at.Cooling
			return
		}
		item.Reset = status.Later(item.Reset, at.Cooling)
		found = append(found, item)
	})
	now := v.of.clock.Now()
	v.of.storage.learned.VisitSavedLimits(now, func(saved sites.SavedLimit) {
		item := LimitStatus{status.Announced{Site: saved.Site, Route: saved.Route, Title: saved.Title, Before: true}, "", saved.At.Key}
		if item.read(now, saved.Meter) {
			item.Reset = status.Later(item.Reset, cooling[slotName{saved.Site, saved.At}])
			found = append(found, item)
		}
	})
	st := v.of.Current()
	owners := st.owners()
	list := found[:0]
	for _, item := range found {
		budget := item.Token
		item.Pool = owners.pool(st.policy, item.Site)
		if item.Token = owners.labels[item.Pool][budget]; item.Token == "" && budget != "" && item.Pool != "" {
			continue // of a token that is not there any more
		}
		if b := v.of.storage.learned.Find(item.Site); b != nil && !item.Before {
			if _, exists := b.LimitOf(item.Route); !exists {
				continue // it was forgotten
			}
			item.Title, item.Route = b.Title(item.Route, item.Title), b.Route(item.Route)
		}
		list = append(list, item)
	}
	slices.SortFunc(list, func(a, b LimitStatus) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Token, b.Token), strings.Compare(a.Route, b.Route))
	})
	agree(list)
	return list
}

// Learned returns what Limits returns, without the tokens.
func (v *View) Learned() []status.Announced {
	return lists.Map(v.Limits(), func(l LimitStatus) status.Announced { return l.Announced })
}

// Named returns a function that names a limit of a site for people, with how it became known: "limit: 5 per 10s,
// announced by the site".
func (v *View) Named() func(site, limit string) string {
	names, p := map[[2]string]string{}, v.of.Current().policy
	for _, l := range v.WrittenLimits() {
		source := "of the defaults"
		if rule := p.RuleOf(l.Site); rule != nil && len(rule.Limits) > 0 {
			source = "written in " + cmp.Or(p.File, "the configuration")
		}
		names[[2]string{l.Site, l.Limit}] = "limit: " + l.Limit + ", " + source
	}
	for _, l := range v.Learned() {
		text, _, _ := l.Source()
		names[[2]string{l.Site, l.Title}], names[[2]string{l.Site, l.Label()}] = text, text
	}
	return func(site, limit string) string { return cmp.Or(names[[2]string{site, limit}], "limit: "+limit) }
}

// read sets what the meter of a learned limit knows. It returns false for other meters.
func (l *LimitStatus) read(now time.Time, m limit.Meter) bool {
	l.Limit, l.Remaining = -1, -1
	switch m := m.(type) {
	case *ledger.Ledger:
		got := m.Status(now)
		l.Limit, l.Remaining, l.Reset, l.Window, l.State, l.SoFar = got.Limit, got.Remaining, got.Reset, got.Window.Seconds(), got.State, got.SoFar
		if got.Foreign > 0 {
			l.Foreign = float64(got.Foreign) / float64(got.Foreign+got.Own)
		}
	case *ledger.HiddenRate:
		found := m.Found(now)
		l.State, l.Remaining, l.Window, l.AtRandom = status.Hidden, found.Left, found.Window.Seconds(), found.AtRandom
		l.SoFar, l.Blocked = found.SoFar && found.Limit > 0, found.Blocked
		if found.Limit > 0 {
			l.Limit = found.Limit
		}
	default:
		return false
	}
	return true
}

// agree gives all tokens the same window of a limit whose windows were measured: the shortest, as late requests make it
// longer.
func agree(list []LimitStatus) {
	least := map[[4]string]float64{}
	for range 2 { // the first time finds the least
		for i := range list {
			if l := &list[i]; l.Measured() {
				at := [4]string{l.Site, l.Pool, l.Route, l.Title}
				least[at] = min(cmp.Or(least[at], l.Window), l.Window)
				l.Window = least[at]
			}
		}
	}
}

// LimitStatus is the state of a limit that a site has announced, or that was found out, for one
// token or without a token.
type LimitStatus struct {
	status.Announced
	Pool, Token string // Token is "" without one
}

// tokensOf gives each token its limits. A token is spent if nothing is left of it for any route that the pool has a limit for.
func tokensOf(pools []status.Pool, limits []LimitStatus, tokenLimits []*written, now time.Time) status.Tokens {
	shown := status.Tokens{Pools: pools}
	by := map[[2]string][]status.Announced{} // :: pool and account → limits
	for i := range limits {
		if l := &limits[i]; l.Token == "" {
			shown.Limits = append(shown.Limits, l.Announced)
		} else {
			by[[2]string{l.Pool, l.Token}] = append(by[[2]string{l.Pool, l.Token}], l.Announced)
		}
	}
	writtenBy := map[[2]string][]status.Limit{}
	for _, l := range tokenLimits {
		writtenBy[[2]string{l.pool, l.shown.Of}] = append(writtenBy[[2]string{l.pool, l.shown.Of}], l.shown)
	}
	for n := range pools {
		p, routes := &pools[n], map[status.Routes]bool{}
		for i := range p.Tokens {
			t := &p.Tokens[i]
			t.Limits, t.Written = by[[2]string{p.Name, t.Account()}], writtenBy[[2]string{p.Name, t.Account()}]
			if len(t.Limits) > 0 { // which say the same, with the reset by which requests go
				t.Routes = slices.DeleteFunc(t.Routes, func(r status.Paused) bool { return r.Why == nothingLeft })
			}
			for _, l := range t.Limits {
				p.Before = p.Before || l.Before
				routes[status.Routes{Site: l.Site, Of: l.Route}] = true
			}
			for _, l := range t.Written {
				routes[status.Routes{Site: l.Site}] = true
			}
		}
		for i := range p.Tokens {
			if t := &p.Tokens[i]; t.State == "ready" && !t.UsedUp(routes, now).IsZero() {
				t.State, t.Until, t.Why = "spent", t.UsedUp(routes, now), nothingLeft
				if slices.ContainsFunc(t.Limits, status.Announced.TooLittle) {
					t.Why = tooLittleLeft
				}
				p.Ready--
			}
		}
	}
	return shown
}
