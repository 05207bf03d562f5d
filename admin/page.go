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

	"github.com/abide-proxy/abide/status"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText []byte

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"size": status.Size, "count": status.Count,
	"number": func(n int) string { return status.Count(uint64(n)) },
	"tone":   func(state string) string { return tones[state] },
	"now":    time.Now,
	"in":     func(at time.Time) string { return status.In(at, time.Now()) },
	"ahead":  func(at time.Time) string { return status.Ahead(at, time.Now()) },
	"ago":    func(at time.Time) string { return status.Ago(at, time.Now()) },

	"firstTokens": first[status.Token], "firstLimits": first[status.Announced], "scarce": scarce,
	"minus":      func(a, b int) int { return a - b },
	"hundredths": func(part float64) int { return int(100 * part) },
}).Parse(pageText))

// pageView is what the page shows.
type pageView struct {
	status.Process
	Up     string
	Proxy  string         // URL for clients
	Open   string         // URL where all https is opened, "" for none
	Setup  string         // command whose output sets up a shell, "" for none
	Tokens *status.Tokens // nil where nobody knows of any
	Now    time.Time

	Pauses    map[string]status.Pause // by site
	Limits    *limitsView             // nil where none are written
	Forecasts []status.Forecast
	Jobs      []status.Job
	Bandwidth *bandwidthView // nil where nothing is recorded
}

// Fleet tells whether other instances keep budgets with this one, or could.
func (s pageView) Fleet() bool {
	return s.Store != nil && (s.Store.Kind == status.StoreShared || s.Store.Count > 1)
}

// Others is the heading of the instances that use the store.
func (s pageView) Others() string {
	if s.Store.Kind == status.StoreShared {
		return "Fleet"
	}
	return "Processes"
}

// Told is how what keeps budgets is.
func (s pageView) Told() string {
	text := s.Store.Sentence(s.Now)
	return strings.ToUpper(text[:1]) + text[1:]
}

// LimitedBy is what most of a site's requests wait for, "" if none does.
func (s pageView) LimitedBy(site string) string {
	if s.Waiting == nil {
		return ""
	}
	return s.Waiting.Most[site]
}

// IsPaused tells whether the operator has paused a site.
func (s pageView) IsPaused(site string) bool {
	_, paused := s.Pauses[site]
	return paused
}

// page shows people how the process is.
type page struct {
	overview   *overview
	tokens     tokenPools
	pauses     pauser
	forecasts  forecaster
	past       recorder
	jobs       jobKeeper
	envCommand string
}

// show is the status for people: no script, so it works in any browser and
// nothing that a client named can run.
func (p *page) show(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	s := pageView{Process: p.overview.now(r.Context()), Now: now, Up: now.Sub(p.overview.about.Started).Truncate(time.Second).String()}
	s.Proxy = proxyURL(s.Listen, r.Host, len(p.overview.policy().Access.Clients) > 0)
	s.Setup = p.envCommand
	if s.ListenOpen != "" {
		s.Open = proxyURL(s.ListenOpen, r.Host, len(p.overview.policy().Access.Clients) > 0)
	}
	if tokens := p.tokens.Tokens().Normalize(); len(tokens.Pools)+len(tokens.Limits) > 0 {
		s.Tokens = &tokens
	}
	forecasts := status.NormalizeForecasts(p.forecasts.Forecast("", 0), now)
	s.Limits, s.Forecasts = p.limitsView(forecasts, now), longForecasts(forecasts)
	s.Jobs, s.Pauses = p.jobs.Jobs(r.Context()), p.pauses.Pauses()
	s.Bandwidth = p.bandwidthView(r.Context(), now)
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, s); err != nil {
		panic(fmt.Errorf("making the page: %w", err))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes())
}

func style(w http.ResponseWriter, _ *http.Request) {
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
