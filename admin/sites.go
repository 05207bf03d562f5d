package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// Bounds of a list of sites: how many are listed when nobody asks for more, and how many at
// most.
const (
	usualSites = 1000
	mostSites  = 10_000
)

// sites answers what is asked about sites.
type sites struct {
	o      *Options
	limits *limits
}

// list tells of all sites that are known, those with the most bytes first.
func (s *sites) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	query, err := queryOf(r, "limit", "recorded")
	most, wrong := numberOf(query, "limit", usualSites, 1, mostSites)
	recorded := query.Get("recorded") != "false"
	if query.Has("recorded") && recorded && query.Get("recorded") != "true" {
		wrong = cmp.Or(wrong, errors.New("recorded must be true or false"))
	}
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	all := s.now(r.Context(), "", recorded)
	list := status.SiteList{Sites: make([]status.Site, 0, min(len(all), most)), Count: len(all), More: len(all) > most}
	order := slices.SortedFunc(maps.Values(all), func(a, b *status.Site) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	for _, one := range order[:min(len(order), most)] {
		list.Sites = append(list.Sites, one.Normalize())
	}
	return list, nil
}

// one tells of a site.
func (s *sites) one(_ http.ResponseWriter, r *http.Request, name string) (any, error) {
	site := s.now(r.Context(), name, true)[name]
	if site == nil {
		return nil, status.Missing("nothing is known of a site " + quoted(name))
	}
	return site.Normalize(), nil
}

// now are the sites of which anything is known, or the one of a name. Without recorded traffic
// the state file is not read.
func (s *sites) now(ctx context.Context, name string, recorded bool) map[string]*status.Site {
	all := s.used(name, s.o.Proxy.Holds(name, status.MaxHolds))
	// Those that a rule names, and those of which something was learned, are known although no request has come since the start.
	for _, site := range slices.Concat(s.limits.policy().SiteNames(mostSites), s.o.Proxy.LearnedSites(mostSites)) {
		s.add(site, name, all)
	}
	if recorded {
		s.addRecorded(ctx, name, all)
	}
	losing := status.Losing(s.o.Process.Advice(time.Now()).Advice)
	for site, known := range all {
		known.Loses = losing[site]
	}
	return all
}

// used are the sites that were used since the start, or of which something was set at run time,
// with the requests that wait; or the one of a name.
func (s *sites) used(name string, holds []status.Hold) map[string]*status.Site {
	all := map[string]*status.Site{}
	at := func(site string) *status.Site {
		if name != "" && site != name {
			return &status.Site{} // nobody wants to know
		}
		if all[site] == nil {
			all[site] = &status.Site{Counts: status.Counts{Name: site}}
		}
		return all[site]
	}
	_, lately := s.o.History.Lately(time.Now())
	for _, one := range s.o.Metrics.Sites() {
		known := at(one.Name)
		known.Counts, known.Lately, known.Refusals = one.Counts, lately[one.Name], one.Refusals
		known.Unread = unreadOf(s.limits.policy(), one)
	}
	for _, one := range s.limits.now(name) {
		known := at(one.Site)
		known.Limits = append(known.Limits, one)
	}
	for site := range s.limits.proxy.Overrides() {
		at(site).Set = true
	}
	for site, known := range all {
		if rule := s.limits.policy().RuleOf(site); rule != nil {
			known.Pool = rule.Pool
		}
	}
	for site, pause := range s.o.Proxy.Pauses() {
		at(site).Paused = &pause
	}
	for _, one := range holds {
		known := at(one.Site)
		known.Held, known.LongestWait = known.Held+1, max(known.LongestWait, one.Waited)
	}
	for site, why := range status.SumWaits(holds).Most {
		at(site).LimitedBy = why
	}
	for _, one := range s.o.Proxy.Breakers() {
		if one.State == "closed" {
			continue
		}
		one.Until = one.Until.UTC()
		known := at(one.Site)
		if one.Backend == "" {
			known.Breaker = one.State
		}
		known.Breakers = append(known.Breakers, one)
	}
	return all
}

