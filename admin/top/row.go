package top

import (
	"cmp"
	"time"

	"github.com/abide-proxy/abide/status"
)

// row is a site as the table shows it.
type row struct {
	site      string
	rates     rates
	waiting   int
	longest   time.Duration // that a request has waited so far
	limitedBy string
	refusals  uint64
	state     string // closed, half-open, open or paused
	paused    bool
}

func rowOf(site status.Site, r rates) row {
	w := row{
		site: site.Name, rates: r, waiting: site.Held, longest: seconds(site.LongestWait),
		limitedBy: site.LimitedBy, refusals: site.Refusals, state: cmp.Or(site.Breaker, "closed"), paused: site.Paused != nil,
	}
	if w.paused {
		w.state = "paused"
	}
	return w
}
