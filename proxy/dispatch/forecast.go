package dispatch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/limit/forecast"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// WrittenLimits are all that are remembered, in order.
func (v *View) WrittenLimits() []status.Limit {
	var list []status.Limit
	v.use.limits.each(func(l *written) { list = append(list, l.shown) })
	slices.SortFunc(list, func(a, b status.Limit) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Of, b.Of))
	})
	return list
}

// Forecast says of the limits with long windows, of one site or "" for all, when they
// end at the present rate, and when so many more requests would be done.
func (v *View) Forecast(site string, requests int64) []status.Forecast {
	v.use.sample() // it may have been a while
	var list []status.Forecast
	v.use.limits.each(func(l *written) {
		if site != "" && l.shown.Site != site || !forecast.Covers(l.spec) {
			return
		}
		f := status.Forecast{Site: l.shown.Site, Limit: l.shown.Limit, Of: l.shown.Of, Amount: l.shown.Amount, Left: l.shown.Left, Used: l.used(), Unit: l.shown.Unit}
		f.Rate = v.use.rateOf(l)
		more := requests
		if l.shown.Unit == string(policy.Bytes) {
			more = 0 // requests say nothing of bytes
		}
		b := forecast.Budget{Spec: *l.spec, Amount: l.shown.Amount, Used: f.Used, Left: l.shown.Left, Rate: f.Rate}
		ahead := b.Forecast(l.now, more)
		f.Opens, f.Ends, f.RunsOut, f.Done = ahead.Opens, ahead.Ends, ahead.RunsOut, ahead.Done
		list = append(list, f)
	})
	slices.SortFunc(list, func(a, b status.Forecast) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Of, b.Of))
	})
	return list
}
