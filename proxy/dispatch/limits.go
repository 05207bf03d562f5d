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

// LimitStatus is how a limit stands that a site has announced, or that was found
// out, for one token or without a token.
type LimitStatus struct {
	Site, Pool, Token string // Token is "" without one
	Route             string // which of the site's limits
	Title, State      string
	Limit, Remaining  int64     // -1: not known
	Reset             time.Time // zero: not known
	Window            time.Duration
	Foreign           float64 // the share that others use, 0 to 1
}

// Limits are all that were learned and not forgotten yet, in order.
func (v *View) Limits() []LimitStatus {
	type seen struct {
		budget string
		LimitStatus
	}
	var all []seen
	v.gate.VisitLoadedResources(func(now time.Time, at queue.ResourceInfo) {
		route, learned := v.kept.learned.ID(at.At.Limit)
		if !learned {
			return
		}
		one := seen{at.At.Key, LimitStatus{Site: at.Site, Route: route, Title: at.Title, Limit: -1, Remaining: -1}}
		switch m := at.Meter.(type) {
		case *ledger.Ledger:
			is := m.Status(now)
			one.Limit, one.Remaining, one.Reset, one.Window, one.State = is.Limit, is.Remaining, is.Reset, is.Window, is.State
			if is.Foreign > 0 {
				one.Foreign = float64(is.Foreign) / float64(is.Foreign+is.Own)
			}
		case *ledger.HiddenRate:
			found := m.Found(now)
			one.State, one.Remaining, one.Window = status.Hidden, found.Left, found.Window
			if found.Limit > 0 {
				one.Limit = found.Limit
			}
		default:
			return
		}
		if at.Cooling.After(one.Reset) {
			one.Reset = at.Cooling
		}
		all = append(all, one)
	})
	st := v.current.Load()
	owners := st.owners(v.clock.Now())
	list := make([]LimitStatus, 0, len(all))
	for i := range all {
		one := &all[i]
		if pool := owners.pool(st.policy, one.Site); pool != "" {
			one.Pool = pool
			if one.Token = owners.labels[pool][one.budget]; one.Token == "" && one.budget != "" {
				continue // of a token that is not there any more
			}
		}
		if b := v.kept.learned.Find(one.Site); b != nil {
			one.Title, one.Route = b.Title(one.Route, one.Title), b.Route(one.Route)
		}
		list = append(list, one.LimitStatus)
	}
	slices.SortFunc(list, func(a, b LimitStatus) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Token, b.Token), strings.Compare(a.Route, b.Route))
	})
	return list
}
