package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// limitBar is a limit with the part of it that is used.
type limitBar struct {
	Site, Name, Left, In string
	Used                 int // in hundredths; -1: not known
	Set, Shared          bool
	Holds                bool // requests wait for it
}

// barOf is a limit as a bar.
func barOf(l *status.Limit) limitBar {
	b := limitBar{Site: l.Site, Name: status.NameOf(l.Limit, l.Of), Left: leftWords(l.LeftText()), Shared: l.Shared, Used: -1}
	if share := l.LeftShare(); share <= 1 {
		b.Used = 100 - int(100*max(share, 0))
	}
	return b
}

// announcedBar is an announced limit as a bar.
func announcedBar(a *status.Announced, several bool, now time.Time) limitBar {
	b := limitBar{Name: a.Label(), Left: leftWords(a.LeftText()), In: status.Ahead(a.Reset, now), Used: -1}
	if several && a.Site != "" {
		b.Name = a.Site + ": " + b.Name
	}
	if notes := a.Notes(); notes != "" {
		b.Name += "; " + notes
	}
	if share := a.LeftShare(); share <= 1 && a.Limit > 0 {
		b.Used = 100 - int(100*share)
	}
	return b
}

// leftWords adds to "3 of 5" that so much is left.
func leftWords(text string) string {
	if strings.Contains(text, " of ") {
		text += " left"
	}
	return text
}

// learned is a limit that a site has announced or that was found, of all tokens together.
type learned struct {
	status.Announced
	tokens int
}

// bar is the limit as a bar.
func (l *learned) bar(now time.Time) limitBar {
	b := announcedBar(&l.Announced, false, now)
	if b.Site = l.Site; l.tokens > 1 {
		b.Name += fmt.Sprintf(", %d tokens together", l.tokens)
	}
	return b
}

// learnedOf are the learned limits, the one with the smallest part left first.
func learnedOf(f *Facts, now time.Time) []*learned {
	type key struct{ site, name string }
	sums := map[key]*learned{}
	add := func(a *status.Announced, token int) {
		at := key{a.Site, a.Label()}
		known := sums[at]
		switch {
		case known == nil:
			known = &learned{*a, 0}
			sums[at] = known
		case a.Limit < 0 || a.Remaining < 0:
		case known.Limit < 0 || known.Remaining < 0:
			known.Limit, known.Remaining = a.Limit, a.Remaining
		default:
			known.Limit, known.Remaining = known.Limit+a.Limit, known.Remaining+a.Remaining
		}
		if a.Reset.After(now) && (a.Reset.Before(known.Reset) || !known.Reset.After(now)) {
			known.Reset = a.Reset
		}
		known.Foreign, known.Before, known.tokens = max(known.Foreign, a.Foreign), known.Before && a.Before, known.tokens+token
	}
	for i := range f.Tokens.Limits {
		add(&f.Tokens.Limits[i], 0)
	}
	for _, p := range f.Tokens.Pools {
		accounts := map[string]bool{} // those of which the tokens share their limits
		for _, t := range p.Tokens {
			if t.Away() {
				continue
			}
			if len(t.Twins) > 0 {
				if accounts[t.Account()] {
					continue
				}
				accounts[t.Account()] = true
			}
			for i := range t.Limits {
				add(&t.Limits[i], 1)
			}
		}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b *learned) int {
		return cmp.Or(cmp.Compare(a.LeftShare(), b.LeftShare()), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Label(), b.Label()))
	})
}

// quotasOf are the limits with long windows, those of which the most is used first. A limit of which each token, client
// and the like has its own is shown as the fullest of them.
func quotasOf(f *Facts, now time.Time) folded[limitBar] {
	long := slices.DeleteFunc(slices.Clone(f.Forecasts), func(f status.Forecast) bool { return !f.Long() })
	slices.SortStableFunc(long, func(a, b status.Forecast) int { return cmp.Compare(b.Part(), a.Part()) })
	count := map[limitOf]int{}
	long = lists.Only(long, func(f status.Forecast) bool {
		count[limitOf{f.Site, f.Limit, ""}]++
		return count[limitOf{f.Site, f.Limit, ""}] == 1
	})
	return fold(long, 3, func(quota status.Forecast) limitBar {
		bar := barOf(&status.Limit{Site: quota.Site, Limit: quota.Limit, Of: quota.Of, Amount: quota.Amount, Left: max(quota.Left, 0), Unit: quota.Unit})
		if n := count[limitOf{quota.Site, quota.Limit, ""}]; n > 1 {
			bar.Name += fmt.Sprintf(", the fullest of %d", n)
		}
		bar.In = quota.Lasts(now)
		return bar
	})
}

// writtenOf are the limits with the smallest part left, and before them the sites whose limits
// were set at run time and not used yet.
func writtenOf(f *Facts, now time.Time) folded[limitBar] {
	ends := map[limitOf]time.Time{}
	for _, one := range f.Forecasts {
		ends[limitOf{one.Site, one.Limit, one.Of}] = one.Ends
	}
	var unused, all []status.Limit
	set := map[string]bool{}
	for i := range f.Known {
		site := &f.Known[i]
		set[site.Name] = site.Set
		for _, one := range site.Limits {
			one.Site = site.Name
			all = append(all, one)
		}
		if site.Set && len(site.Limits) == 0 {
			unused = append(unused, status.Limit{Site: site.Name, Limit: "set, and not asked for yet", Left: -1})
		}
	}
	return fold(append(unused, status.ScarcestFirst(all)...), 0, func(l status.Limit) limitBar {
		bar := barOf(&l)
		bar.Set, bar.In = set[l.Site], status.Ahead(cmp.Or(l.Reset, ends[limitOf{l.Site, l.Limit, l.Of}]), now)
		return bar
	})
}

// folded is a list of which the first few are shown and others are folded.
type folded[T any] struct {
	Shown, Folded []T
	Hidden        int // in neither
}

// fold makes rows of a list, of which the first few are shown. A single row more is not worth
// folding.
func fold[S, T any](list []S, shown int, row func(S) T) (f folded[T]) {
	f.Hidden = max(len(list)-status.MaxListed, 0)
	if shown > 0 && len(list) <= shown+1 {
		shown = len(list)
	}
	for i, one := range list[:len(list)-f.Hidden] {
		if i < shown {
			f.Shown = append(f.Shown, row(one))
		} else {
			f.Folded = append(f.Folded, row(one))
		}
	}
	return f
}

// same is a row of fold that is the item itself.
func same[T any](item T) T { return item }
