package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/admin/page"
	"github.com/abide-proxy/abide/status"
)

// pages show people how the process is.
type pages struct {
	o     *Options
	sites *sites

	past   cached[page.Past]
	advice cached[status.AdviceList]
	jobs   cached[[]status.Job]
	store  cached[status.Store]
}

// facts returns everything that the page shows. Slow answers are new where isNew, else they may be
// some seconds old.
func (p *pages) facts(ctx context.Context, now time.Time, isNew bool) *page.Facts {
	ctx, cancel := context.WithTimeout(ctx, pagePatience)
	defer cancel()
	holds := p.o.Proxy.Holds("", status.MaxHolds+1)
	store := p.store.get(now, isNew, func() status.Store { return p.o.Process.Store(ctx) })
	f := &page.Facts{
		Process: p.sites.process(holds, store), Setup: p.o.EnvCommand, Holds: holds,
		Tokens:    p.o.Proxy.Tokens().Normalize(),
		Forecasts: status.NormalizeForecasts(p.o.Proxy.Forecast("", 0), now), Samples: p.o.History.Snapshot(now),
	}
	for _, one := range p.sites.used("", holds[:min(len(holds), status.MaxHolds)]) {
		f.Known = append(f.Known, *one)
	}
	f.Past = p.past.get(now, isNew, func() page.Past { return pastOf(ctx, p.o.Process, now) })
	advised := p.advice.get(now, isNew, func() status.AdviceList { return p.o.Process.Advice(now) })
	f.Advice, f.Counted = advised.Advice, advised.Since
	f.Jobs = p.jobs.get(now, isNew, func() []status.Job { return p.o.Process.Jobs(ctx) })
	return f
}

// show is the page. It works without its script, and nothing that a client named can run.
func (p *pages) show(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	f := p.facts(r.Context(), now, true)
	site := r.URL.Query().Get("site")
	f.Filter = strings.ToValidUTF8(site[:min(len(site), maxSite)], "")
	f.Chosen = p.chosen(f)
	secret := len(p.o.Policy().Access.Clients) > 0
	scheme := "http"
	if p.o.Policy().TLS.Given() {
		scheme = "https"
	}
	f.Proxy, f.Open = proxyURL(scheme, f.Listen, r.Host, secret), proxyURL(scheme, f.ListenOpen, r.Host, secret)
	show(w, http.StatusOK, page.Render(f, now))
}

// show answers with a page.
func show(w http.ResponseWriter, code int, text []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text) // a client that has left needs no answer
}

// chosen is the site that the filter names, nil where nothing is known of such a site.
func (p *pages) chosen(f *page.Facts) *page.Chosen {
	for i := range f.Known {
		site := &f.Known[i]
		if site.Name == f.Filter && isSite(site.Name) {
			text, set := p.sites.limits.text(site.Name)
			return &page.Chosen{Site: site.Name, Limits: text, Set: set}
		}
	}
	return nil
}

// file answers with a file of the page.
func file(kind string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	}
}

// proxyURL returns the URL of the proxy for clients. One that listens on every address is
// reached by the name under which the operator reached this page.
func proxyURL(scheme, listen, asked string, authenticate bool) string {
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
	return scheme + "://" + who + net.JoinHostPort(host, port)
}

// pagePatience is the longest time that the page waits for a store or for another process.
const pagePatience = 2 * time.Second

// periods are the parts of the past that the page draws.
var periods = []page.Period{
	{Name: "hour", Step: time.Minute, Steps: 60},
	{Name: "day", Step: time.Hour, Steps: 24},
	{Name: "month", Step: 24 * time.Hour, Steps: 31},
}

// pastOf is the recorded traffic of the last hour, day and month; without periods where there
// was none.
func pastOf(ctx context.Context, from Process, now time.Time) (past page.Past) {
	some := false
	for _, one := range periods {
		one.Since = now.UTC().Truncate(one.Step).Add(-time.Duration(one.Steps-1) * one.Step)
		list, err := from.Bandwidth(ctx, "", one.Since, now, one.Step)
		if err != nil {
			return page.Past{Err: "What is recorded cannot be read: " + status.ErrorLine(err)}
		}
		some = some || len(list) > 0
		one.Traffic = list
		past.Periods = append(past.Periods, one)
	}
	if !some {
		past.Periods = nil
	}
	return past
}

// cached is a value that is read again when it is older than kept. It is safe for concurrent
// use, and no lock is held while it is read.
type cached[T any] struct {
	kept time.Duration
	last atomic.Pointer[readValue[T]]
}

// readValue is a value and when it was read.
type readValue[T any] struct {
	value T
	at    time.Time
}

// get is the value, which is read again where it is too old or has to be new.
func (c *cached[T]) get(now time.Time, isNew bool, read func() T) T {
	if last := c.last.Load(); last != nil && !isNew && now.Sub(last.at) < c.kept {
		return last.value
	}
	next := &readValue[T]{read(), now}
	c.last.Store(next)
	return next.value
}