// recordedFor is the age up to which traffic makes a site known.
const recordedFor = 30 * 24 * time.Hour

// add adds a site unless it is there. It returns nil if there are too many, or if name is of
// another site.
func (s *sites) add(site, name string, all map[string]*status.Site) *status.Site {
	if name != "" && site != name {
		return nil
	}
	if known := all[site]; known != nil || len(all) >= mostSites {
		return known
	}
	limits, set := s.limits.of(site)
	all[site] = &status.Site{Counts: status.Counts{Name: site}, Set: set, Limits: unusedLimits(s.limits.policy(), site, limits)}
	return all[site]
}

// addRecorded adds recorded traffic, and the sites that had some. Only name is added, unless
// it is "".
func (s *sites) addRecorded(ctx context.Context, name string, all map[string]*status.Site) {
	now := time.Now()
	recorded, err := s.o.Process.Bandwidth(ctx, name, now.Add(-recordedFor), now, 0)
	if err != nil {
		return // a state file that fails is told by /readyz, and hides no site that runs
	}
	for _, one := range recorded {
		if known := s.add(one.Site, name, all); known != nil {
			known.Recorded = &status.Recorded{Requests: one.Requests, In: one.In, Out: one.Out}
		}
	}
}

// unusedLimits are the limits of a site that nobody has taken from since the start. A
// limit of a store that others share may be used by them, so nobody knows what is left.
func unusedLimits(p *policy.Policy, site string, limits []policy.Limit) []status.Limit {
	var list []status.Limit
	add := func(limits []policy.Limit, of string) {
		for i := range limits {
			l := &limits[i]
			limit := status.Limit{Site: site, Limit: l.Title(), Of: of, Amount: l.Amount, Left: l.Amount, Unit: string(l.Unit)}
			if l.Traits().Burst {
				limit.Left = l.Burst
			}
			if l.Traits().Windowed {
				limit.Per = l.Per.String()
				limit.Shared = p.Store.Shared() && l.Shared()
				limit.Kept = p.Data != "none" && !p.Store.Shared()
			}
			if limit.Shared || l.Traits().Adapts {
				limit.Left = -1
			}
			list = append(list, limit)
		}
	}
	rule := p.RuleOf(site)
	if rule == nil || len(rule.Backends) == 0 {
		add(limits, "")
		return list
	}
	for i := range rule.Backends {
		if b := &rule.Backends[i]; b.Own {
			add(b.Limits, b.Name)
		} else {
			add(limits, b.Name)
		}
	}
	return list
}

// usualHolds is the number of waiting requests that the API lists, unless it is asked for more.
const usualHolds = 1000

// listHolds lists what waits: of one site with ?site=, at most ?limit= of them.
func listHolds(from Proxy, _ http.ResponseWriter, r *http.Request) (any, error) {
	query, err := anyQuery(r)
	most, wrong := numberOf(query, "limit", usualHolds, 1, status.MaxHolds)
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	list := from.Holds(query.Get("site"), most+1)
	more := len(list) > most
	list = append([]status.Hold{}, list[:min(len(list), most)]...)
	for i := range list {
		list[i].Until, list[i].Expected = list[i].Until.UTC(), list[i].Expected.UTC()
	}
	return status.HoldList{Holds: list, More: more}, nil
}

// forecast tells of ?site=, or of all, and when ?requests= more would be done.
func forecast(from Proxy, _ http.ResponseWriter, r *http.Request) (any, error) {
	const mostRequests = 1 << 50 // bounds the number of requests that a question names
	query, err := queryOf(r, "site", "requests")
	requests, wrong := numberOf[int64](query, "requests", 0, 0, mostRequests)
	if err = cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	return status.NormalizeForecasts(from.Forecast(query.Get("site"), requests), time.Now()), nil
}

// advice answers what would help.
func advice(from Process, _ http.ResponseWriter, _ *http.Request) (any, error) {
	return from.Advice(time.Now()), nil
}
