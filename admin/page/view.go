package page

import (
	"cmp"
	_ "embed" // the files of the page
	"regexp"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// Files of the page, which stand beside it.
var (
	//go:embed style.css
	Style []byte
	//go:embed page.js
	Script []byte
	//go:embed icon.svg
	Icon []byte
)

// Render returns the whole page.
func Render(f *Facts, now time.Time) []byte {
	v := viewOf(f, now)
	v.page()
	return v.text
}

// Part is a part of the page: what the element with the id of its name has.
type Part struct {
	Name string `json:"id"`
	HTML string `json:"html"`
}

// Parts are all parts of the page that change, in the order of the page.
func Parts(f *Facts, now time.Time) (list []Part) {
	v := viewOf(f, now)
	for _, one := range []struct {
		id  string
		put func()
	}{{"title", v.title}, {"state", v.state}, {"summary", v.summary}, {"trouble", v.trouble}, {"queue", v.queue}, {"flow", v.flow}, {"advice", v.advice}, {"pause", v.pause}, {"sites", v.sites}, {"tokens", v.tokens}, {"jobs", v.jobs}, {"limits", v.limits}, {"bandwidth", v.bandwidth}, {"fleet", v.fleet}} {
		v.text = v.text[:0]
		one.put()
		list = append(list, Part{one.id, string(v.text)})
	}
	return list
}

const (
	// head begins every page, up to its title, and look follows the title.
	head markup = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
`
	look markup = `<link rel="icon" href="/icon.svg" type="image/svg+xml"><link rel="stylesheet" href="/style.css">`
)

func (v *view) page() {
	v.put(head+`<noscript><meta http-equiv="refresh" content="60"></noscript><title id="title">{}</title>`+look+`<script src="/page.js" defer></script></head>
<body>
<header><h1><svg class="mark" viewBox="0 0 16 16" aria-hidden="true"><path d="M1 4h14M1 8h9M1 12h5"/></svg>abide</h1><div id="state">{}</div>{}<p class="when"><span id="live">{}</span></p></header>
<p id="answer" role="status"></p><p id="summary" class="hidden" aria-live="polite">{}</p>
<main>{}
<div id="trouble">{}</div>
<div class="pair"><div id="queue">{}</div><div id="flow">{}</div></div>
<div id="advice">{}</div>{}
<section aria-labelledby="h-sites"><div class="head"><h2 id="h-sites">Sites <small>ordered by: what is wrong, what waits, requests of 15 min</small></h2>
<form role="search" action="/" class="search"><label>Name <input type="search" name="site" value="{}" maxlength="300" autocomplete="off" spellcheck="false"></label><button>Find</button>{}</form></div>
<div id="sites">{}</div></section>
<div id="tokens">{}</div><div id="jobs">{}</div><div id="limits">{}</div><div id="bandwidth">{}</div><div id="fleet">{}</div>{}
</main>
<footer><a href="/metrics">Metrics</a> <a href="/api/v1/status">Status as JSON</a> <a href="/api/v1/sites">Sites</a> <a href="/api/v1/holds">Holds</a> <a href="/api/v1/tokens">Tokens</a> <a href="/api/v1/forecast">Forecast</a> <a href="/api/v1/bandwidth">Bandwidth</a> <a href="/past?since=7d&amp;step=1d">Last 7 days</a> <a href="/api/v1/advice">Advice</a> <a href="/api/v1/jobs">Jobs</a> <a href="/api/v1/openapi.json">OpenAPI</a> <a href="/readyz">Readiness</a></footer>
</body></html>
`, v.title, v.state, some(v.Filter != "", `<p>about {}<b>{}</b>: <a href="/">all</a></p>`, v.about, v.Filter), v.now.UTC().Format("15:04:05 UTC"), v.summary, some(!v.came, "{}", v.setup), v.trouble, v.queue, v.flow, v.advice, v.chosen,
		v.Filter, some(v.Filter != "", ` <a href="/">all</a>`), v.sites, v.tokens, v.jobs, v.limits, v.bandwidth, v.fleet, some(v.came, "{}", v.setup))
}

func (v *view) state() {
	c := cmp.Or(v.Connections, &status.Connections{})
	v.put("<p>{} {}up {}{}</p>", pick[markup](v.Ready, `<span class="pill good">ready</span>`, `<span class="pill bad">not ready</span>`), some(v.Version != "", "{} · ", v.Version),
		span(v.Uptime), some(v.Connections != nil, " · {} client connections, {} tunnels", number(c.Clients), number(c.Tunnels)))
}

func (v *view) title() {
	n := len(v.ill) + v.others
	v.put("abide{}", some(n > 0, ": {}", areWrong(n)))
}

// summary is for those who hear the page. It changes seldom, so it has no number that changes all the time.
func (v *view) summary() {
	n := len(v.ill) + v.others
	v.put("{}; {}.", pick(n > 0, areWrong(n), "Nothing is wrong"), pick(len(v.Holds) > 0, "requests wait", "no request waits"))
}

func (v *view) setup() {
	proxy, ca := cmp.Or(v.Open, v.Proxy), cmp.Or(v.CA, &status.CA{})
	trusted := ca.AnyName || len(ca.Names) > 0
	v.put(`<section id="setup" aria-labelledby="h-setup"><details{}><summary><h2 id="h-setup">Point a client at it</h2>{}</summary>{}
<pre tabindex="0">export HTTP_PROXY={} HTTPS_PROXY={}
export http_proxy={} https_proxy={}</pre>{}{}{}</details></section>`, some(!v.came, " open"), some(proxy != "", " <code>{}</code>", proxy),
		some(v.Setup != "", `<p>In its shell, on this machine:</p><pre tabindex="0"><code>eval "$({})"</code></pre><p>Elsewhere:</p>`, v.Setup), proxy, proxy, proxy, proxy,
		some(v.Open != "", `<p>At this address all https is opened, so that its limits are seen. At <code>{}</code> the setting <code>intercept</code> decides.</p>`, v.Proxy),
		some(v.CA != nil && !trusted, "<p>No https is intercepted, so there is no certificate to trust.</p>"),
		some(trusted, `<p>Where https is opened, clients must trust the <a href="/ca.pem">CA certificate</a>.{}</p>
<dl><dt>Certificate</dt><dd>{}, until {}</dd><dt>SHA-256</dt><dd><code class="print">{}</code></dd><dt>Good for</dt><dd>{}</dd></dl>`,
			pick[markup](v.Setup != "", " The first command sets that and the proxy up, for every language.", ` No files are kept for them (<code>data: none</code>): download <a href="/bundle.pem">the certificate with this system's roots</a> and name the file in <code>SSL_CERT_FILE</code> and the like, or start the client with <code>abide run</code>.`),
			ca.Subject, ca.NotAfter.Format("2 January 2006"), ca.SHA256, pick(ca.AnyName, "any host", strings.Join(ca.Names, ", "))))
}

