package advice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/status"
	"github.com/abide-proxy/abide/store"
)

const (
	// dominant is the part of a site's bytes that makes one client the reason for a full limit.
	dominant = 0.6
	// longWait is an average wait that is worth a word, of at least fewest requests.
	longWait = time.Minute
	fewest   = 5
)

// givenUp finds sites whose requests clients gave up at a time-out.
func givenUp(f *Facts) (list []status.Advice) {
	var failures status.Failures
	for _, one := range f.History[store.FailedRows] {
		failures.Add(one.Site, one.What, one.Requests)
	}
	for _, site := range slices.Sorted(maps.Keys(failures.Codes)) {
		for _, c := range status.TimeOuts(failures.Codes[site]) {
			if c.Code == status.ClientLeft && c.Reason != "" && c.Reason != status.WhileFailing {
				timedOut, what := *f, status.FailureOf(c.Code, c.Reason)
				timedOut.History[store.FailedRows] = []store.Row{{Site: site, What: what, Requests: int64(c.Answers)}}
				list = append(list, failing(&timedOut, what, "%s: clients gave up %d of %d requests after "+status.Spelled(c.Reason)+", before the end of the answer%s.", "Give the client a longer time-out, see docs/crawlers.md#time-outs.")...)
			}
		}
	}
	return list
}

// refusesAll finds sites that answered 403.
func refusesAll(f *Facts) []status.Advice {
	return failing(f, forbidden, "%s answered 403 to %d of %d requests, so it may block this crawler%s.",
		"Look at such an answer and at the site's rules for crawlers; a User-Agent with a contact (headers: in its rule) and a lower rate often help.")
}

// forbidden is the FailureOf answers with which sites refuse everything.
const forbidden = "403"

// failing finds sites whose requests failed in one way. From refusedShare on it has the
// largest weight, as these requests bring nothing.
func failing(f *Facts, what, text, change string) (list []status.Advice) {
	for _, one := range f.History[store.FailedRows] {
		all := max(f.usage[one.Site].Requests, one.Requests)
		if one.What != what || one.Requests < fewest || one.Site == store.Others {
			continue
		}
		held := ""
		because, long, more := f.holding(one.Site)
		if mean := f.usage[one.Site].Waited / time.Duration(all); mean >= time.Second {
			held = fmt.Sprintf("; a request waited for %s on average", status.Long(mean))
		}
		text, change, lately := text, change, f.failedLately(one.Site, what)
		if what == problem.Broken.Reason && !slices.ContainsFunc(f.Broken, func(b status.Breaker) bool { return b.Site == one.Site }) {
			text, lately = "%s failed for a time: abide itself answered %d of %d requests meanwhile%s.", false
		} else if !lately {
			text = strings.Replace(text, "may block", "may have blocked", 1)
		}
		if long && what == "wait" {
			change = "No wait is long enough: " + more + "send fewer requests in all, or get a larger limit."
		}
		if _, paused := f.Paused[one.Site]; paused && what == "wait" {
			because = status.ByPause
			held, change = ", because it is "+because, "Resume it: abide resume "+one.Site+"."
		} else if pause, until := f.cooldown(one.Site); pause != "" && what == "wait" {
			held, change = "; now "+pause, until
		} else if code, _ := status.ReadFailure(what); because != "" && (what == "wait" || what == "queue" || code == status.ClientLeft) {
			held += "; most waited for " + because
		}
		list = append(list, status.Advice{
			Site: one.Site, Weight: min(float64(one.Requests)/float64(all)/refusedShare, 1), Lately: lately,
			Text: fmt.Sprintf(text, one.Site, one.Requests, all, held), Change: change, Because: because,
		})
	}
	return list
}

// holding names the limit that has held requests of a site for the longest time, of those that it has now, or one that is
// used up; "" for none. long: nobody waits for its next window, as windows are that long, or as more says when it begins.
func (f *Facts) holding(site string) (name string, long bool, more string) {
	var most store.Row
	for _, b := range f.History[store.BlockedRows] {
		if b.Site == site && b.Held > most.Held && len(f.limits(site, b.Limit))+len(f.announced(site, b.Limit)) > 0 {
			most = b
		}
	}
	for _, l := range f.Limits {
		if l.Site == site && l.Left == 0 && (most.Limit == "" || status.DurationOf(l.Window) >= time.Hour) {
			most.Limit = l.Limit
		}
	}
	for _, l := range f.announced(site, "") {
		if l.Reset.Sub(f.Now) >= time.Hour && !slices.ContainsFunc(f.announced(site, l.Name()), func(of status.Announced) bool { return of.Remaining != 0 }) {
			return l.Name(), true, "it has more from " + clock(l.Reset, f.Now) + " UTC on; until then, "
		}
	}
	written := f.limits(site, most.Limit)
	return most.Limit, len(written) > 0 && status.DurationOf(written[0].Window) >= time.Hour, ""
}

