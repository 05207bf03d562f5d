package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// siteRow is a site as the page lists it.
type siteRow struct {
	*status.Site
	Course   history.Course
	Limiting *limitBar // nil: none is in sight
	wrong    int       // the place among what is wrong, the first lowest; 0: nothing is
	recent   float64   // requests of the last minutes
}

// Flow is the bytes a second of the last seconds, both ways.
func (r siteRow) Flow() float64 { return r.Course.Now.In + r.Course.Now.Out }

// siteTable is the busiest of the sites whose names have a filter.
type siteTable struct {
	folded[siteRow]
	Count  int // those that are not listed, too
	Wrong  int // those that are not shown and of which something is wrong
	Filter string
}

// shownSites is the number of sites that are not folded.
const shownSites = 5

// sitesOf are the busiest sites.
func sitesOf(f *Facts, wrong []status.Trouble, learnt []*learned, now time.Time) siteTable {
	var rows []siteRow
	place, losing := map[string]int{}, status.Losing(f.Advice)
	for i := len(wrong) - 1; i >= 0; i-- {
		for _, site := range wrong[i].Sites {
			place[site] = i - len(wrong)
		}
	}
	for i := range f.Known {
		site := &f.Known[i]
		site.Loses = losing[site.Name]
		row := siteRow{Site: site, Course: f.Samples.Sites[site.Name], wrong: place[site.Name]}
		for _, n := range row.Course.Requests {
			row.recent += float64(n)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, busier)
	t := siteTable{Count: len(rows), Filter: f.Filter}
	t.folded = fold(rows, shownSites, func(row siteRow) siteRow {
		row.Limiting = limitingBar(row.Site, learnt, now)
		return row
	})
	t.Wrong = len(lists.Only(rows[len(t.Shown):], func(row siteRow) bool { return row.wrong != 0 }))
	return t
}

// busier sorts sites of which something is wrong first, in the order of what is wrong and of their names, then those where requests wait, then by the requests of the last
// minutes, as far as these differ by half, and by what was counted: no rows change places all the time.
func busier(a, b siteRow) int {
	return cmp.Or(
		cmp.Compare(a.wrong, b.wrong), min(-a.wrong, 1)*cmp.Compare(a.Name, b.Name), cmp.Compare(min(b.Held, 1), min(a.Held, 1)), cmp.Compare(math.Ilogb(b.recent), math.Ilogb(a.recent)), cmp.Compare(b.Site.Bytes(), a.Site.Bytes()),
		cmp.Compare(b.Site.Counts.Requests, a.Site.Counts.Requests), cmp.Compare(a.Name, b.Name),
	)
}

// limitingBar is the limit that holds requests of a site, else the one, written or learned, of which the most
// is used; nil where nothing is. A limit of which each token, client and the like has its own is one
// bar for all of them.
func limitingBar(site *status.Site, learnt []*learned, now time.Time) *limitBar {
	list := status.ScarcestFirst(summed(site.Limits))
	for i := range list {
		bar := barOf(&list[i])
		name, _, _ := strings.Cut(bar.Name, ", ")
		if site.LimitedBy == name || strings.HasPrefix(site.LimitedBy, name+" of ") {
			bar.Name, bar.Holds = site.LimitedBy, true
			return &bar
		}
	}
	if site.LimitedBy != "" {
		return &limitBar{Name: measured(site.Name, site.LimitedBy, learnt), Used: -1, Holds: true}
	}
	var fullest *limitBar
	if i := slices.IndexFunc(learnt, func(l *learned) bool { return l.Site == site.Name }); i >= 0 {
		if bar := learnt[i].bar(now); bar.Used >= 50 { // of others enough is left
			fullest = &bar
		}
	}
	for i := range list {
		bar := barOf(&list[i])
		if fullest == nil && (bar.Used > 0 || list[i].Rate > 0) || fullest != nil && bar.Used > fullest.Used {
			fullest = &bar
		}
	}
	return fullest
}

// measured is the name of a limit that holds requests of a site, with the length of its windows where that was measured.
func measured(site, name string, learnt []*learned) string {
	for _, l := range learnt {
		if rest, begins := strings.CutPrefix(name, l.Name()); begins && l.Site == site && l.Measured() {
			return l.Name() + " per " + l.WindowText() + rest
		}
	}
	return name
}

// summed has one limit in place of all of the same name, with what is left of all together.
func summed(list []status.Limit) (sums []status.Limit) {
	at, count := map[string]int{}, map[string]int{}
	for _, one := range list {
		i, there := at[one.Limit]
		count[one.Limit]++
		if !there {
			at[one.Limit] = len(sums)
			sums = append(sums, one)
			continue
		}
		sum := &sums[i]
		sum.Of = ""
		if sum.Left < 0 || one.Left < 0 {
			sum.Left = -1
		} else {
			sum.Left += one.Left
		}
		sum.Amount, sum.Most = sum.Amount+one.Amount, sum.Most+one.Most
	}
	for i := range sums {
		if n := count[sums[i].Limit]; n > 1 {
			sums[i].Limit += ", " + fmt.Sprint(n, " together")
		}
	}
	return sums
}