func (v *view) jobs() {
	rows := lists.Map(v.Jobs, func(job status.Job) part {
		units, round := job.Units, cmp.Or(job.Round, &status.JobRound{})
		return html(`<tr data-key="{}"><th scope="row">{}</th><td>{}</td><td>{}{}</td><td>{}{}</td><td>{}</td><td class="text">{}</td><td>{}</td></tr>`, job.Name, job.Name, job.State,
			some(units.Total > 0, `<meter min="0" max="{}" value="{}" aria-hidden="true"></meter> {} of {}`, int(units.Total), int(units.Done), int(units.Done), int(units.Total)), some(job.Round != nil, "round {}, {} targets", int(round.Number), number(round.Targets)),
			int(units.Failed), some(job.Round != nil, "{}", round.Failing), int(job.Records), cmp.Or(job.Limited, job.Reason), some(!job.Ends.IsZero(), "{}", status.In(job.Ends, v.now)))
	})
	v.put("{}", some(len(rows) > 0, `<section aria-labelledby="h-jobs"><h2 id="h-jobs">Jobs</h2><div class="wide"><table>
<thead><tr><th scope="col">Job</th><th scope="col">State</th><th scope="col">Done</th><th scope="col">Failed</th><th scope="col">Records</th><th scope="col" class="text">Limited by</th><th scope="col">Ends</th></tr></thead>
<tbody>{}</tbody></table></div></section>`, rows))
}

