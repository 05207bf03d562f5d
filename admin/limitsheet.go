package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// pagePatience is how long the page waits for what is looked up.
const pagePatience = 2 * time.Second

// writtenSheet is the limits as the page shows them.
type writtenSheet struct {
	Lines  []writtenLine
	Hidden int
}

// writtenLine is one for people.
type writtenLine struct {
	Site, Name, Left, In string
	Set, Shared          bool
}

// share is what is left of it, from 0 to 1; more is for what nobody knows.
func (l SiteLimit) share() float64 {
	whole := cmp.Or(l.Most, l.Amount)
	switch {
	case l.Left < 0 || l.Rate > 0:
		return 2
	case whole <= 0:
		return 1
	}
	return float64(l.Left) / float64(whole)
}

// left is what is left of what, in the words of its unit.
func (l SiteLimit) left() string {
	words := func(n int64) string { return count(uint64(max(n, 0))) }
	if l.Unit == "bytes" {
		words = func(n int64) string { return size(uint64(max(n, 0))) }
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

// adaptiveNow is an adaptive limit with the rate that it allows now.
type adaptiveNow struct {
	Site  string  `json:"site"`
	Limit string  `json:"limit"`
	Of    string  `json:"of,omitempty"` // whose it is, when each has its own
	Rate  float64 `json:"rate"`         // per second
}

// adaptiveOf are the adaptive limits among others, at most maxSites.
func adaptiveOf(limits []SiteLimit) (list []adaptiveNow) {
	for _, one := range limits {
		if one.Rate > 0 && len(list) < maxSites {
			list = append(list, adaptiveNow{one.Site, one.Limit, one.Of, one.Rate})
		}
	}
	return list
}

// rateText is a rate as it is written, to three digits: "3.42/s".
func rateText(perSecond float64) string { return strconv.FormatFloat(perSecond, 'g', 3, 64) + "/s" }

// writtenSheet has the limits that have the smallest part left, by site. It is nil
// where there are none.
func (d *desk) writtenSheet(forecasts []Forecast, now time.Time) *writtenSheet {
	list := d.limitsNow("")
	slices.SortStableFunc(list, func(a, b SiteLimit) int { return cmp.Compare(a.share(), b.share()) })
	s := &writtenSheet{Hidden: max(len(list)-maxSites, 0)}
	list = list[:min(len(list), maxSites)]
	slices.SortStableFunc(list, func(a, b SiteLimit) int { return cmp.Compare(a.Site, b.Site) })
	type limit struct{ site, name, of string }
	ends := map[limit]time.Time{}
	for _, one := range forecasts {
		ends[limit{one.Site, one.Limit, one.Of}] = one.Ends
	}
	set := d.overrides()
	there := map[string]bool{}
	for _, one := range list {
		there[one.Site] = true
		name := one.Limit
		if one.Of != "" {
			name += " of " + one.Of
		}
		s.Lines = append(s.Lines, writtenLine{
			Site: one.Site, Name: name, Left: one.left(), In: ahead(ends[limit{one.Site, one.Limit, one.Of}], now),
			Set: set[one.Site] != nil, Shared: one.Shared,
		})
	}
	for site, limits := range set {
		if !there[site] && len(s.Lines) < 2*maxSites {
			name := "none"
			if len(limits) > 0 {
				name = number(len(limits), "limit", "limits") + ", not asked for yet"
			}
			s.Lines = append(s.Lines, writtenLine{Site: site, Name: name, Set: true})
		}
	}
	slices.SortStableFunc(s.Lines, func(a, b writtenLine) int { return cmp.Compare(a.Site, b.Site) })
	if len(s.Lines) == 0 {
		return nil
	}
	return s
}

// forecastLine is a quota for people. Percent is a number, too.
type forecastLine struct {
	Site, Name, Used, Lasts string
	Percent                 int
}

func forecastLines(list []Forecast, now time.Time) (lines []forecastLine) {
	for _, one := range list {
		if one.long() && len(lines) < maxSites {
			lines = append(lines, forecastLine{one.Site, one.Name(), one.Percent(), one.Lasts(now), int(100 * one.Part())})
		}
	}
	return lines
}

// bandwidthSheet is the last hours of sites. Err is why there are none.
type bandwidthSheet struct {
	Sites []course
	Err   string
}

// bandwidthSheet is nil where nothing is recorded.
func (d *desk) bandwidthSheet(ctx context.Context, now time.Time) *bandwidthSheet {
	if d.Bandwidth == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pagePatience)
	defer cancel()
	since := now.Truncate(time.Hour).Add(-(hoursShown - 1) * time.Hour)
	list, err := d.Bandwidth(ctx, "", since, now, time.Hour)
	if err != nil {
		return &bandwidthSheet{Err: fmt.Sprintf("What is recorded cannot be read: %s", detailOf(err))}
	}
	return &bandwidthSheet{Sites: courses(list, now)}
}
