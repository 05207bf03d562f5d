package admin

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/admin/openapi"
	"github.com/abide-proxy/abide/admin/page"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/status"
)

// Kinds of answers that are not JSON.
const (
	kindText    = "text/plain; charset=utf-8"
	kindEvents  = "text/event-stream"
	kindMetrics = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
)

// Values of parameters of queries, with examples that a process answers.
var (
	ofSite = openapi.Parameter{Name: "site", Says: "Of this site alone.", Example: "api.example.com"}
	since  = openapi.Parameter{Name: "since", Says: "A time as RFC 3339 has it, or back from now.", Example: "7d"}
	until  = openapi.Parameter{Name: "until", Says: "A time as RFC 3339 has it, or back from now.", Example: "1h"}

	// pathParameters are the parameters of paths.
	pathParameters = map[string]openapi.Parameter{
		"site":  {Says: "A site, as /api/v1/sites names it.", Example: "api.example.com"},
		"pool":  {Says: "A pool of tokens.", Example: "example"},
		"label": {Says: "A token of the pool.", Example: "news-1"},
		"id":    {Says: "A permit, as POST /api/v1/permits has given it.", Example: "9f86d081"},
		"name":  {Says: "A job.", Example: "orders"},
	}

	// refusals say what statuses mean.
	refusals = map[int]string{
		400: "The query or the body cannot be read.",
		401: "The token is missing or wrong.",
		403: "The Host header names none of the listener's addresses, or the page of another origin asks.",
		404: "There is no such thing.",
		413: "The body is too long.",
		415: "The body is not JSON.",
		422: "The request was understood and is refused.",
		502: "The process that runs the job does not answer.",
		503: "It could not be saved, or cannot be read now.",
	}
)

// about is an endpoint that asks somebody.
func about[T any](asked T, answer func(T, http.ResponseWriter, *http.Request) (any, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) (any, error) { return answer(asked, w, r) }
}

