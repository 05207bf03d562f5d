package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// column is a column of the table of sites.
type column struct {
	title string
	help  string
	right bool // it has numbers
	least int  // the width that it needs, in columns of the terminal
	most  int  // the width that it can use
	// rank says which columns are left out of a narrow terminal: those with the largest first.
	rank int
	text func(r row) string
	// compare orders rows: what is to be seen first is less.
	compare func(a, b row) int
}

// columns are all columns, in their order. The first is never left out.
var columns = []column{
	{"SITE", "the name", false, 14, 48, 0, func(r row) string { return r.site }, func(a, b row) int { return strings.Compare(a.site, b.site) }},
	{"REQ/S", "requests per second, of the last 5 seconds", true, 6, 7, 1, func(r row) string { return perSecond(r.rates.requests) }, larger(func(r row) float64 { return r.rates.requests })},
	{"RECV/S", "bytes received per second", true, 7, 7, 5, func(r row) string { return sizePerSecond(r.rates.received) }, larger(func(r row) float64 { return r.rates.received })},
	{"SENT/S", "bytes sent per second", true, 7, 7, 8, func(r row) string { return sizePerSecond(r.rates.sent) }, larger(func(r row) float64 { return r.rates.sent })},
	{"WAIT", "how many requests wait", true, 5, 6, 2, func(r row) string { return fmt.Sprint(r.waiting) }, larger(func(r row) int { return r.waiting })},
	{"LONGEST", "the longest of these waits so far", true, 8, 8, 4, longestText, larger(func(r row) time.Duration { return r.longest })},
	{"LIMITED BY", "what most of them wait for", false, 12, 60, 6, func(r row) string { return cmp.Or(r.limitedBy, "-") }, compareLimits},
	{"REFUSED", "answers that refused a request because of a limit", true, 8, 10, 7, func(r row) string { return fmt.Sprint(r.refusals) }, larger(func(r row) uint64 { return r.refusals })},
	{"STATE", "paused, or the breaker: ok, half-open, open", false, 9, 9, 3, func(r row) string { return r.state }, larger(severity)},
}

// larger orders rows by a number, the largest first.
func larger[N cmp.Ordered](number func(row) N) func(a, b row) int {
	return func(a, b row) int { return cmp.Compare(number(b), number(a)) }
}

func longestText(r row) string {
	if r.waiting == 0 {
		return "-"
	}
	return short(r.longest)
}

// compareLimits orders rows by the name of the limit, and those without a limit last.
func compareLimits(a, b row) int {
	if a.limitedBy == "" || b.limitedBy == "" {
		return strings.Compare(b.limitedBy, a.limitedBy)
	}
	return strings.Compare(a.limitedBy, b.limitedBy)
}

// severity is larger for what needs an operator more.
func severity(r row) int {
	return map[string]int{"open": 3, "half-open": 2, "paused": 1}[r.state]
}
