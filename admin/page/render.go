package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/abide-proxy/abide/status"
)

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
	"perSecond": perSecond,
	"span":      span, "bytes": bytesPerSecond,
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

// SitesPart is the part with the sites whose names have a filter.
func SitesPart(f *Facts, filter string, now time.Time) (Part, error) {
	facts := *f
	facts.Filter = filter
	v := &view{Facts: &facts, Now: now}
	v.Sites = sitesOf(&facts)
	return v.part("sites")
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
