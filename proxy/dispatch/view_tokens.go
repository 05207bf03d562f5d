package dispatch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/tokens"
)

// Tokens returns the pools, and the limits that sites have announced to tokens or without one.
func (v *View) Tokens() status.Tokens { return tokensOf(v.Pools(), v.Limits()) }

// TokenStates returns the pools without limits, which takes less time than Tokens.
func (v *View) TokenStates() status.Tokens { return tokensOf(v.Pools(), nil) }

// tokensOf gives each token the limits of its account.
func tokensOf(pools []PoolStatus, limits []LimitStatus) (all status.Tokens) {
	by := map[string]map[string][]status.Announced{} // :: pool → whose it is → limits
	for _, one := range limits {
		if one.Token == "" {
			all.Limits = append(all.Limits, announced(one))
			continue
		}
		if by[one.Pool] == nil {
			by[one.Pool] = map[string][]status.Announced{}
		}
		by[one.Pool][one.Token] = append(by[one.Pool][one.Token], announced(one))
	}
	for _, p := range pools {
		pool := status.Pool{Name: p.Name, Ready: p.Ready}
		for i := range p.Tokens {
			token := tokenOf(&p.Tokens[i])
			token.Limits = by[p.Name][token.Account()]
			pool.Tokens = append(pool.Tokens, token)
		}
		all.Pools = append(all.Pools, pool)
	}
	return all
}

// tokenOf converts the state of a token.
func tokenOf(s *tokens.Status) status.Token {
	t := status.Token{
		Label: s.Label, State: s.State.String(), Until: s.Until, Why: s.Why, Fingerprint: s.Fingerprint, Twins: s.Twins,
		Uses: s.Uses, Refusals: s.Refusals, Denials: s.Denials, Accepted: s.Accepted, Throttled: s.Throttled,
	}
	for _, one := range s.Routes {
		t.Routes = append(t.Routes, status.Paused{Route: one.Route, State: one.State.String(), Until: one.Until, Why: one.Why})
	}
	return t
}

// announced is a limit that a site has announced.
func announced(limitStatus LimitStatus) status.Announced {
	return status.Announced{
		Site: limitStatus.Site, Route: limitStatus.Route, Title: limitStatus.Title, Limit: limitStatus.Limit, Remaining: limitStatus.Remaining,
		Reset: limitStatus.Reset, Window: limitStatus.Window.Seconds(), State: limitStatus.State, Foreign: limitStatus.Foreign,
	}
}

// LimitStatus is the state of a limit that a site has announced, or that was found out, for one
// token or without a token.
type LimitStatus struct {
	Site, Pool, Token string // Token is "" without one
	Route             string // which of the site's limits
	Title, State      string
	Limit, Remaining  int64     // -1: not known
	Reset             time.Time // zero: not known
	Window            time.Duration
	Foreign           float64 // the share that others use, 0 to 1
}

// Limits returns the limits that were learned and not forgotten yet, in order.
func (v *View) Limits() []LimitStatus {
	type seen struct {
		budget string
		LimitStatus
	}
	var all []seen
	v.gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		route, learned := v.storage.learned.ID(at.At.Limit)
		if !learned {
			return
		}
		item := seen{at.At.Key, LimitStatus{Site: at.Site, Route: route, Title: at.Title, Limit: -1, Remaining: -1}}
		switch m := at.Meter.(type) {
		case *ledger.Ledger:
			got := m.Status(now)
			item.Limit, item.Remaining, item.Reset, item.Window, item.State = got.Limit, got.Remaining, got.Reset, got.Window, got.State
			if got.Foreign > 0 {
				item.Foreign = float64(got.Foreign) / float64(got.Foreign+got.Own)
			}
		case *ledger.HiddenRate:
			found := m.Found(now)
			item.State, item.Remaining, item.Window = status.Hidden, found.Left, found.Window
			if found.Limit > 0 {
				item.Limit = found.Limit
			}
		default:
			return
		}
		if at.Cooling.After(item.Reset) {
			item.Reset = at.Cooling
		}
		all = append(all, item)
	})
	st := v.current.Load()
	owners := st.owners(v.clock.Now())
	list := make([]LimitStatus, 0, len(all))
	for i := range all {
		item := &all[i]
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
