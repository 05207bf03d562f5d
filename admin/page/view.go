package page

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

// view has the facts in the form in which the templates show them.
type view struct {
	*Facts
	Now     time.Time
	Flow    spark // requests a second
	Waited  spark
	Summary string
	Trouble folded[status.Trouble]
	Queue   queueTable
	Advised folded[status.Advice]
	Sites   siteTable
	Pools   []poolView
	Limits  []limitGroup
	Charts  []chart
	Early   []string // the periods of which there is too little to draw
}

func viewOf(f *Facts, now time.Time) *view {
	f = f.filtered()
	wrong, learnt := f.Troubles(f.Tokens, f.Forecasts, f.Jobs, now), learnedOf(f, now)
	useful := slices.SortedStableFunc(slices.Values(f.Advice), func(a, b status.Advice) int { return cmp.Compare(repeats(a), repeats(b)) })
	v := &view{
		Facts: f, Now: now, Flow: sparkOf(f.Samples.Total.Requests, 1), Waited: sparkOf(f.Samples.Waiting, 1), Summary: summaryOf(f, len(wrong)),
		Trouble: fold(wrong, 5, same), Queue: queueOf(f, now), Advised: fold(useful, 2, same),
		Sites: sitesOf(f, learnt, now), Limits: limitGroups(f, learnt, now),
	}
	written := writtenByToken(f)
	for i := range f.Tokens.Pools {
		v.Pools = append(v.Pools, poolOf(&f.Tokens.Pools[i], written, &f.Samples, now))
	}
	for i, p := range f.Past.Periods {
		if c := chartOf(p); i == 0 || c.busy > 1 {
			v.Charts = append(v.Charts, c)
		} else {
			v.Early = append(v.Early, p.Name)
		}
	}
	return v
}

// repeats returns 1 for advice about what the page calls wrong above it, 0 for all other.
func repeats(a status.Advice) int {
	if a.Rule == "outage" || a.Rule == "denied-token" {
		return 1
	}
	return 0
}

// summaryOf is the state in a sentence for those who hear the page. It changes seldom, so it has
// no number that changes all the time.
func summaryOf(f *Facts, wrong int) string {
	first, second := "Nothing is wrong", "no request waits"
	if wrong > 0 {
		first = status.Number(wrong, "thing is wrong", "things are wrong")
	}
	if len(f.Holds) > 0 {
		second = "requests wait"
	}
	return first + "; " + second + "."
}

// Use returns the URL to copy: the one where all https is opened, if there is one.
func (v *view) Use() string { return cmp.Or(v.Open, v.Proxy) }

// Failed says which answers of the sites failed since the start, and which were abide's own.
func (v *view) Failed() []string { return v.Failures.Sum("failed").Sentences("clients") }

// Up returns how long the process has run.
func (v *view) Up() string { return v.Now.Sub(v.Started).Truncate(time.Second).String() }

// Time returns the time at which the page was made.
func (v *view) Time() string { return v.Now.UTC().Format("15:04:05 UTC") }

// Busy reports whether any request has come.
func (v *view) Busy() bool { return v.Total.Requests > 0 || len(v.Holds) > 0 }

// In, Ahead and Ago describe a time relative to the page's.
func (v *view) In(at time.Time) string    { return status.In(at, v.Now) }
func (v *view) Ahead(at time.Time) string { return status.Ahead(at, v.Now) }
func (v *view) Ago(at time.Time) string   { return status.Ago(at, v.Now) }

// StoreSentence describes the state of the store.
func (v *view) StoreSentence() string {
	text := v.Store.Sentence(v.Now)
	return strings.ToUpper(text[:1]) + text[1:]
}

// perSecond formats a rate: "0", "0.3", "42".
func perSecond(rate float64) string {
	switch {
	case rate <= 0:
		return "0"
	case rate < 0.05:
		return "< 0.1"
	case rate < 9.95:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return status.Count(uint64(math.Round(rate)))
}

// bytesPerSecond formats a rate of bytes.
func bytesPerSecond(rate float64) string { return status.Size(uint64(max(rate, 0))) + "/s" }

// span formats a time in seconds, at least one: "3 min 05 s".
func span(seconds float64) string {
	return status.Long(time.Duration(max(seconds, 1) * float64(time.Second)))
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
var partNames = []string{"state", "summary", "trouble", "queue", "flow", "advice", "sites", "tokens", "jobs", "limits", "bandwidth", "fleet"}

// templates needs each function that a template calls; those that take the time are given by view.
var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"size": status.Size, "count": status.Count,
	"number":    func(n int) string { return status.Count(uint64(max(n, 0))) },
	"perSecond": perSecond, "breaker": status.BreakerWord, "grouped": status.Grouped,
	"span": span, "bytes": bytesPerSecond,
	"sparkHalf": func(points []float32) spark { return sparkOf(points, 2) },
}).ParseFS(templateFiles, "*.html"))

// Render writes the whole page.
func Render(w io.Writer, f *Facts, now time.Time) error {
	return execute(w, "page", viewOf(f, now))
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
		part, err := v.part(name)
		if err != nil {
			return nil, err
		}
		list = append(list, part)
	}
	return list, nil
}

// part makes one part.
func (v *view) part(name string) (Part, error) {
	var b strings.Builder
	err := execute(&b, name, v)
	return Part{name, b.String()}, err
}

// Problem writes a page about a form that was refused.
func Problem(w io.Writer, p status.Problem) error { return execute(w, "problem", p) }

// execute writes nothing where a template fails.
func execute(w io.Writer, name string, v any) error {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, v); err != nil {
		return fmt.Errorf("making the page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}