func (v *view) fleet() {
	s := cmp.Or(v.Store, &status.Store{})
	shared := s.Kind == status.StoreShared
	members := lists.Map(s.Members, func(m status.Member) part {
		return html(`<tr><th scope="row">{}{}</th><td>{}</td></tr>`, m.Name, some(m.Self, " <small>this one</small>"), status.Ago(m.Seen, v.now))
	})
	v.put("{}", some(shared || s.Count > 1, `<section aria-labelledby="h-fleet"><details data-key="fleet"><summary><h2 id="h-fleet">{}</h2> <span class="sentence{}">{}.</span></summary>{}</details></section>`, pick(shared, "Fleet", "Processes"), some(s.Fails(), " bad"), s.Sentence(v.now),
		some(len(members) > 0, `<div class="wide"><table><thead><tr><th scope="col">Instance</th><th scope="col">Seen</th></tr></thead><tbody>{}</tbody></table></div>`, members)))
}

// Problem returns the page about a form that was refused.
func Problem(p status.Problem) []byte {
	var b builder
	b.put(head+"<title>abide: {}</title>"+look+`</head>
<body><header><h1>abide</h1></header>
<main><h2>This was not done</h2>
{}{}
<p><a href="/">To the page</a>, or back with the browser's own button, which keeps what was entered.</p>
</main></body></html>
`, p.Title, some(len(p.Faults) == 0, `<p class="bad">{}</p>`, p.Detail), some(len(p.Faults) > 0, `<ul class="bad">{}</ul>`, lists.Map(p.Faults, func(f status.Fault) part {
		return html("<li>{}{}{}</li>", some(f.Line != 0, "line {}: ", f.Line), some(f.Key != "", "{}: ", f.Key), f.Text)
	})))
	return b.text
}

// Report returns the page of what became of requests. The same as JSON has the address api.
func Report(site, api string, all status.Report) []byte {
	const mostLines = 50 // the largest number of sentences of one kind on a page
	var b builder
	sentences := all.Sentences("clients")
	b.put(head+"<title>abide: {} in the past</title>"+look+`</head>
<body><header><h1>abide</h1><p><a href="/{}">To the page</a></p></header>
<main><h2>{} in the past</h2>
<p>{}</p>
{}{}{}{}{}
<p class="faint">All of it as <a href="{}">JSON</a>. <code>abide report</code> prints the same; <code>--json</code> and <code>--csv</code> are options of it.</p>
</main></body></html>
`, cmp.Or(site, "all sites"), some(site != "", "?site={}", query(site)), cmp.Or(site, "All sites"), all.Period(), lists.Map(all.Tables(), table),
		some(len(sentences) > 0, "<h3>Failed</h3>"), lists.Map(sentences[:min(len(sentences), mostLines)], func(line string) part { return html("<p>{}</p>", linked(line)) }),
		some(len(all.Denied) > 0, "<h3>Denied</h3>"), lists.Map(all.Denied[:min(len(all.Denied), mostLines)], func(t status.DeniedToken) part { return html("<p>{}</p>", t.String()) }), api)
	return b.text
}

func table(t status.ReportTable) part {
	var head, rows []part
	for i, name := range t.Head {
		head = append(head, html(`<th scope="col"{}>{}</th>`, some(i < t.Words, ` class="text"`), name))
	}
	for _, row := range t.Rows {
		rows = append(rows, html("<tr>"))
		for i, cell := range row {
			rows = append(rows, html(`<td data-name="{}"{}>{}</td>`, t.Head[i], some(i < t.Words, ` class="text"`), pick(i < t.Words, cell, amount(cell))))
		}
		rows = append(rows, html("</tr>"))
	}
	return html("<h3>{}</h3>{}{}", t.Title, some(len(rows) > 0, `<div class="wide"><table class="past"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>`, head, rows),
		lists.Map(t.Notes, func(note string) part { return html(`<p class="faint">{}</p>`, note) }))
}

// days matches a duration of days and hours.
var days = regexp.MustCompile(`^(\d+)d(\d+)h$`)

// amount is a cell of a report: "5 001", "4 h 28 min".
func amount(cell string) string {
	if strings.Trim(cell, "0123456789") == "" {
		return status.Grouped(cell)
	}
	return status.Spelled(days.ReplaceAllString(cell, "$1 d $2 h"))
}
