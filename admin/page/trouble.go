package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

func (v *view) trouble() {
	list := fold(v.ill, 8, same)
	wrong, n := len(list.Shown) > 0, len(list.Folded)
	first := strings.Join(lists.Map(list.Folded[:min(n, 3)], status.Trouble.What), ", ")
	v.put(`<section aria-labelledby="h-trouble"{}><h2 id="h-trouble"{}>{}{}{}</h2>{}{}{}{}</section>`, some(wrong, ` class="wrong"`), some(!wrong && v.others == 0, ` class="good"`),
		pick(wrong, "What is wrong", "Nothing is wrong"), some(v.Filter != "", " with "+v.about), v.Filter, troubles(list.Shown),
		some(n > 0, `<details data-key="trouble"><summary>{} more: {}{}</summary>{}</details>`, number(n), dotted(first), some(n > 3, " and others"), troubles(list.Folded)), hidden(list.Hidden, "more are not listed."),
		some(v.others > 0, `<p class="faint">{} with other sites or abide itself: <a href="/#trouble">show all</a></p>`, areWrong(v.others)))
}

func troubles(list []status.Trouble) part {
	return some(len(list) > 0, `<div class="wide"><table class="stack troubles"><colgroup><col><col><col><col></colgroup>
<thead class="hidden"><tr><th scope="col">What</th><th scope="col">Why</th><th scope="col">Until</th><th scope="col">What ends it</th></tr></thead><tbody>{}</tbody></table></div>`, lists.Map(list, troubled))
}

func troubled(t status.Trouble) part {
	return html(`<tr data-key="{}"><th scope="row" class="{}">{}</th><td class="text">{}{}{}</td><td>{}</td><td>{}{}</td></tr>`, t.Key(), t.Tone,
		named(pick(len(t.Names) == 1, t.Sites[0], ""), t.What()), linked(t.Reason), t.Loss, namesOf(&t), split(t.Until, ", ", `<span class="whole">{}</span>`, `, <span class="whole">{}</span>`),
		some(t.Site != "", `<form method="post" action="/sites"><input type="hidden" name="site" value="{}"><button name="do" value="resume" aria-label="Resume {}">Resume</button></form>`, t.Site, t.Site), try(&t))
}

// namesOf lists several things of which the same is wrong.
func namesOf(t *status.Trouble) (list []part) {
	n := len(t.Names)
	for i, one := range t.Names[:pick(n > 1, n, 0)] {
		before := html(pick[markup](i == 0, ": ", ", "))
		if i == 3 {
			before = html(` <details class="names" data-key="names"><summary>and {} more</summary> `, number(n-3))
		}
		list = append(list, before, named(t.Sites[i], one))
	}
	return append(list, some(n > 3, "</details>"))
}

// try is a button that has what is away tried at once.
func try(t *status.Trouble) part {
	list, isToken := t.Tried(), t.Pool != ""
	single := len(list) == 1
	what := pick(single, strings.Join(list, ""), t.What())
	fields := lists.Map(list, func(name string) part {
		return html(`<input type="hidden" name="{}" value="{}">`, pick(isToken, "label", "site"), name)
	})
	return some(len(list) > 0, `<form method="post" action="{}">{}{}<button name="do" value="{}" title="{}" data-done="{} can {} again: the next request{}" aria-label="Try {} again now">Try {}now</button></form>`,
		pick(isToken, "/tokens", "/sites"), some(isToken, `<input type="hidden" name="pool" value="{}">`, t.Pool), fields, pick(isToken, "enable", "try"),
		pick(isToken, "A request goes with "+pick(single, "it", "each")+" as soon as one comes", "One request goes at once. If it succeeds, the others follow"), what, pick(isToken, "go", "be asked"), pick(single, " tries it", "s try them"), what, some(!single, "all "))
}

