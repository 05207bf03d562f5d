package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Bounds of what is told of sites: how many are listed when nobody asks for more, how
// many ever are, and how many limits of one, since each token or client may have its
// own.
const (
	usualSites = 1000
	mostSites  = 10_000
	mostLimits = 1000
)

// siteNow is a site as it is now.
type siteNow struct {
	siteStatus
	LastMinute uint64      `json:"requests_last_minute"`
	Limits     []SiteLimit `json:"limits"`
	LimitCount int         `json:"limit_count"` // those that are not listed, too
	Set        bool        `json:"limits_set"`  // at run time, and not by the configuration
	Held       int         `json:"held"`        // requests that wait
	// LimitedBy is what most of those that wait are kept by, "" where none waits.
	LimitedBy string `json:"limited_by,omitempty"`
	// Breaker is its own: "closed", "half-open" or "open". Breakers are those of it and
	// its backends that are not closed.
	Breaker  string    `json:"breaker"`
	Breakers []Breaker `json:"breakers,omitempty"`
	// Recorded is what went from and to the site lately, before a restart too.
	Recorded *Recorded `json:"last_30_days,omitempty"`
	// Unread is nil where no https to the site has passed unread.
	Unread *SiteUnread `json:"https_unread,omitempty"`
}

// SiteList is what /api/v1/sites answers. More tells that not all are listed.
type SiteList struct {
	Sites []siteNow `json:"sites"`
	Count int       `json:"count"`
	More  bool      `json:"more"`
}

// sites lists all that are known, those with the most bytes first.
func (d *desk) sites(w http.ResponseWriter, r *http.Request) {
	query, ok := queryOf(w, r, "limit")
	if !ok {
		return
	}
	most := usualSites
	if query.Has("limit") {
		var err error
		if most, err = strconv.Atoi(query.Get("limit")); err != nil || most < 1 || most > mostSites {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("limit must be a number from 1 to %d", mostSites))
			return
		}
	}
	all := d.sitesNow(r.Context(), "")
	list := SiteList{Sites: make([]siteNow, 0, min(len(all), most)), Count: len(all), More: len(all) > most}
	order := slices.SortedFunc(maps.Values(all), func(a, b *siteNow) int {
		return cmp.Or(cmp.Compare(b.bytes(), a.bytes()), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	for _, one := range order[:min(len(order), most)] {
		list.Sites = append(list.Sites, one.finished())
	}
	answerJSON(w, list)
}

// site tells of one.
func (d *desk) site(w http.ResponseWriter, r *http.Request) {
	name, ok := named(w, r)
	if !ok {
		return
	}
	one := d.sitesNow(r.Context(), name)[name]
	if one == nil {
		refuse(w, http.StatusNotFound, "nothing is known of a site "+quoted(name))
		return
	}
	answerJSON(w, one.finished())
}

// sitesNow are the sites of which anything is known, or the one of a name.
func (d *desk) sitesNow(ctx context.Context, name string) map[string]*siteNow {
	all := map[string]*siteNow{}
	at := func(site string) *siteNow {
		if name != "" && site != name {
			return &siteNow{} // nobody wants to know
		}
		if all[site] == nil {
			all[site] = &siteNow{siteStatus: siteStatus{Name: site}}
		}
		return all[site]
	}
	for _, one := range d.Metrics.Sites() {
		s := at(one.Name)
		s.siteStatus, s.LastMinute = siteStatus{one.Name, one.Requests, one.In, one.Out}, d.Metrics.LastMinute(one.Name)
		s.Unread = unreadOf(d.Policy(), one)
	}
	for _, one := range d.limitsNow(name) {
		s := at(one.Site)
		s.Limits = append(s.Limits, one)
	}
	for site := range d.overrides() {
		at(site).Set = true
	}
	if d.Holds != nil {
		holds := d.Holds(name, mostHolds)
		for _, one := range holds {
			at(one.Site).Held++
		}
		for site, why := range sumOf(holds, time.Now()).most {
			at(site).LimitedBy = why
		}
	}
	if d.Breakers != nil {
		for _, one := range d.Breakers() {
			if one.State == "closed" {
				continue
			}
			one.Until = one.Until.UTC()
			s := at(one.Site)
			if one.Backend == "" {
				s.Breaker = one.State
			}
			s.Breakers = append(s.Breakers, one)
		}
	}
	d.addKnown(ctx, name, all)
	return all
}

// finished has its bounds and no null list.
func (s *siteNow) finished() siteNow {
	one := *s
	one.Breaker = cmp.Or(one.Breaker, "closed")
	one.LimitCount = len(one.Limits)
	one.Limits = append([]SiteLimit{}, one.Limits[:min(len(one.Limits), mostLimits)]...)
	return one
}
