package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/abide-proxy/abide/status"
)

// limitBar is a limit with the part of it that is used.
type limitBar struct {
	Site, Name, Left, In string
	Used                 int    // in hundredths; -1: not known
	Tone                 string // class of the bar: "", "warm", "full"
	Set, Shared          bool
}

// barOf is a limit as a bar.
func barOf(l *status.Limit) limitBar {
	b := limitBar{Site: l.Site, Name: l.Limit, Left: l.LeftText(), Shared: l.Shared, Used: -1}
	if l.Of != "" {
		b.Name += " of " + l.Of
	}
	if share := l.LeftShare(); share <= 1 {
		b.Used = 100 - int(100*max(share, 0))
		b.Tone = toneOf(b.Used)
	}
	return b
}

// toneOf returns the class of a bar by its used part, in hundredths.
func toneOf(used int) string {
	switch {
	case used >= 100:
		return "full"
	case used >= 75:
		return "warm"
	}
	return ""
}

// scarcestFirst sorts limits by the part that is left.
func scarcestFirst(list []status.Limit) {
	slices.SortStableFunc(list, func(a, b status.Limit) int { return cmp.Compare(a.LeftShare(), b.LeftShare()) })
}

// limitTable is the limits that are written.
type limitTable struct {
	Lines  []limitBar
	Hidden int
}

// limitsOf has the limits with the smallest part left, by site, and those that were set at run
// time and not used yet.
func limitsOf(f *Facts, now time.Time) (t limitTable) {
	ends := f.limitEnds()
	var all []status.Limit
	set := map[string]bool{}
	for i := range f.Known {
		site := &f.Known[i]
		set[site.Name] = site.Set
		for _, one := range site.Limits {
			one.Site = site.Name
			all = append(all, one)
		}
		if site.Set && len(site.Limits) == 0 && len(t.Lines) < status.MaxListed {
			t.Lines = append(t.Lines, limitBar{Site: site.Name, Name: "set, and not asked for yet", Used: -1, Set: true})
		}
	}
	scarcestFirst(all)
	t.Hidden = max(len(all)-status.MaxListed, 0)
	for i := range first(all) {
		bar := barOf(&all[i])
		bar.Set, bar.In = set[all[i].Site], status.Ahead(ends[limitOf{all[i].Site, all[i].Limit, all[i].Of}], now)
		t.Lines = append(t.Lines, bar)
	}
	slices.SortStableFunc(t.Lines, func(a, b limitBar) int { return cmp.Compare(a.Site, b.Site) })
	return t
}

// first returns as many items as the page lists.
func first[T any](list []T) []T { return list[:min(len(list), status.MaxListed)] }
