package status

import (
	"cmp"
	"encoding/json"
	"io"
	"strconv"
)

// unbounded is the least Left that means that no amount is known. A meter without a known
// amount has nearly 1<<50 units left (maxAmount in package ledger), and real limits are smaller
// than 1<<45.
const unbounded = 1 << 45

// DescribeAdaptive writes the rates that adaptive limits have come to, for people.
func (s Process) DescribeAdaptive(w io.Writer) {
	if len(s.Adaptive) == 0 {
		return
	}
	heading(w, "adaptive limits")
	t := table{numbers: []int{2}}
	t.add("SITE", "LIMIT", "NOW")
	for _, one := range s.Adaptive {
		name := one.Limit
		if one.Of != "" {
			name += " of " + one.Of
		}
		t.add(one.Site, name, rateText(one.Rate))
	}
	t.write(w)
}

// Limit is a limit of the configuration for a site, with what is left. A limit of which each
// client, token, route or backend has its own is a Limit for each of them.
type Limit struct {
	Site   string `json:"-"`
	Limit  string `json:"limit"`
	Of     string `json:"of,omitempty"` // the client, token, route or backend with this limit of its own; "": all share it
	Amount int64  `json:"amount"`
	Left   int64  `json:"left"` // -1: not known
	// Most is the largest possible rest, where that is not the amount: the burst of a
	// bucket. The API leaves out a Most that equals the amount.
	Most int64 `json:"most,omitempty"`
	// Rate is the present rate of an adaptive limit, per second; 0 for others.
	Rate   float64 `json:"rate,omitempty"`
	Unit   string  `json:"unit"`
	Per    string  `json:"per,omitempty"`
	Window float64 `json:"window_seconds,omitempty"` // the length of Per; 0: it has none
	By     string  `json:"by,omitempty"`             // client, token or route; "": all share it
	Shared bool    `json:"shared"`                   // with the other instances
	Kept   bool    `json:"kept"`                     // over a restart
}

// SiteLimits holds the limits of a site, in the form in which they may be set.
type SiteLimits struct {
	Site   string          `json:"site"`
	Set    bool            `json:"set"` // at run time, and not by the configuration
	Limits json.RawMessage `json:"limits" schema:"limits"`
}

// LeftShare is the part of the limit that is left, from 0 to 1; 2 if that is not known.
func (l Limit) LeftShare() float64 {
	whole := cmp.Or(l.Most, l.Amount)
	switch {
	case l.Left < 0 || l.Rate > 0:
		return 2
	case whole <= 0:
		return 1
	}
	return float64(l.Left) / float64(whole)
}

// LeftText says how much of the limit is left, in its unit: "40 of 900", or "3.4/s now" for an
// adaptive limit.
func (l Limit) LeftText() string {
	words := func(n int64) string { return Count(uint64(max(n, 0))) }
	if l.Unit == "bytes" {
		words = func(n int64) string { return Size(uint64(max(n, 0))) }
	}
	whole := cmp.Or(l.Most, l.Amount)
	switch {
	case l.Rate > 0:
		return rateText(l.Rate) + " now"
	case l.Left < 0 && whole <= 0, l.Left >= unbounded:
		return "not known"
	case l.Left < 0:
		return "? of " + words(whole)
	case whole <= 0:
		return words(l.Left)
	}
	return words(l.Left) + " of " + words(whole)
}

// Adaptive is an adaptive limit with the rate that it allows now.
type Adaptive struct {
	Site  string  `json:"site"`
	Limit string  `json:"limit"`
	Of    string  `json:"of,omitempty"` // as Limit.Of
	Rate  float64 `json:"rate"`         // per second
}

// AdaptiveOf are the adaptive limits of a list, at most MaxListed.
func AdaptiveOf(limits []Limit) (list []Adaptive) {
	for _, one := range limits {
		if one.Rate > 0 && len(list) < MaxListed {
			list = append(list, Adaptive{one.Site, one.Limit, one.Of, one.Rate})
		}
	}
	return list
}

// rateText is a rate as it is written, to three digits: "3.42/s".
func rateText(perSecond float64) string { return strconv.FormatFloat(perSecond, 'g', 3, 64) + "/s" }