func (v *view) advice() {
	list := fold(lists.Only(v.Advice, func(a status.Advice) bool { return !a.IsWrong() }), 2, same)
	n := len(list.Folded)
	v.put("{}", some(len(list.Shown) > 0, `<section aria-labelledby="h-advice"><h2 id="h-advice">Advice <small>from what was counted {}</small></h2><ul class="advice">{}</ul>{}</section>`,
		cmp.Or(status.Since(v.Counted, v.now), "lately"), lists.Map(list.Shown, advised), some(n > 0, `<details data-key="advice"><summary>{} more</summary><ul class="advice">{}</ul></details>`, n, lists.Map(list.Folded, advised))))
}

func advised(a status.Advice) part {
	return html("<li>{}{}</li>", linked(a.Text), some(a.Change != "", " <b>{}</b>", linked(a.Change)))
}

// queueRow is the requests of a client and priority that wait at a site.
type queueRow struct {
	status.HeldCount
	n       int
	longest float64 // in seconds
}

// queue sums up requests that wait, by site, client and priority, most of them first.
func (v *view) queue() {
	holds, more := v.Holds[:min(len(v.Holds), status.MaxHolds)], len(v.Holds) > status.MaxHolds
	sums, longest, last := map[status.HeldCount]*queueRow{}, 0.0, status.Hold{} // the last of those goes of which that is known
	known := !more                                                              // when each goes
	for _, hold := range holds {
		at := status.HeldCount{Site: hold.Site, Client: hold.Client, Priority: hold.Priority}
		row := sums[at]
		if row == nil {
			row = &queueRow{HeldCount: at}
			sums[at] = row
		}
		row.n++
		row.longest, longest = max(row.longest, hold.Waited), max(longest, hold.Waited)
		known = known && !hold.Expected.IsZero()
		if hold.Until = cmp.Or(hold.Expected, hold.Until); hold.Until.After(last.Until) {
			last = hold
		}
	}
	ends := pick(known || last.Until.Sub(v.now) >= time.Minute, status.Ahead(last.Until, v.now), "")
	rows := fold(slices.SortedFunc(maps.Values(sums), func(a, b *queueRow) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.Site, b.Site), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Client, b.Client))
	}), status.MaxListed, same)
	waits, course, count := cmp.Or(v.Waiting, &status.Waits{}), sparkOf(v.Samples.Waiting, 1), len(holds)
	limits := fold(waits.List, 4, same)
	n := len(limits.Folded)
	v.put(`<section aria-labelledby="h-queue"{}><h2 id="h-queue">Waiting</h2>{}{}{}</section>`, some(v.Filter != "" && len(v.Holds) == 0, ` class="idle"`), some(count == 0, `<p class="big">No request waits.</p>`),
		some(count > 0, `<p class="big"><b>{}{}</b> {}, the longest for {}{}</p>{}<details data-key="queue"><summary>By client and priority{}</summary>{}{}<div class="wide"><table class="stack clients">
<thead><tr><th scope="col">Site</th><th scope="col" class="text">Client</th><th scope="col">Priority</th><th scope="col">Requests</th><th scope="col" class="text">Share</th><th scope="col">Longest</th></tr></thead><tbody>{}</tbody></table></div>{}</details>`,
			some(more, "&gt; "), number(count), pick(count == 1, "request waits", "requests wait"), span(longest), some(ends != "", "; {} {}, to {}", pick(known, "the last goes", "some go only"), ends, named(last.Site, last.Site)),
			v.waits(limits.Shown, count), some(n > 0, ", and {} more limits", number(n)), v.waits(limits.Folded, count), some(waits.More && !more, `<p class="faint">The {} limits for which the most requests wait are listed.</p>`, len(waits.List)),
			lists.Map(rows.Shown, func(row *queueRow) part {
				return html(`<tr data-key="{} {} {}"><th scope="row">{}</th><td class="text">{}</td><td>{}</td><td>{}</td><td class="text">`+bar+`</td><td>{}</td></tr>`,
					row.Site, row.Priority, row.Client, dotted(row.Site), row.Client, row.Priority, number(row.n), 100*row.n/count, span(row.longest))
			}), hidden(rows.Hidden, "more are not listed.")),
		some(v.Filter == "", `{}<p class="faint small">last 15 min{}</p>`, course.svg(), some(course.Line != "", ", at most {} waited at once", status.PerSecond(course.Most))))
}

