package dispatch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/status"
)

// Tokens returns the pools, and the limits that sites have announced to tokens or without one.
func (v *View) Tokens() status.Tokens {
	pools, st := v.Pools(), v.current.Load()
	owners := st.owners()
	for _, site := range v.storage.learned.Saved(status.MaxListed) {
		for i := range pools {
			pools[i].Before = pools[i].Before || pools[i].Name == owners.pool(st.policy, site)
		}
	}
	return tokensOf(pools, v.Limits(), v.clock.Now())
}

// TokenStates returns the pools without limits, which takes less time than Tokens.
func (v *View) TokenStates() status.Tokens { return status.Tokens{Pools: v.Pools()} }

// Limits returns the limits that were learned and not forgotten yet, in order.
func (v *View) Limits() []LimitStatus {
	type seen struct {
		budget string
		LimitStatus
	}
	var found []seen
	v.gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		route, learned := v.storage.learned.ID(at.At.Limit)
		if !learned {
			return
		}
		item := seen{at.At.Key, LimitStatus{Announced: status.Announced{Site: at.Site, Route: route, Title: at.Title, Limit: -1, Remaining: -1}}}
		switch m := at.Meter.(type) {
		case *ledger.Ledger:
			got := m.Status(now)
			item.Limit, item.Remaining, item.Reset, item.Window, item.State = got.Limit, got.Remaining, got.Reset, got.Window.Seconds(), got.State
			if got.Foreign > 0 {
				item.Foreign = float64(got.Foreign) / float64(got.Foreign+got.Own)
			}
		case *ledger.HiddenRate:
			found := m.Found(now)
			item.State, item.Remaining, item.Window = status.Hidden, found.Left, found.Window.Seconds()
			if found.Limit > 0 {
				item.Limit = found.Limit
			}
		default:
			return
		}
		if at.Cooling.After(item.Reset) {
			item.Reset = at.Cooling
		}
		found = append(found, item)
	})
	st := v.current.Load()
	owners := st.owners()
	list := make([]LimitStatus, 0, len(found))
	for i := range found {
		item := &found[i]
		if pool := owners.pool(st.policy, item.Site); pool != "" {
			item.Pool = pool
			if item.Token = owners.labels[pool][item.budget]; item.Token == "" && item.budget != "" {
				continue // of a token that is not there any more
			}
		}
		if b := v.storage.learned.Find(item.Site); b != nil {
			item.Title, item.Route = b.Title(item.Route, item.Title), b.Route(item.Route)
		}
		list = append(list, item.LimitStatus)
	}
	slices.SortFunc(list, func(a, b LimitStatus) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Token, b.Token), strings.Compare(a.Route, b.Route))
	})
	return list
}

// LimitStatus is the state of a limit that a site has announced, or that was found out, for one
// token or without a token.
type LimitStatus struct {
	status.Announced
	Pool, Token string // Token is "" without one
}

// tokensOf gives each token the limits of its account. A token is spent if nothing is left of it for any
// route that the pool has a limit for.
func tokensOf(pools []status.Pool, limits []LimitStatus, now time.Time) status.Tokens {
	shown := status.Tokens{Pools: pools}
	by := map[[2]string][]status.Announced{} // :: pool and account → limits
	for i := range limits {
		if l := &limits[i]; l.Token == "" {
			shown.Limits = append(shown.Limits, l.Announced)
		} else {
			by[[2]string{l.Pool, l.Token}] = append(by[[2]string{l.Pool, l.Token}], l.Announced)
		}
	}
	for n := range pools {
		p, routes := &pools[n], map[status.Routes]bool{}
		for i := range p.Tokens {
			t := &p.Tokens[i]
			t.Limits = by[[2]string{p.Name, t.Account()}]
			if len(t.Limits) > 0 { // which say the same, with the reset by which requests go
				t.Routes = slices.DeleteFunc(t.Routes, func(r status.Paused) bool { return r.Why == nothingLeft })
			}
			for _, l := range t.Limits {
				routes[status.Routes{Site: l.Site, Of: l.Route}] = true
			}
		}
		for i := range p.Tokens {
			if t := &p.Tokens[i]; t.State == "ready" && !t.UsedUp(len(routes), now).IsZero() {
				t.State, t.Until, t.Why = "spent", t.UsedUp(len(routes), now), nothingLeft
				p.Ready--
			}
		}
	}
	return shown
}
