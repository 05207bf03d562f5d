package proxy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/queue"
)

// LimitStatus is how a limit stands that a site has announced, or that was found
// out, for one token or for nobody's.
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
func (s *Server) Limits() []LimitStatus {
	type seen struct {
		budget string
		LimitStatus
	}
	var all []seen
	s.gate.Slots(func(now time.Time, at queue.SlotNow) {
		route, learned := strings.CutPrefix(at.At.Limit, learnedPrefix)
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
		case *ledger.Pace:
			one.State, one.Remaining = "hidden", m.Left(now)
		default:
			return
		}
		if at.Cooling.After(one.Reset) {
			one.Reset = at.Cooling
		}
		all = append(all, one)
	})
	owners := s.owners()
	list := make([]LimitStatus, 0, len(all))
	for i := range all {
		one := &all[i]
		if pool := owners.pool(s, one.Site); pool != "" {
			one.Pool = pool
			if one.Token = owners.labels[pool][one.budget]; one.Token == "" && one.budget != "" {
				continue // of a token that is not there any more
			}
		}
		if b := s.books.of(one.Site, false); b != nil {
			one.Title, one.Route = b.title(one.Route, one.Title), b.name(one.Route)
		}
		list = append(list, one.LimitStatus)
	}
	slices.SortFunc(list, func(a, b LimitStatus) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Token, b.Token), strings.Compare(a.Route, b.Route))
	})
	return list
}

// owners says which pool and token a budget of a site is.
type owners struct {
	sites  map[string]string            // :: site → pool
	labels map[string]map[string]string // :: pool → budget → labels
}

func (s *Server) owners() owners {
	o := owners{map[string]string{}, map[string]map[string]string{}}
	for _, pool := range s.Pools() {
		by := map[string]string{}
		for i := range pool.Tokens {
			t := &pool.Tokens[i]
			if by[t.Budget] != "" {
				by[t.Budget] += ", "
			}
			by[t.Budget] += t.Label
		}
		o.labels[pool.Name] = by
	}
	return o
}

// pool is the one of a site, "" if it has none.
func (o *owners) pool(s *Server, site string) string {
	name, known := o.sites[site]
	if known {
		return name
	}
	if rule := s.ruleOf(site); rule != nil {
		name = rule.Pool
	}
	o.sites[site] = name
	return name
}

// ruleOf is the rule that a site's name comes from, nil if there is none.
func (s *Server) ruleOf(site string) *policy.Site { return s.policy().RuleOf(site) }