// operations are the routes of the listener. A row without a tag is of the page or its forms, and is not
// documented. document answers with the description of the API.
// TestEveryDocumentedRequestIsAnsweredAsDocumented sends the examples.
func operations(o *Options, g *guard, s *openapi.Schemas, document func() openapi.Schema) []openapi.Operation {
	limits := &limits{o.Policy, o.Proxy}
	sites := &sites{o, limits}
	pages := &pages{o: o, sites: sites}
	pages.past.kept, pages.advice.kept, pages.jobs.kept, pages.store.kept = 30*time.Second, 3*time.Second, 2*time.Second, 2*time.Second
	events := &events{facts: pages.facts, policy: o.Policy, log: o.Log}
	tokens, permits, pauses := tokens{o.Proxy}, &permits{o.Proxy, o.Log}, pauses{o.Proxy, sites}
	denied := func(code int, says string) openapi.Refusal {
		return openapi.Refusal{Status: code, Says: says, Of: decision{}}
	}
	ask, end := s.Request(asked{}, "url"), s.Request(ended{})
	listOf := func(schema openapi.Schema) openapi.Schema {
		return openapi.Schema{"type": "array", "maxItems": mostPermits, "items": schema}
	}
	given := openapi.Schema{"type": "object", "required": []string{"limits"}, "additionalProperties": false, "properties": openapi.Schema{"limits": s.Tagged["limits"]}}
	all := []openapi.Operation{
		{Route: "GET /{$}", Handler: http.HandlerFunc(pages.show)},
		{Route: "GET /style.css", Handler: file("text/css; charset=utf-8", page.Style)},
		{Route: "GET /page.js", Handler: file("text/javascript; charset=utf-8", page.Script)},
		{Route: "GET /icon.svg", Handler: file("image/svg+xml", page.Icon)},
		{Route: "POST /tokens", Handler: forPeople(tokens.button)},
		{Route: "POST /sites", Handler: forPeople(pauses.button)},
		{Route: "POST /limits", Handler: forPeople(limits.button)},
		{Route: "GET " + pastPath, Handler: forPeople(about(o.Process, report))},
		{Route: "GET /api/v1/status", Handler: endpoint(sites.status), Tag: "process", Says: "How the process is.", Answer: status.Process{}},
		{Route: "GET /api/v1/openapi.json", Handler: endpoint(func(http.ResponseWriter, *http.Request) (any, error) { return document(), nil }), Tag: "process", Says: "This document.", Answer: openapi.Schema{"type": "object"}},
		{
			Route: "GET /api/v1/events", Handler: endpoint(events.stream), Tag: "process", Says: "What changes, as server-sent events: each second one of the type now, whose data is a Live, and one of the type part for each part of the page that has changed.",
			Answer: "", Kind: kindEvents, Refuses: openapi.Refuse(400, 503),
			Query: []openapi.Parameter{
				{Name: "site", Says: "Of the page, the sites whose names have this.", Example: "api.example.com"},
				{Name: "count", Says: "After how many seconds the answer ends; never if it is left out.", Example: 1},
			},
		},
		{Route: "GET /metrics", Handler: o.Metrics.Handler(), Tag: "process", Says: "Metrics for Prometheus.", Answer: "", Kind: kindMetrics},
		{Route: "POST /api/v1/reload", Handler: about(o.Process, reload), Tag: "process", Says: "Reads the configuration again, and says what has changed.", Answer: status.Reloaded{}, Refuses: openapi.Refuse(400, 413, 415, 422)},
		{
			Route: "GET /api/v1/explain", Handler: about(o.Process, explain), Tag: "requests", Says: "What a request would meet now.", Answer: status.Explanation{}, Refuses: openapi.Refuse(400),
			Query: []openapi.Parameter{
				{Name: "url", Says: "The URL of the request.", Example: "https://api.example.com/x", Required: true},
				{Name: "method", Says: "Its method, GET if it is left out.", Example: "POST"},
				{Name: "client", Says: "The client that asks.", Example: "news"},
			},
		},
		{
			Route: "GET /api/v1/holds", Handler: about(o.Proxy, listHolds), Tag: "requests", Says: "The requests that wait.", Answer: status.HoldList{}, Refuses: openapi.Refuse(400),
			Query: []openapi.Parameter{ofSite, {Name: "limit", Says: "How many are listed at most.", Example: 100}},
		},
		{
			Route: "GET /api/v1/forecast", Handler: about(o.Proxy, forecast), Tag: "sites", Says: "When limits with long windows end.", Answer: []status.Forecast{}, Refuses: openapi.Refuse(400),
			Query: []openapi.Parameter{ofSite, {Name: "requests", Says: "When so many more requests would be done.", Example: 50000}},
		},
		{
			Route: "GET /api/v1/bandwidth", Handler: about(o.Process, bandwidth), Tag: "sites", Says: "What went from and to sites.", Answer: status.TrafficList{}, Refuses: openapi.Refuse(400, 503),
			Query: []openapi.Parameter{
				ofSite, since, until,
				{Name: "step", Says: "1m, 1h or 1d.", Example: "1d"},
			},
		},
		{Route: "GET /api/v1/advice", Handler: about(o.Process, advice), Tag: "sites", Says: "Which limits hold requests back, and what would change that.", Answer: status.AdviceList{}},
		{
			Route: "GET /api/v1/report", Handler: about(o.Process, report), Tag: "sites", Says: "What became of requests, and which limits held them.", Answer: status.Report{}, Refuses: openapi.Refuse(400, 503),
			Query: []openapi.Parameter{
				{Name: "by", Says: "site, client, token or priority.", Example: "client"},
				ofSite, since, until,
				{Name: "step", Says: "1m, 1h or 1d; the whole time if it is left out.", Example: "1d"},
			},
		},
		{
			Route: "GET /api/v1/sites", Handler: endpoint(sites.list), Tag: "sites", Says: "All sites that are known, those with the most bytes first.", Answer: status.SiteList{}, Refuses: openapi.Refuse(400),
			Query: []openapi.Parameter{
				{Name: "limit", Says: "How many are listed at most.", Example: 100},
				{Name: "recorded", Says: "false leaves out recorded traffic, and sites of which nothing else is known. Then the state file is not read.", Example: "false"},
			},
		},
		{Route: "GET /api/v1/sites/{site}", Handler: ofNamed(sites.one), Tag: "sites", Says: "A site.", Answer: status.Site{}, Refuses: openapi.Refuse(404)},
		{Route: "GET /api/v1/sites/{site}/limits", Handler: ofNamed(limits.show), Tag: "sites", Says: "The limits that hold for a site.", Answer: status.SiteLimits{}, Refuses: openapi.Refuse(404)},
		{
			Route: "PUT /api/v1/sites/{site}/limits", Handler: ofNamed(limits.set), Tag: "sites", Says: "Sets the limits of a site until they are taken away again.", Answer: status.SiteLimits{},
			Body:    &openapi.Body{Schema: given, Example: openapi.Schema{"limits": []any{openapi.Schema{"requests": 10, "per": "1s"}}}},
			Refuses: openapi.Refuse(400, 404, 413, 415, 422, 503),
		},
		{Route: "DELETE /api/v1/sites/{site}/limits", Handler: ofNamed(limits.clear), Tag: "sites", Says: "Has a site keep the limits of the configuration again.", Answer: status.SiteLimits{}, Refuses: openapi.Refuse(400, 404, 413, 415, 422, 503)},
		{
			Route: "POST /api/v1/sites/{site}/pause", Handler: ofNamed(pauses.pause), Tag: "sites", Says: "Lets no request go to a site.", Answer: status.SitePause{},
			Body:    &openapi.Body{Schema: s.Request(status.PauseAsk{}), Example: openapi.Schema{"for": "2h", "reason": "maintenance"}, Optional: true},
			Refuses: openapi.Refuse(400, 404, 413, 415, 422, 503),
		},
		{Route: "POST /api/v1/sites/{site}/resume", Handler: ofNamed(pauses.resume), Tag: "sites", Says: "Lets requests go to a site again.", Answer: status.SitePause{}, Refuses: openapi.Refuse(400, 404, 413, 415, 422, 503)},
		{Route: "POST /api/v1/sites/{site}/try", Handler: ofNamed(pauses.try), Tag: "sites", Says: "Has a site that fails asked at once, where its next try is in a while.", Answer: status.Site{}, Refuses: openapi.Refuse(400, 404, 413, 415)},
		{Route: "POST /api/v1/sites/{site}/forget", Handler: ofNamed(limits.forget), Tag: "sites", Says: "Forgets what was learned of a site, or of all sites of a host. What was spent of limits of the configuration stays.", Answer: []status.Forgotten{}, Refuses: openapi.Refuse(400, 404, 413, 415, 503)},
		{Route: "GET /api/v1/tokens", Handler: endpoint(tokens.list), Tag: "tokens", Says: "The pools with their tokens, and what sites announce.", Answer: status.Tokens{}},
		{Route: "GET /api/v1/tokens/{pool}", Handler: endpoint(tokens.pool), Tag: "tokens", Says: "A pool with its tokens.", Answer: status.Pool{}, Refuses: openapi.Refuse(404)},
		{Route: "POST /api/v1/tokens/{pool}/{label}/disable", Handler: tokens.change("disable"), Tag: "tokens", Says: "Takes a token out of use.", Answer: status.Token{}, Refuses: openapi.Refuse(400, 404, 413, 415, 503)},
		{Route: "POST /api/v1/tokens/{pool}/{label}/enable", Handler: tokens.change("enable"), Tag: "tokens", Says: "Puts a token back into use.", Answer: status.Token{}, Refuses: openapi.Refuse(400, 404, 413, 415, 503)},
		{
			Route: "POST /api/v1/permits", Handler: endpoint(permits.ask), Tag: "permits", Says: "Waits until a request of a client without a proxy may be sent. A list of requests is answered by a list.",
			Body:   &openapi.Body{Schema: openapi.Schema{"anyOf": []any{ask, listOf(ask)}}, Example: openapi.Schema{"url": "https://api.example.com/x", "wait": "30s"}},
			Answer: s.Either(decision{}, []decision{}),
			Refuses: append(openapi.Refuse(413, 415),
				openapi.Refusal{Status: 400, Says: "The body is no request.", Of: s.Either(status.Problem{}, decision{})},
				denied(429, "The request may not be sent now."), denied(503, "The request may not be sent now.")),
		},
		{
			Route: "POST /api/v1/permits/{id}", Handler: endpoint(permits.settle), Tag: "permits", Says: "Says what became of a request that was permitted.", Answer: settlement{},
			Body:    &openapi.Body{Schema: end, Example: openapi.Schema{"status": 200, "bytes": 512, "headers": openapi.Schema{"Retry-After": "30"}}, Optional: true},
			Refuses: openapi.Refuse(400, 404, 413, 415),
		},
		{Route: "DELETE /api/v1/permits/{id}", Handler: endpoint(permits.unsent), Tag: "permits", Says: "Says that a permitted request was not sent.", Answer: settlement{}, Refuses: openapi.Refuse(400, 404, 413, 415)},
		{
			Route: "POST /api/v1/permits/settle", Handler: endpoint(permits.settleAll), Tag: "permits", Says: "Says of each of a list what became of it.", Answer: []settlement{},
			Body:    &openapi.Body{Schema: listOf(s.Request(ended{}, "id")), Example: []any{openapi.Schema{"id": "9f86d081", "status": 200}}},
			Refuses: openapi.Refuse(400, 413, 415),
		},
		{Route: "GET /api/v1/jobs", Handler: about(o.Process, listJobs), Tag: "jobs", Says: "The jobs that run on this machine.", Answer: []status.Job{}},
		{Route: "POST /api/v1/jobs/{name}/pause", Handler: steerJob(o.Process, true), Tag: "jobs", Says: "Pauses a job.", Answer: []status.Job{}, Refuses: openapi.Refuse(400, 404, 413, 415, 502)},
		{Route: "POST /api/v1/jobs/{name}/resume", Handler: steerJob(o.Process, false), Tag: "jobs", Says: "Lets a job go on.", Answer: []status.Job{}, Refuses: openapi.Refuse(400, 404, 413, 415, 502)},
	}
	for i := range all {
		all[i].Refuses = append(all[i].Refuses, openapi.Refuse(401, 403)...)
	}
	return append(all, openOperations(o, g)...)
}

