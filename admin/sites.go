package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/status"
)

// Bounds of a list of sites: how many are listed when nobody asks for more, and how many at
// most.
const (
	usualSites = 1000
	mostSites  = 10_000
)

// siteSource knows which requests wait, which breakers are not closed, and sites of which
// something was learned and is kept.
type siteSource interface {
	holder
	Breakers() []status.Breaker
	LearnedSites(most int) []string
}

// sites answers what is asked about sites.
type sites struct {
	metrics *metrics.Metrics
	limits  *limits
	pauses  pauser
	proxy   siteSource
	past    recorder
}

// list tells of all sites that are known, those with the most bytes first.
func (s *sites) list(w http.ResponseWriter, r *http.Request) {
	query, ok := queryOf(w, r, "limit", "recorded")
	if !ok {
		return
	}
	most, recorded, err := readSitesQuery(query)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	all := s.now(r.Context(), "", recorded)
	list := status.SiteList{Sites: make([]status.Site, 0, min(len(all), most)), Count: len(all), More: len(all) > most}
	order := slices.SortedFunc(maps.Values(all), func(a, b *status.Site) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	for _, one := range order[:min(len(order), most)] {
		list.Sites = append(list.Sites, one.Normalize())
	}
	answerJSON(w, list)
}

// readSitesQuery reads how many sites are listed at most, and whether with recorded traffic.
func readSitesQuery(query url.Values) (most int, recorded bool, err error) {
	most, recorded = usualSites, query.Get("recorded") != "false"
	if query.Has("limit") {
		if most, err = strconv.Atoi(query.Get("limit")); err != nil || most < 1 || most > mostSites {
			return 0, false, fmt.Errorf("limit must be a number from 1 to %d", mostSites)
		}
	}
	if query.Has("recorded") && recorded && query.Get("recorded") != "true" {
		return 0, false, errors.New("recorded must be true or false")
	}
	return most, recorded, nil
}

// one tells of a site.
func (s *sites) one(w http.ResponseWriter, r *http.Request) {
	name, ok := named(w, r)
	if !ok {
		return
	}
	site := s.now(r.Context(), name, true)[name]
	if site == nil {
		refuse(w, http.StatusNotFound, "nothing is known of a site "+quoted(name))
		return
	}
	answerJSON(w, site.Normalize())
}

// now are the sites of which anything is known, or the one of a name. Without recorded traffic
// the state file is not read.
func (s *sites) now(ctx context.Context, name string, recorded bool) map[string]*status.Site {
	all := s.used(name, s.proxy.Holds(name, status.MaxHolds))
	s.addKnown(name, all)
	if recorded {
		s.addRecorded(ctx, name, all)
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
	for _, one := range s.metrics.Sites() {
		known := at(one.Name)
		known.Counts, known.LastMinute, known.Refusals = countsOf(one), s.metrics.LastMinute(one.Name), one.Refusals
		known.Unread = unreadOf(s.limits.policy(), one)
	}
	for _, one := range s.limits.now(name) {
		known := at(one.Site)
		known.Limits = append(known.Limits, one)
	}
	for site := range s.limits.proxy.Overrides() {
		at(site).Set = true
	}
	for site, pause := range s.pauses.Pauses() {
		at(site).Paused = &pause
	}
	for _, one := range holds {
		known := at(one.Site)
		known.Held, known.LongestWait = known.Held+1, max(known.LongestWait, one.Waited)
	}
	for site, why := range status.SumWaits(holds, time.Now()).Most {
		at(site).LimitedBy = why
	}
	for _, one := range s.proxy.Breakers() {
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
