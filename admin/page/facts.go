// Package page is the page of the admin listener: its HTML and SVG, made of what abide shows of
// itself. It takes no lock, asks nobody and reads no clock, so that a page is a value:
//
//	text := page.Render(facts, now)     // the whole page
//	parts := page.Parts(facts, now)     // the parts that change, for the script of the page
//
// The page needs no script: the script (page.js) replaces the parts as they change. The HTML is Go code (markup.go) and
// no template: html/template calls methods by names that the linker does not know.
package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// Facts has everything that the page shows. If you add a fact, fill it in admin/page.go.
type Facts struct {
	status.Process
	Proxy string // URL for clients
	Open  string // URL where all https is opened, "" for none
	Setup string // command whose output sets up a shell, "" for none

	Known     []status.Site // the sites of which something is known now, in any order
	Tokens    status.Tokens
	Forecasts []status.Forecast
	Holds     []status.Hold // those that wait, at most status.MaxHolds
	Jobs      []status.Job
	Advice    []status.Advice
	Counted   time.Time // Advice is from what was counted since then; zero: not known
	Past      Past
	Samples   history.Snapshot

	Filter string  // the page is about sites whose names have it; "" for all
	Chosen *Chosen // the site that Filter names; nil where it names none
}

// filtered returns the facts about the sites whose names have the filter, and those about no site.
func (f *Facts) filtered() *Facts {
	if f.Filter == "" {
		return f
	}
	g, filter := *f, strings.ToLower(f.Filter)
	of := func(site string) bool { return strings.Contains(strings.ToLower(site), filter) }
	other := map[string]bool{} // the sites that the filter leaves out
	g.Known = lists.Only(f.Known, func(s status.Site) bool { other[s.Name] = !of(s.Name); return of(s.Name) })
	g.Checks = lists.Only(f.Checks, func(c status.Check) bool { return !other[c.Name] })
	g.Breakers = lists.Only(f.Breakers, func(b status.Breaker) bool { return of(b.Site) })
	g.Forecasts = lists.Only(f.Forecasts, func(l status.Forecast) bool { return of(l.Site) })
	g.Holds = lists.Only(f.Holds, func(h status.Hold) bool { return of(h.Site) })
	g.Advice = lists.Only(f.Advice, func(a status.Advice) bool { return of(a.Site) || slices.ContainsFunc(a.Others, of) })
	g.Paused = lists.Only(f.Paused, func(p status.SitePause) bool { return of(p.Site) })
	g.Waiting = status.SumWaits(g.Holds)
	about := func(l status.Announced) bool { return of(l.Site) }
	g.Tokens = status.Tokens{Limits: lists.Only(f.Tokens.Limits, about)}
	for _, p := range f.Tokens.Pools {
		if slices.ContainsFunc(g.Known, func(s status.Site) bool { return s.Pool == p.Name }) {
			p.Tokens = slices.Clone(p.Tokens)
			for i := range p.Tokens {
				p.Tokens[i].Limits = lists.Only(p.Tokens[i].Limits, about)
				p.Tokens[i].Written = lists.Only(p.Tokens[i].Written, func(l status.Limit) bool { return of(l.Site) })
			}
			g.Tokens.Pools = append(g.Tokens.Pools, p)
		}
	}
	g.Past.Periods = slices.Clone(f.Past.Periods)
	for i := range g.Past.Periods {
		g.Past.Periods[i].Traffic = lists.Only(f.Past.Periods[i].Traffic, func(t status.Traffic) bool { return of(t.Site) })
	}
	g.SiteCount, g.Total, g.Samples.Total, g.Samples.Waiting, g.Unread, g.Failures = len(g.Known), status.Counts{}, history.Course{}, nil, nil, status.Failures{Codes: maps.Clone(f.Codes)}
	maps.DeleteFunc(g.Codes, func(site string, _ []status.CodeCount) bool { return !of(site) })
	for _, site := range g.Known {
		g.Total.Requests += site.Counts.Requests
		g.Samples.Total.Add(f.Samples.Sites[site.Name])
		if u := site.Unread; u != nil {
			g.Unread = cmp.Or(g.Unread, &status.Unread{})
			g.Unread.Sites, g.Unread.SiteCount, g.Unread.Connections = append(g.Unread.Sites, *u), g.Unread.SiteCount+1, g.Unread.Connections+u.Connections
		}
	}
	return &g
}

// wrong lists what is wrong.
func (f *Facts) wrong(now time.Time) []status.Trouble {
	return f.Troubles(f.Tokens, f.Forecasts, f.Jobs, status.AdviceList{Since: f.Counted, Advice: f.Advice}, now)
}

// Past is the traffic of the last hour, day and month.
type Past struct {
	Periods []Period
	Err     string // why there is none, "" where there is
}

// Period is a part of the past: the traffic from Since on, in steps.
type Period struct {
	Name    string // "hour"
	Since   time.Time
	Step    time.Duration
	Steps   int
	Traffic []status.Traffic
}

// Chosen is a site whose limits can be changed.
type Chosen struct {
	Site   string
	Limits string // as they may be written
	Set    bool   // at run time
}

// limitOf names a limit: its site, and the client or token that it is of.
type limitOf struct{ site, name, of string }
