package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/abide-proxy/abide/status"
)

// pagePatience is how long the page waits for what is looked up.
const pagePatience = 2 * time.Second

// limitsView is the limits as the page shows them.
type limitsView struct {
	Lines  []writtenLine
	Hidden int
}

// writtenLine is one for people.
type writtenLine struct {
	Site, Name, Left, In string
	Set, Shared          bool
}

// limitsView has the limits that have the smallest part left, by site. It is nil
// where there are none.
func (p *page) limitsView(forecasts []status.Forecast, now time.Time) *limitsView {
	list := p.overview.limits.now("")
	slices.SortStableFunc(list, func(a, b status.Limit) int { return cmp.Compare(a.LeftShare(), b.LeftShare()) })
	s := &limitsView{Hidden: max(len(list)-status.MaxListed, 0)}
	list = list[:min(len(list), status.MaxListed)]
	slices.SortStableFunc(list, func(a, b status.Limit) int { return cmp.Compare(a.Site, b.Site) })
	type limit struct{ site, name, of string }
	ends := map[limit]time.Time{}
	for _, one := range forecasts {
		ends[limit{one.Site, one.Limit, one.Of}] = one.Ends
	}
	set := p.overview.limits.proxy.Overrides()
	there := map[string]bool{}
	for _, one := range list {
		there[one.Site] = true
		name := one.Limit
		if one.Of != "" {
			name += " of " + one.Of
		}
		s.Lines = append(s.Lines, writtenLine{
			Site: one.Site, Name: name, Left: one.LeftText(), In: status.Ahead(ends[limit{one.Site, one.Limit, one.Of}], now),
			Set: set[one.Site] != nil, Shared: one.Shared,
		})
	}
	for site, limits := range set {
		if !there[site] && len(s.Lines) < 2*status.MaxListed {
			name := "none"
			if len(limits) > 0 {
				name = status.Number(len(limits), "limit", "limits") + ", not asked for yet"
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

// longForecasts are those that the page has room for.
func longForecasts(list []status.Forecast) []status.Forecast {
	return first(slices.DeleteFunc(slices.Clone(list), func(f status.Forecast) bool { return !f.Long() }))
}

// bandwidthView is the last hours of sites. Err is why there are none.
type bandwidthView struct {
	Sites []course
	Err   string
}

// bandwidthView is nil where nothing is recorded.
func (p *page) bandwidthView(ctx context.Context, now time.Time) *bandwidthView {
	ctx, cancel := context.WithTimeout(ctx, pagePatience)
	defer cancel()
	since := now.Truncate(time.Hour).Add(-(hoursShown - 1) * time.Hour)
	list, err := p.past.Bandwidth(ctx, "", since, now, time.Hour)
	if err == nil && len(list) == 0 {
		return nil
	}
	if err != nil {
		return &bandwidthView{Err: fmt.Sprintf("What is recorded cannot be read: %s", status.ErrorLine(err))}
	}
	return &bandwidthView{Sites: courses(list, now)}
}