// openOperations are the routes that anybody may ask for.
func openOperations(o *Options, g *guard) []openapi.Operation {
	trusted := &certificates{o.CA, time.Now}
	notReady := openapi.Refusal{Status: 503, Says: "The process is not ready.", Of: "", Kind: kindText}
	return []openapi.Operation{
		{Route: "GET /healthz", Handler: http.HandlerFunc(healthz), Tag: "open", Says: "Whether the process answers.", Answer: "", Kind: kindText, Open: true},
		{Route: "GET /readyz", Handler: about(o.Process, g.readyz), Tag: "open", Says: "Whether clients should be sent here, and what is missing.", Answer: "", Kind: kindText, Open: true, Refuses: []openapi.Refusal{notReady}},
		{Route: "GET /ca.pem", Handler: endpoint(trusted.root), Tag: "open", Says: "The certificate of abide's CA.", Answer: "", Kind: "application/x-x509-ca-cert", Open: true, Refuses: openapi.Refuse(404)},
		{Route: "GET /bundle.pem", Handler: trusted.bundle("pem", "application/x-pem-file", (*ca.CA).Bundle), Tag: "open", Says: "The certificates of abide's CA and of the system in PEM.", Answer: "", Kind: "application/x-pem-file", Open: true, Refuses: openapi.Refuse(404)},
		{Route: "GET /bundle.jks", Handler: trusted.bundle("jks", "application/octet-stream", (*ca.CA).JavaStore), Tag: "open", Says: "The same certificates as a Java key store.", Answer: "", Kind: "application/octet-stream", Open: true, Refuses: openapi.Refuse(404)},
	}
}

