package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/status"
)

// view has the facts in the form in which the templates show them.
type view struct {
	*Facts
	Now     time.Time
	Wrong   int   // things that are wrong, those that the filter leaves out, too
	Others  int   // of these, those that the filter leaves out
	Came    bool  // requests have come, if only before the start
	Flow    spark // requests a second
	Waited  spark
	Trouble folded[status.Trouble]
	Queue   queueTable
	Failed  folded[status.Failure] // since the start
	Advised folded[status.Advice]
	Sites   siteTable
	Pools   []poolView
	Limits  []limitGroup
	Charts  []chart
}

func viewOf(f *Facts, now time.Time) *view {
	all := f
	f = f.filtered()
	wrong, learnt := f.wrong(now), learnedOf(f, now)
	advice := lists.Only(f.Advice, func(a status.Advice) bool { return !a.IsWrong() })
	count := len(all.wrong(now))
	v := &view{
		Facts: f, Now: now, Wrong: count, Others: count - len(wrong), Came: all.Total.Requests > 0 || len(all.Holds) > 0 || len(f.Past.Periods) > 0, Flow: sparkOf(f.Samples.Total.Requests, 1), Waited: sparkOf(f.Samples.Waiting, 1),
		Trouble: fold(wrong, 8, same), Queue: queueOf(f, learnt, now), Failed: fold(f.Failures.List(), 3, same), Advised: fold(advice, 2, same),
		Sites: sitesOf(f, wrong, learnt, now), Limits: limitGroups(f, learnt, now),
	}
	for i := range f.Tokens.Pools {
		v.Pools = append(v.Pools, poolOf(&f.Tokens.Pools[i], &f.Samples, now))
	}
	for i, p := range f.Past.Periods {
		if c := chartOf(p); i == 0 || c.busy > 1 {
			v.Charts = append(v.Charts, c)
		}
	}
	return v
}

// docs is the address of the documents.
const docs = "https://github.com/abide-proxy/abide/blob/main/docs/"

// document matches the names of documents in a text.
var document = regexp.MustCompile(`docs/([a-z0-9-]+\.md)#?([a-z0-9-]*)`)

// days matches a duration of days and hours.
var days = regexp.MustCompile(`^(\d+)d(\d+)h$`)

// linked is a text in which the names of documents are links.
func linked(text string) template.HTML {
	return template.HTML(document.ReplaceAllString(template.HTMLEscapeString(text), `<a href="`+docs+`$1#$2">docs $2</a>`))
}

//go:embed *.html
var templateFiles embed.FS

// Files of the page, which stand beside it.
var (
	//go:embed style.css
	Style []byte
	//go:embed page.js
	Script []byte
	//go:embed icon.svg
	Icon []byte
)

// partNames are the parts that change, in the order of the page. Each is a template, and the id
// of the element that has what the template makes.
var partNames = []string{"title", "state", "summary", "trouble", "queue", "flow", "advice", "pause", "sites", "tokens", "jobs", "limits", "bandwidth", "fleet"}

// templates needs each function that a template calls; those that take the time are given by view.
var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"size": status.Size, "count": status.Count,
	"number":    func(n int) string { return status.Count(uint64(max(n, 0))) },
	"perSecond": status.PerSecond, "token": status.TokenWord, "split": strings.Split, "grouped": status.Grouped,
	"span": func(seconds float64) string {
		return status.Long(status.DurationOf(max(seconds, 1)))
	},
	"bytes":    func(rate float64) string { return status.Size(uint64(max(rate, 0))) + "/s" },
	"areWrong": func(n int) string { return status.Number(n, "thing is wrong", "things are wrong") },
	"linked":   linked,
	"name": func(name string) template.HTML {
		return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(name), ".", ".<wbr>")) // a line may end after a dot
	}, "since": status.Since, "in": status.In, "ago": status.Ago, "ahead": status.Ahead, "docs": func(part string) string { return docs + part },
	"amount": func(cell string) string { // of a report: "5 001", "4 h 28 min"
		if strings.Trim(cell, "0123456789") == "" {
			return status.Grouped(cell)
		}
		return status.Spelled(days.ReplaceAllString(cell, "$1 d $2 h"))
	},
	"sparkHalf": func(points []float32) spark { return sparkOf(points, 2) },
}).ParseFS(templateFiles, "*.html"))

// Render writes the whole page.
func Render(w io.Writer, f *Facts, now time.Time) error {
	return Show(w, "page", viewOf(f, now))
}

// Part is a part of the page: what the element with the id of its name has.
type Part struct {
	Name string `json:"id"`
	HTML string `json:"html"`
}

// Parts are all parts of the page that change.
func Parts(f *Facts, now time.Time) ([]Part, error) {
	v := viewOf(f, now)
	list := make([]Part, 0, len(partNames))
	for _, name := range partNames {
		var b strings.Builder
		if err := Show(&b, name, v); err != nil {
			return nil, err
		}
		list = append(list, Part{name, b.String()})
	}
	return list, nil
}

// Show writes a page by its template: "problem" about a form that was refused, a status.Problem, or "past", a report. It
// writes nothing where a template fails.
func Show(w io.Writer, name string, v any) error {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, v); err != nil {
		return fmt.Errorf("making the page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}
