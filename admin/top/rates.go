package top

import (
	"time"

	"github.com/abide-proxy/abide/status"
)

const (
	// rateSpan is the time of which rates are the average. Rates of a shorter time would jump:
	// a site with a request each two seconds would have 1 and 0 in turn.
	rateSpan = 5 * time.Second
	// mostCounts bounds a history.
	mostCounts = 64
)

// rates are per second.
type rates struct{ requests, received, sent float64 }

// counts are the counters of an abide at one time.
type counts struct {
	at    time.Time
	total status.Counts
	sites map[string]status.Counts
	some  bool // sites has not all sites
}

func countsOf(s sample) counts {
	c := counts{s.at, s.process.Total, make(map[string]status.Counts, len(s.sites.Sites)), s.sites.More}
	for _, one := range s.sites.Sites {
		c.sites[one.Name] = one.Counts
	}
	return c
}

// history is counters of one process, the latest last, over rateSpan or a little more.
type history []counts

// add is the history with later counts, without those that are no longer needed.
func (h history) add(c counts) history {
	h = append(h, c)
	for len(h) > mostCounts || len(h) > 2 && c.at.Sub(h[1].at) >= rateSpan {
		h = h[1:]
	}
	return h
}

// total are the rates of all sites together.
func (h history) total() rates {
	if len(h) < 2 {
		return rates{}
	}
	first, last := h[0], h[len(h)-1]
	return ratesOf(first.total, last.total, last.at.Sub(first.at))
}

// of are the rates of a site. A site that was not there before has counted from zero.
func (h history) of(site string) rates {
	if len(h) == 0 {
		return rates{}
	}
	last := h[len(h)-1]
	for _, before := range h[:len(h)-1] {
		if first, known := before.sites[site]; known || !before.some {
			return ratesOf(first, last.sites[site], last.at.Sub(before.at))
		}
	}
	return rates{}
}

func ratesOf(before, now status.Counts, passed time.Duration) rates {
	return rates{
		perSecondOf(before.Requests, now.Requests, passed),
		perSecondOf(before.In, now.In, passed),
		perSecondOf(before.Out, now.Out, passed),
	}
}

// perSecondOf is the rate of a counter. A counter that has become less began again.
func perSecondOf(before, now uint64, passed time.Duration) float64 {
	if passed <= 0 || now < before {
		return 0
	}
	return float64(now-before) / passed.Seconds()
}