// waits lists the limits that requests wait for, with the share of all n requests.
func (v *view) waits(list []status.Wait, n int) part {
	return some(len(list) > 0, `<div class="wide"><table class="stack waits"><thead><tr><th scope="col">Requests</th><th scope="col" class="text">wait for</th><th scope="col" class="text">at</th><th scope="col">The next goes</th></tr></thead><tbody>{}</tbody></table></div>`, lists.Map(list, func(w status.Wait) part {
		return html(`<tr data-key="{} {} {}"><td>`+bar+` <b>{}</b></td><th scope="row">{}</th><td class="text">{}{}</td><td>{}</td></tr>`, w.Site, w.Limit, w.Why, 100*w.N/max(n, 1), number(w.N), status.Grouped(w.For()), named(w.Site, w.Site),
			some(w.Sites > 1, ` <a href="#h-sites">{}</a>`, strings.TrimPrefix(w.At(), w.Site)), w.Ends(v.now))
	}))
}

func (v *view) flow() {
	now, course, list := v.Samples.Total.Now, sparkOf(v.Samples.Total.Requests, 1), fold(v.Failures.List(), 3, same)
	v.put(`<section aria-labelledby="h-flow"><h2 id="h-flow">Flowing</h2><p class="big"><b>{}</b> requests/s</p><p class="{}">{}/s refused by abide itself</p><p class="{}">{}/s given up by clients</p><p class="faint">{} received, {} sent</p>{}<p class="faint small">last 15 min{}; {} {} to {} {} since the start</p>`,
		status.PerSecond(now.Requests), pick(now.Own != 0, "warm", "faint"), status.PerSecond(now.Own), pick(now.Left != 0, "warm", "faint"), status.PerSecond(now.Left), flowing(now.In), flowing(now.Out), course.svg(), some(course.Line != "", ", at most {}/s", status.PerSecond(course.Most)),
		status.Count(v.Total.Requests), pick(v.Total.Requests == 1, "request", "requests"), number(len(v.Known)), pick(len(v.Known) == 1, "site", "sites"))
	v.put("{}{}</section>",
		some(len(list.Shown) > 0, `<div class="wide"><table class="failed"><caption class="hidden">Failed since the start</caption><thead><tr><th scope="col">Site</th><th scope="col" class="text">Failed</th><th scope="col">Requests</th></tr></thead><tbody>{}</tbody></table></div>`, lists.Map(list.Shown, failed)),
		some(len(list.Folded) > 0, `<details data-key="failed"><summary>{} more</summary><div class="wide"><table class="failed"><tbody>{}</tbody></table></div></details>`, number(len(list.Folded)), lists.Map(list.Folded, failed)))
}

func failed(f status.Failure) part {
	return html(`<tr data-key="{} {}"><th scope="row">{}</th><td class="text">{}{}{}</td><td>{}</td></tr>`, f.Site, f.What, named(f.Site, f.Site),
		some(f.Doc != "", `<a href="{}{}">`, docs, f.Doc), f.What, some(f.Doc != "", "</a>"), status.Count(f.Requests))
}

func (v *view) bandwidth() {
	var drawn []part
	for i, p := range v.Past.Periods {
		if c := chartOf(p); i == 0 || c.busy > 1 {
			drawn = append(drawn, some(i == 0, `<summary><h2 id="h-bandwidth">Bandwidth</h2> {} received, {} sent in the last {}</summary>`, status.Size(c.In), status.Size(c.Out), p.Name), html(`<div class="wide">{}</div>`, c.Drawn))
		}
	}
	v.put("{}", some(v.Past.Err != "" || len(drawn) > 0, `<section aria-labelledby="h-bandwidth">{}{}</section>`, some(v.Past.Err != "", `<h2 id="h-bandwidth">Bandwidth</h2><p class="bad">{}</p>`, v.Past.Err), some(len(drawn) > 0, `<details data-key="bandwidth">{}</details>`, drawn)))
}
