package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/abide-proxy/abide/status"
)

// column is a column of a table. What follows least is for the table of sites.
type column struct {
	title string
	help  string
	right bool // it has numbers
	least int  // the width that it needs, in columns of the terminal: that of its title and an arrow
	most  int  // the width that it can use; 0: any
	// rank says which columns are left out of a narrow terminal: those with the largest first.
	rank int
	text func(r row) string
	// compare orders rows: what is to be seen first is less.
	compare func(a, b row) int
}

// columns are all columns, in their order. The first is never left out.
var columns = []column{
	{"SITE", "the name", false, 14, 48, 0, func(r row) string { return r.site }, func(a, b row) int { return strings.Compare(a.site, b.site) }},
	{"REQ/S", "requests per second, of the last 5 seconds", true, 6, 7, 1, func(r row) string { return status.PerSecond(r.rate.Requests) }, larger(func(r row) float64 { return r.rate.Requests })},
	{"RECV/S", "bytes received per second", true, 7, 7, 5, func(r row) string { return sizePerSecond(r.rate.In) }, larger(func(r row) float64 { return r.rate.In })},
	{"SENT/S", "bytes sent per second", true, 7, 7, 8, func(r row) string { return sizePerSecond(r.rate.Out) }, larger(func(r row) float64 { return r.rate.Out })},
	{"WAIT", "how many requests wait", true, 5, 6, 2, func(r row) string { return fmt.Sprint(r.waiting) }, larger(func(r row) int { return r.waiting })},
	{"LONGEST", "the longest of these waits so far", true, 9, 9, 4, longestText, larger(func(r row) time.Duration { return r.longest })},
	{"LIMITED BY", "what most of them wait for", false, 12, 60, 6, func(r row) string { return cmp.Or(r.limitedBy, "-") }, func(a, b row) int { return strings.Compare(cmp.Or(a.limitedBy, "~"), cmp.Or(b.limitedBy, "~")) }},
	{"REFUSED", "answers that refused a request because of a limit", true, 8, 10, 7, func(r row) string { return fmt.Sprint(r.refusals) }, larger(func(r row) uint64 { return r.refusals })},
	{"STATE", "paused, what is wrong, or ok", false, 10, 14, 3, func(r row) string { return r.state }, larger(severity)},
}

// larger orders rows by a number, the largest first.
func larger[N cmp.Ordered](number func(row) N) func(a, b row) int {
	return func(a, b row) int { return cmp.Compare(number(b), number(a)) }
}

func longestText(r row) string {
	if r.waiting == 0 {
		return "-"
	}
	return status.Span(r.longest)
}

// severities are the states of sites, the worst last. Others, such as "left alone", are worse.
var severities = []string{"ok", "paused", "on trial"}

// severity is larger for what needs an operator more.
func severity(r row) int {
	return (slices.Index(severities, r.state) + len(severities) + 1) % (len(severities) + 1)
}

// colors are those of the states, by their severity.
var colors = []tcell.Color{tcell.ColorDefault, tcell.ColorYellow, tcell.ColorYellow, tcell.ColorRed}

// row is a site as the table shows it.
type row struct {
	site      string
	rate      status.Rate
	waiting   int
	longest   time.Duration // that a request has waited so far
	limitedBy string
	refusals  uint64
	state     string // as status.Site has it
	paused    bool
}

func rowOf(site status.Site) row {
	return row{
		site: site.Name, rate: site.Rate, waiting: site.Held, longest: status.DurationOf(site.LongestWait),
		limitedBy: site.LimitedBy, refusals: site.Refusals, state: site.Word(), paused: site.Paused != nil,
	}
}
