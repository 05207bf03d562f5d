package admin

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText []byte

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"size": size, "count": count,
	"number": func(n int) string { return count(uint64(n)) },
	"tone":   func(state string) string { return tones[state] },
	"ahead":  func(at time.Time) string { return ahead(at, time.Now()) },
	"ago":    func(at time.Time) string { return ago(at, time.Now()) },
}).Parse(pageText))

// sheet is what the page shows.
type sheet struct {
	Status
	Up     string
	Proxy  string      // URL for clients
	Open   string      // URL where all https is opened, "" for none
	Setup  string      // command whose output sets up a shell, "" for none
	Tokens *tokenSheet // nil where nobody knows of any
	Now    time.Time

	Limits    *writtenSheet // nil where none are written
	Forecasts []forecastLine
	Bandwidth *bandwidthSheet // nil where nothing is recorded
}

// Fleet tells whether other instances keep budgets with this one, or could.
func (s sheet) Fleet() bool { return s.Store != nil && (s.Store.Kind == "shared" || s.Store.Count > 1) }

// Others is the heading of the instances that use the store.
func (s sheet) Others() string {
	if s.Store.Kind == "shared" {
		return "Fleet"
	}
	return "Processes"
}

// Told is how what keeps budgets is.
func (s sheet) Told() string {
	text := s.Store.Sentence(s.Now)
	return strings.ToUpper(text[:1]) + text[1:]
}

// LimitedBy is what most of a site's requests wait for, "" if none does.
func (s sheet) LimitedBy(site string) string {
	if s.Waiting == nil {
		return ""
	}
	return s.Waiting.most[site]
}

// page is the status for people: no script, so it works in any browser and
// nothing that a client named can run.
func (d *desk) page(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	s := sheet{Status: d.now(r.Context()), Now: now, Up: now.Sub(d.Started).Truncate(time.Second).String()}
	s.Proxy = proxyURL(s.Listen, r.Host, len(d.Policy().Access.Clients) > 0)
	s.Setup = d.EnvCommand
	if s.ListenOpen != "" {
		s.Open = proxyURL(s.ListenOpen, r.Host, len(d.Policy().Access.Clients) > 0)
	}
	s.Tokens = d.tokenSheet(now)
	var forecasts []Forecast
	if d.Forecast != nil {
		forecasts = d.forecasts("", 0, now)
	}
	s.Limits, s.Forecasts = d.writtenSheet(forecasts, now), forecastLines(forecasts, now)
	s.Bandwidth = d.bandwidthSheet(r.Context(), now)
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, s); err != nil {
		panic(fmt.Errorf("making the page: %w", err))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

func (d *desk) style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(styleText)
}

// proxyURL is where clients find the proxy. One that listens on every address is
// reached by the name under which the operator reached this page.
func proxyURL(listen, asked string, authenticate bool) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return ""
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		if host = hostOf(asked); host == "" {
			host = "127.0.0.1"
		}
	}
	who := ""
	if authenticate {
		who = "NAME:SECRET@"
	}
	return "http://" + who + net.JoinHostPort(host, port)
}

// size is a number of bytes as people read it.
func size(n uint64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for value >= 999.5 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	if value < 9.95 {
		return fmt.Sprintf("%.1f %s", value, units[unit])
	}
	return fmt.Sprintf("%.0f %s", value, units[unit])
}

var units = []string{"kB", "MB", "GB", "TB", "PB", "EB"}

// count is a number with its thousands apart.
func count(n uint64) string {
	digits := fmt.Sprint(n)
	var b bytes.Buffer
	for i, one := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(one)
	}
	return b.String()
}
