package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	text func(s *status.Site) string
	// compare orders rows: what is to be seen first is less.
	compare func(a, b *status.Site) int
}

// columns are all columns, in their order. The first is never left out.
var columns = []column{
	{"SITE", "the name", false, 14, 48, 0, func(s *status.Site) string { return s.Name }, func(a, b *status.Site) int { return strings.Compare(a.Name, b.Name) }},
	{"REQ/S", "requests per second, of the last 5 seconds", true, 6, 7, 1, func(s *status.Site) string { return status.PerSecond(s.Rate.Requests) }, larger(func(s *status.Site) float64 { return s.Rate.Requests })},
	{"RECV/S", "bytes received per second", true, 7, 7, 5, func(s *status.Site) string { return sizePerSecond(s.Rate.In) }, larger(func(s *status.Site) float64 { return s.Rate.In })},
	{"SENT/S", "bytes sent per second", true, 7, 7, 8, func(s *status.Site) string { return sizePerSecond(s.Rate.Out) }, larger(func(s *status.Site) float64 { return s.Rate.Out })},
	{"WAIT", "how many requests wait", true, 5, 6, 2, func(s *status.Site) string { return fmt.Sprint(s.Held) }, larger(func(s *status.Site) int { return s.Held })},
	{"LONGEST", "the longest of these waits so far", true, 9, 9, 4, longestText, larger(func(s *status.Site) float64 { return s.LongestWait })},
	{"LIMITED BY", "what most of them wait for", false, 12, 60, 6, func(s *status.Site) string { return cmp.Or(s.LimitedBy, "-") }, func(a, b *status.Site) int {
		return strings.Compare(cmp.Or(a.LimitedBy, "~"), cmp.Or(b.LimitedBy, "~"))
	}},
	{"REFUSED", "answers that refused a request because of a limit", true, 8, 10, 7, func(s *status.Site) string { return fmt.Sprint(s.Refusals) }, larger(func(s *status.Site) uint64 { return s.Refusals })},
	{"STATE", "paused, what is wrong, or ok", false, 10, 14, 3, func(s *status.Site) string { return s.Word() }, larger(severity)},
}

// larger orders rows by a number, the largest first.
func larger[N cmp.Ordered](number func(*status.Site) N) func(a, b *status.Site) int {
	return func(a, b *status.Site) int { return cmp.Compare(number(b), number(a)) }
}

func longestText(s *status.Site) string {
	if s.Held == 0 {
		return "-"
	}
	return status.Span(status.DurationOf(s.LongestWait))
}

// severities are the states of sites, the worst last. Others, such as "left alone", are worse.
var severities = []string{"ok", "paused", "on trial"}

// severity is larger for what needs an operator more.
func severity(s *status.Site) int {
	return (slices.Index(severities, s.Word()) + len(severities) + 1) % (len(severities) + 1)
}

// colors are those of the states, by their severity.
var colors = []tcell.Color{tcell.ColorDefault, tcell.ColorYellow, tcell.ColorYellow, tcell.ColorRed}
