// Package page is the page of the admin listener: its HTML and SVG, made of what abide shows of
// itself. It takes no lock, asks nobody and reads no clock, so that a page is a value:
//
//	err := page.Render(w, facts, now)        // the whole page
//	parts, err := page.Parts(facts, now)     // the parts that change, for the script of the page
//
// The page needs no script: the script (page.js) replaces the parts as they change.
package page

import (
	"time"

	"github.com/abide-proxy/abide/admin/samples"
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
	Pauses    map[string]status.Pause // :: site
	Forecasts []status.Forecast
	Holds     []status.Hold // those that wait, at most status.MaxHolds
	Jobs      []status.Job
	Advice    []status.Advice
	Past      Past
	Samples   samples.Snapshot

	Filter string  // sites are listed whose names have it; "" for all
	Chosen *Chosen // the site that Filter names; nil where it names none
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

// Chosen is a site whose limits and pause can be changed.
type Chosen struct {
	Site   string
	Limits string // as they may be written
	Set    bool   // at run time
	Paused *status.Pause
}

// limitOf names a limit: its site, and the client or token that it is of.
type limitOf struct{ site, name, of string }

// limitEnds are the ends of the windows of limits.
func (f *Facts) limitEnds() map[limitOf]time.Time {
	ends := map[limitOf]time.Time{}
	for _, one := range f.Forecasts {
		ends[limitOf{one.Site, one.Limit, one.Of}] = one.Ends
	}
	return ends
}

// Fleet tells whether other instances keep budgets with this one, or could.
func (f *Facts) Fleet() bool {
	return f.Store != nil && (f.Store.Kind == status.StoreShared || f.Store.Count > 1)
}