// newAPI returns the routes of the listener with their handlers and description.
func newAPI(o *Options, g *guard) *openapi.API {
	limits, definitions := policy.LimitsSchema("#/components/schemas/")
	s := &openapi.Schemas{Named: definitions, Tagged: map[string]any{
		"limits":  limits,
		"wait":    openapi.Schema{"type": []any{"string", "number", "null"}},
		"headers": openapi.Schema{"anyOf": []any{openapi.Schema{"type": "object"}, openapi.Schema{"type": "array"}}},
	}}
	api := &openapi.API{
		Title: "abide", Version: o.Version, Says: "What the admin listener of abide answers. docs/operating.md has the guide.",
		Parameters: pathParameters, Refusals: refusals, Problem: status.Problem{}, Schemas: s,
	}
	api.Operations = operations(o, g, s, sync.OnceValue(api.Document)) // made when it is first asked for
	return api
}

// New answers the requests of the admin listener. It starts no goroutines.
func New(o Options) http.Handler {
	inside, mux := http.NewServeMux(), http.NewServeMux()
	g := newGuard(o.Policy, o.Metrics, o.Log)
	for _, one := range newAPI(&o, g).Operations {
		to := inside
		if one.Open {
			to = mux
		}
		handler := one.Handler
		if one.Tag != "" && one.Body == nil && !strings.HasPrefix(one.Route, http.MethodGet) {
			handler = bare(handler)
		}
		to.Handle(one.Route, handler)
	}
	mux.Handle("/", g.authorised(sameOrigin(inside)))
	return recovering(o.Log, hardened(forServers(mux)))
}
