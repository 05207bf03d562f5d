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
	course history.Course
	wrong  int     // the place among what is wrong, the first lowest; 0: nothing is
	recent float64 // requests of the last minutes
}

// siteRows are the sites, the busiest first.
func (v *view) siteRows() (rows []siteRow) {
	place, losing := map[string]int{}, status.Losing(v.Advice)
	for i := len(v.ill) - 1; i >= 0; i-- {
		for _, site := range v.ill[i].Sites {
			place[site] = i - len(v.ill)
		}
	}
	for i := range v.Known {
		site := &v.Known[i]
		site.Loses = losing[site.Name]
		row := siteRow{Site: site, course: v.Samples.Sites[site.Name], wrong: place[site.Name]}
		for _, n := range row.course.Requests {
			row.recent += float64(n)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, busier)
	return rows
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
		return &limitBar{Name: site.LimitedBy, Used: -1, Holds: true}
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

func (v *view) sites() {
	const shownSites = 5 // the number of sites that are not folded
	rows := v.siteRows()
	list := fold(rows, shownSites, same)
	n, wrong := len(list.Folded), len(lists.Only(rows[len(list.Shown):], func(row siteRow) bool { return row.wrong != 0 }))
	switch {
	case len(rows) > 0:
		v.put("{}", v.siteTable(list.Shown))
	case v.Filter != "":
		v.put("<p>No site has “{}” in its name.</p>", v.Filter)
	case v.came:
		v.put("<p>None {}, when abide started.</p>", status.Since(v.Started, v.now))
	default:
		v.put("<p>No request has come yet.</p>")
	}
	v.put("{}", some(n > 0, `<details data-key="sites"{}><summary>{} more{}{}</summary>{}{}</details>`, some(v.Filter != "", " open"), n, some(list.Hidden > 0, " of {} sites", number(len(rows))),
		some(wrong > 0, `, <span class="bad">something is wrong with {} of them</span>`, number(wrong)), v.siteTable(list.Folded), some(list.Hidden > 0, `<p class="faint"><a href="/api/v1/sites">All as JSON</a></p>`)))
	if v.Unread != nil {
		v.unread(v.Unread)
	}
}

func (v *view) unread(u *status.Unread) {
	v.put(`<details data-key="unread"><summary>https that passed unread: {} connections to {} {}</summary>
<div class="wide"><table><thead><tr><th scope="col">Site</th><th scope="col" class="text">Why</th><th scope="col">Connections</th></tr></thead><tbody>`, status.Count(u.Connections), number(u.SiteCount), pick(u.SiteCount == 1, "site", "sites"))
	for _, site := range u.Sites {
		for _, one := range site.Reasons {
			v.put(`<tr><th scope="row">{}</th><td class="text">{}</td><td>{}</td></tr>`, dotted(site.Site), one.Why(), status.Count(one.Connections))
		}
	}
	v.put("</tbody></table></div>{}</details>", some(u.SiteCount > len(u.Sites), `<p class="faint">The {} with the most connections are listed.</p>`, len(u.Sites)))
}

func (v *view) siteTable(rows []siteRow) part {
	return html(`<div class="wide"><table class="stack sites">
<thead><tr><th scope="col">Site</th><th scope="col" class="text">Last 15 min</th><th scope="col">Now</th><th scope="col">Bytes</th><th scope="col">Requests</th><th scope="col">Received, sent</th><th scope="col" title="Answers by which the site refused a request because of a limit; abide sends it again">Refused by it</th><th scope="col" title="Requests that wait, and the longest of these waits so far">Wait</th><th scope="col" class="text">Limit</th><th scope="col">State</th></tr></thead>
<tbody>{}</tbody></table></div>`, lists.Map(rows, v.siteRow))
}

func (v *view) siteRow(row siteRow) part {
	site, now := row.Site, row.course.Now
	paused := site.Paused != nil
	do := pick(paused, "Resume", "Pause")
	return html(`<tr data-key="{}"><th scope="row"><a href="/?site={}">{}</a>{}{}{}</th><td class="course">{}</td><td>{}/s</td><td>{}</td><td>{}</td><td><span>{},</span> <span>{}</span></td><td>{}</td><td>{}</td><td class="text limits">{}</td>
<td>{}<form method="post" action="/sites"><input type="hidden" name="site" value="{}"><button name="do" value="{}" aria-label="{} {}{}">{}</button></form></td></tr>`,
		site.Name, query(site.Name), dotted(site.Name), some(site.Set, " <small>limits set at run time</small>"),
		some(now.Own != 0, ` <small class="warm">{}/s refused by abide</small>`, status.PerSecond(now.Own)), some(now.Left != 0, ` <small class="warm">{}/s given up</small>`, status.PerSecond(now.Left)),
		some(len(row.course.Requests) > 0, "{}", sparkOf(row.course.Requests, 2).svg()), status.PerSecond(now.Requests), flowing(now.In+now.Out), status.Count(site.Counts.Requests), status.Size(site.In), status.Size(site.Out), some(site.Refusals > 0, "{}", status.Count(site.Refusals)),
		some(site.Held > 0, `<b>{}</b> <span class="faint small">for up to {}</span>`, number(site.Held), span(site.LongestWait)), limiting(limitingBar(site, v.learnt, v.now)), stateOf(site), site.Name, strings.ToLower(do), do, site.Name, some(paused, " now"), do)
}

// limiting is the limit of a site that is in sight, nil for none.
func limiting(l *limitBar) part {
	switch {
	case l == nil:
		return part{}
	case l.Holds:
		return html("<b>{}</b>{}", status.Grouped(l.Name), some(l.Left != "", " <small>{}</small>", l.Left))
	}
	return html("{} {} <small>{}</small>", left(l.Used), l.Left, status.Grouped(l.Name))
}

// stateOf is the state of a site in a word.
func stateOf(site *status.Site) part {
	tone, title := "bad", "Its last requests have all failed, and it is still asked"
	switch {
	case site.Word() == "ok":
		return html(`<span class="faint">ok</span>`)
	case site.Paused != nil:
		tone, title = "warm", "No request goes to it until it is resumed"
	case site.Breaker == "closed" || site.Breaker == "":
		return html(`<a class="{}" href="#trouble" title="{}: see what is wrong">{}</a>`, pick(site.Loses, "bad", "warm"), pick(site.Loses, "Clients lose many requests", "The other backends are asked"), site.Word())
	case site.Breaker == "half-open":
		tone, title = "warm", "The next request is a trial: if it succeeds, the others go"
	case site.Breaker == "open":
		title = "It failed, so no request goes to it for a time. Then one is sent as a trial"
	}
	return html(`<span class="{}" title="{}">{}</span>`, tone, title, site.Word())
}

// chosen has the forms of the site that the filter names.
func (v *view) chosen() {
	if c := v.Chosen; c != nil {
		v.put(`<section class="chosen" aria-labelledby="h-chosen"><h2 id="h-chosen">{}</h2><div class="forms"><div id="pause" class="card">{}</div>
<form method="post" action="/limits" class="card">
<h3>Limits{}</h3>
<input type="hidden" name="site" value="{}">
<label>As the configuration writes them <textarea name="limits" rows="6" wrap="off" spellcheck="false">{}</textarea></label>
<button name="do" value="set">Set limits</button>{}
</form></div>
<p class="faint">Its past: <a href="/past?site={}&amp;since=24h&amp;step=1h">24 hours</a>, <a href="/past?site={}&amp;since=30d&amp;step=1d">30 days</a>, <a href="/past?site={}&amp;by=client&amp;since=7d">7 days by client</a></p></section>`,
			c.Site, v.pause, some(c.Set, " <small>set at run time, kept over restarts</small>"), c.Site, c.Limits, some(c.Set, ` <button name="do" value="clear">Those of the configuration again</button>`), query(c.Site), query(c.Site), query(c.Site))
	}
}

// pause is of the site that the filter names, and is renewed without the text of its limits.
func (v *view) pause() {
	i := slices.IndexFunc(v.Known, func(site status.Site) bool { return site.Name == v.Filter })
	if i < 0 {
		return
	}
	if p := v.Known[i].Paused; p != nil {
		until := status.Ahead(p.Until, v.now)
		v.put(`<form method="post" action="/sites" class="card" data-key="resume"><input type="hidden" name="site" value="{}"><h3>Paused</h3>
<p>{} <span class="faint">{}.</span></p>
<button name="do" value="resume">Resume {}</button></form>`, v.Filter, cmp.Or(p.Reason, "No reason was given."), pick(until != "", "It ends "+until, "Until it is resumed"), v.Filter)
		return
	}
	v.put(`<form method="post" action="/sites" class="card" data-key="pause"><input type="hidden" name="site" value="{}"><h3>Pause</h3>
<p class="faint">No request goes to a paused site. Those that come wait for as long as they may (<code>queue.wait</code>); abide refuses them where the pause is longer.</p>
<label>Reason <input name="reason" maxlength="200" placeholder="maintenance"></label>
<label>For <input name="for" size="8" placeholder="2h"> <span class="faint">empty: until it is resumed</span></label>
<button name="do" value="pause">Pause {}</button></form>`, v.Filter, v.Filter)
}
