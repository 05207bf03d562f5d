package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/admin/samples"
	"github.com/abide-proxy/abide/status"
)

// siteRow is a site as the page lists it.
type siteRow struct {
	*status.Site
	Course samples.Course
	Bars   []limitBar
	recent float64 // requests of the last minutes
}

// Wait is the longest time that a request has waited.
func (r siteRow) Wait() string { return span(r.LongestWait) }

// Flow is the bytes a second of the last seconds, both ways.
func (r siteRow) Flow() float64 { return r.Course.Now.In + r.Course.Now.Out }

// siteTable is the busiest of the sites whose names have a filter.
type siteTable struct {
	Rows   []siteRow
	Count  int // those that are not listed, too
	Filter string
}

// maxBars is the largest number of limits that a site shows.
const maxBars = 2

// sitesOf are the busiest sites.
func sitesOf(f *Facts) siteTable {
	t := siteTable{Filter: f.Filter}
	filter := strings.ToLower(f.Filter)
	for i := range f.Known {
		site := &f.Known[i]
		if !strings.Contains(strings.ToLower(site.Name), filter) {
			continue
		}
		row := siteRow{Site: site, Course: f.Samples.Sites[site.Name]}
		for _, n := range row.Course.Requests {
			row.recent += float64(n)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Count = len(t.Rows)
	slices.SortFunc(t.Rows, busier)
	t.Rows = first(t.Rows)
	for i := range t.Rows {
		t.Rows[i].Bars = scarcestBars(t.Rows[i].Limits)
	}
	return t
}

// busier sorts sites by the requests that wait or were sent lately, and then by what was counted.
func busier(a, b siteRow) int {
	return cmp.Or(
		cmp.Compare(b.recent, a.recent), cmp.Compare(b.Held, a.Held), cmp.Compare(b.Site.Bytes(), a.Site.Bytes()),
		cmp.Compare(b.Site.Counts.Requests, a.Site.Counts.Requests), cmp.Compare(a.Name, b.Name),
	)
}

// scarcestBars are the limits with the smallest part left. A limit of which each token, client
// and the like has its own is one bar for all of them.
func scarcestBars(list []status.Limit) (bars []limitBar) {
	list = summed(list)
	scarcestFirst(list)
	for i := range list[:min(len(list), maxBars)] {
		bars = append(bars, barOf(&list[i]))
	}
	return bars
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
