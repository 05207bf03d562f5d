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
		if b := v.kept.learned.Find(item.Site); b != nil {
			item.Title, item.Route = b.Title(item.Route, item.Title), b.Route(item.Route)
		}
		list = append(list, item.LimitStatus)
	}
	slices.SortFunc(list, func(a, b LimitStatus) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Token, b.Token), strings.Compare(a.Route, b.Route))
	})
	return list
}
