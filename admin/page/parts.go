package page

import (
	"regexp"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// view makes the HTML of facts.
type view struct {
	*Facts
	builder
	now    time.Time
	ill    []status.Trouble
	others int  // things that are wrong, and that the filter leaves out
	came   bool // requests have come, if only before the start
	learnt []*learned
	about  markup // what precedes the filter
}

func viewOf(f *Facts, now time.Time) *view {
	v := &view{Facts: f.filtered(), now: now, came: f.Total.Requests > 0 || len(f.Holds) > 0 || len(f.Past.Periods) > 0}
	v.ill, v.learnt = v.wrong(now), learnedOf(v.Facts, now)
	v.others = len(f.wrong(now)) - len(v.ill)
	v.about = pick[markup](len(v.Known) == 1 && v.Known[0].Name == f.Filter, "", "sites whose name has ")
	return v
}

// docs is the address of the documents.
const docs = "https://github.com/abide-proxy/abide/blob/main/docs/"

// document matches the names of documents in a text.
var document = regexp.MustCompile(`docs/([a-z0-9-]+\.md)#?([a-z0-9-]*)`)

// linked is a text in which the names of documents are links.
func linked(text string) markup {
	return markup(document.ReplaceAll(escape(nil, text, ""), []byte(`<a href="`+docs+`$1#$2">docs $2</a>`)))
}

func number(n int) string         { return status.Count(uint64(max(n, 0))) }
func span(seconds float64) string { return status.Long(status.DurationOf(max(seconds, 1))) }
func flowing(rate float64) string { return status.Size(uint64(max(rate, 0))) + "/s" }
func areWrong(n int) string       { return status.Number(n, "thing is wrong", "things are wrong") }

// hidden says how many rows of a list are not on the page.
func hidden(n int, words markup) part {
	return some(n > 0, `<p class="faint">{} {}</p>`, number(n), words)
}

// split is a part for each part of a text.
func split(text, by string, first, others markup) (list []part) {
	for i, one := range strings.Split(text, by) {
		list = append(list, some(text != "", pick(i == 0, first, others), one))
	}
	return list
}

// named is a name that links to the page of a site, "" for none.
func named(site, text string) part {
	return html("{}{}{}", some(site != "", `<a href="/?site={}">`, query(site)), dotted(text), some(site != "", "</a>"))
}
