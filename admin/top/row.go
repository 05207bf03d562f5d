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

func rowOf(one status.Site, r rates) row {
	w := row{
		site: one.Name, rates: r, waiting: one.Held, longest: seconds(one.LongestWait),
		limitedBy: one.LimitedBy, refusals: one.Refusals, state: cmp.Or(one.Breaker, "closed"), paused: one.Paused != nil,
	}
	if w.paused {
		w.state = "paused"
	}
	return w
}