// Lately is the time of Facts.Failed, which Advice calls the last minutes.
const Lately = 5 * time.Minute

// failedLately reports whether requests to a site failed in one way in the last minutes, too. Clients that gave up have
// failed in one way, whatever their time-out is.
func (f *Facts) failedLately(site, what string) bool {
	code, _ := status.ReadFailure(what)
	return slices.ContainsFunc(f.Failed, func(failure store.Row) bool {
		other, _ := status.ReadFailure(failure.What)
		return failure.Site == site && (failure.What == what || other == code && code == status.ClientLeft)
	})
}

// ownAnswers finds sites whose requests abide answered itself.
func ownAnswers(f *Facts) (list []status.Advice) {
	told, titles := map[string]bool{}, problem.Titles()
	for _, one := range f.History[store.FailedRows] {
		if code, _ := status.ReadFailure(one.What); code == 0 && !told[one.What] {
			told[one.What] = true
			change := cmp.Or(ownChanges[one.What], "What helps depends on the reason") + ": see docs/troubleshooting.md#" + one.What + "."
			list = append(list, failing(f, one.What, "%s: abide itself answered %d of %d requests with \""+titles[one.What]+"\"%s.", change)...)
		}
	}
	return list
}

// ownChanges say what makes answers of abide itself fewer, by their reason.
var ownChanges = map[string]string{
	"breaker": "No limit is the reason",
	"wait":    "Allow a longer wait (queue.wait, Abide-Max-Wait), or send fewer requests at once",
	"queue":   "Send fewer requests at once, or raise queue.max and queue.per_site",
}

// oneClient are limits of bytes that are full because of one client of several.
func oneClient(f *Facts) (list []status.Advice) {
	for _, b := range f.History[store.BlockedRows] {
		limits := f.limits(b.Site, b.Limit)
		if len(limits) == 0 || limits[0].Unit != "bytes" || limits[0].By == "client" || f.share(b) < busyShare {
			continue
		}
		client, share, others := f.largestClient(b.Site)
		if others == 0 || share < dominant {
			continue
		}
		list = append(list, status.Advice{
			Site: b.Site, Weight: f.share(b),
			Text: fmt.Sprintf("%s: the limit %q is full %s of each hour, and %s of the bytes are those of one client, %s.",
				b.Site, b.Limit, status.Long(time.Duration(f.share(b)*float64(time.Hour))), percent(share), client),
			Change: fmt.Sprintf("A limit with by: client, or a lower priority for %s, would leave room for the others.", client),
		})
	}
	return list
}

// largestClient is the client with the most bytes of a site, its part of them, and how many
// other clients there are.
func (f *Facts) largestClient(site string) (name string, share float64, others int) {
	bytes, all := map[string]int64{}, int64(0)
	for _, u := range f.History[store.UsageRows] {
		if u.Site == site {
			bytes[u.Client] += u.In + u.Out
			all += u.In + u.Out
		}
	}
	for client, n := range bytes {
		if n > bytes[name] || n == bytes[name] && client < name {
			name = client
		}
	}
	if all == 0 {
		return "", 0, 0
	}
	return name, float64(bytes[name]) / float64(all), len(bytes) - 1
}

// longPriorities are priorities whose requests wait for long while those of more urgent ones
// do not.
func longPriorities(f *Facts) (list []status.Advice) {
	by := usageBy(f, func(k store.Row) int { return k.Priority })
	average := func(p int) time.Duration { return by[p].Waited / time.Duration(max(by[p].Requests, 1)) }
	for p, s := range by {
		urgent, others := time.Duration(0), int64(0)
		for q := range p {
			if by[q].Requests > 0 {
				urgent, others = max(urgent, average(q)), others+by[q].Requests
			}
		}
		if s.Requests < fewest || average(p) < longWait || others == 0 || urgent > average(p)/2 {
			continue
		}
		list = append(list, status.Advice{
			Weight: min(float64(s.Waited)/float64(f.elapsed())/float64(s.Requests), 1),
			Text:   fmt.Sprintf("Requests of priority %d have waited %s on average; %d more urgent ones went first.", p, status.Long(average(p)), others),
			Change: "Give urgent priorities to fewer requests. The order only matters where a limit holds requests, so a larger limit helps too.",
		})
	}
	return list
}
