package admin

import (
	"io"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/admin/page"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/status"
)

// endpoint is a route of the listener: "METHOD /path", and who answers it.
type endpoint struct {
	route   string
	handler http.HandlerFunc
}

// about is a handler of an endpoint that asks somebody, or that does one of several things.
func about[T any](asked T, answer func(T, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { answer(asked, w, r) }
}

// endpoints are the routes for whoever may ask for everything.
func endpoints(o *Options) []endpoint {
	limits := &limits{o.Policy, o.Proxy}
	sites := &sites{o.Metrics, limits, o.Proxy, o.Process}
	overview := &overview{
		about:  status.Process{Version: o.Version, Started: o.Started, Listen: o.Listen},
		policy: o.Policy, ca: o.CA, metrics: o.Metrics, limits: limits, proxy: o.Proxy, process: o.Process,
	}
	pages := newPages(o, overview, sites)
	events := &events{facts: pages.facts, policy: o.Policy, log: o.Log}
	tokens, permits, jobs, pauses := tokens{o.Proxy}, &permits{o.Proxy, o.Log}, jobs{o.Process}, pauses{o.Proxy, sites}
	return []endpoint{
		{"GET /{$}", pages.show},
		{"GET /style.css", file("text/css; charset=utf-8", page.Style)},
		{"GET /page.js", file("text/javascript; charset=utf-8", page.Script)},
		{"GET /icon.svg", file("image/svg+xml", page.Icon)},
		{"GET /api/v1/events", events.stream},
		{"GET /metrics", o.Metrics.Handler().ServeHTTP},
		{"GET /api/v1/status", overview.answer},
		{"GET /api/v1/openapi.json", apiDocument(o.Version)},
		{"GET /api/v1/holds", about(o.Proxy, listHolds)},
		{"GET /api/v1/explain", about(explainer(o.Process), explain)},
		{"GET /api/v1/tokens", tokens.list},
		{"GET /api/v1/tokens/{pool}", tokens.pool},
		{"POST /api/v1/tokens/{pool}/{label}/disable", about("disable", tokens.change)},
		{"POST /api/v1/tokens/{pool}/{label}/enable", about("enable", tokens.change)},
		{"POST /tokens", forPeople(tokens.button)},
		{"POST /api/v1/reload", about(o.Process, reload)},
		{"GET /api/v1/sites", sites.list},
		{"GET /api/v1/sites/{site}", sites.one},
		{"GET /api/v1/sites/{site}/limits", limits.show},
		{"PUT /api/v1/sites/{site}/limits", limits.set},
		{"DELETE /api/v1/sites/{site}/limits", limits.clear},
		{"POST /api/v1/sites/{site}/pause", pauses.pause},
		{"POST /api/v1/sites/{site}/resume", pauses.resume},
		{"POST /sites", forPeople(pauses.button)},
		{"POST /limits", forPeople(limits.button)},
		{"POST /api/v1/permits", permits.ask},
		{"POST /api/v1/permits/settle", permits.settleAll},
		{"POST /api/v1/permits/{id}", permits.settle},
		{"DELETE /api/v1/permits/{id}", permits.unsent},
		{"GET /api/v1/forecast", about(o.Proxy, forecast)},
		{"GET /api/v1/jobs", jobs.list},
		{"POST /api/v1/jobs/{name}/pause", about(true, jobs.steer)},
		{"POST /api/v1/jobs/{name}/resume", about(false, jobs.steer)},
		{"GET /api/v1/bandwidth", about(o.Process, bandwidth)},
		{"GET /api/v1/advice", about(o.Process, advice)},
		{"GET /api/v1/report", about(reporter(o.Process), report)},
	}
}

// openEndpoints are the routes that anybody may ask for.
func openEndpoints(o *Options, g *guard) []endpoint {
	trusted := &certificates{ca: o.CA, made: map[string]madeBundle{}, clock: time.Now}
	return []endpoint{
		{"GET /healthz", healthz},
		{"GET /readyz", (&readiness{g, o.Process}).answer},
		{"GET /ca.pem", trusted.root},
		{"GET /bundle.pem", trusted.bundle("pem", "application/x-pem-file", (*ca.CA).Bundle)},
		{"GET /bundle.jks", trusted.bundle("jks", "application/octet-stream", (*ca.CA).JavaStore)},
	}
}

// New answers the requests of the admin listener. It starts no goroutines.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetOutput(io.Discard)
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	inside, mux := http.NewServeMux(), http.NewServeMux()
	for _, one := range endpoints(&o) {
		inside.Handle(one.route, one.handler)
	}
	g := newGuard(o.Policy, o.Metrics, o.Log)
	for _, one := range openEndpoints(&o, g) {
		mux.Handle(one.route, one.handler)
	}
	mux.Handle("/", g.authorised(sameOrigin(inside)))
	return recovering(o.Log, hardened(forServers(mux)))
}
