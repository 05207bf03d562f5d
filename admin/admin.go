// Package admin is the operator's listener: health and readiness for whatever
// supervises the process, metrics, the CA certificate, a status page and the
// API.
//
// The usual call:
//
//	server := admin.Server(admin.New(admin.Options{Policy: current, Metrics: m, …}))
//	err := server.Serve(listener)
//
// # Who may ask
//
// Anybody may ask for /healthz, /readyz, /ca.pem, /bundle.pem and /bundle.jks.
// Probes have no token, and a client that is being set up to trust the CA has
// none yet. They hold no secret: the certificates are those that abide shows in
// every TLS handshake with a client, never the key, and /readyz gives names and
// words alone to whoever may not ask for more. What a CA certificate does tell is
// the hosts that it is constrained to.
//
// Where admin.token is set, every other route needs it: as Authorization: Bearer
// TOKEN, or as the password of Basic (any user name), so that browsers and
// scrapers can. It is never read from a URL. A listener beyond loopback that has
// no token answers nothing else. An address that presents wrong tokens is
// made to wait for each refusal after a few. The right token is accepted at once: others
// may share the address.
//
// Without a token, the Host header must be an IP address, localhost or the name
// in admin.listen. A page on the web can point a name of its own at 127.0.0.1
// (DNS rebinding) and then read what this listener answers, but its requests
// carry that name. With the right token any name is fine, since such a page does
// not have the token.
//
// Requests that change something are refused when a browser says that another
// origin's page made them. No answer has CORS headers.
package admin

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/ca"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/throttle"
)

// Options are what there is to show. Policy and Metrics are needed; the rest may
// be left out.
type Options struct {
	Policy  func() *policy.Policy // the one in force
	CA      *ca.CA
	Metrics *metrics.Metrics
	Ready   func() []Check // what readiness depends on, now
	// Reload reads the configuration again and answers what has changed. Refused is the
	// reload that was refused last, nil after one that succeeded.
	Reload  func() (changes []string, err error)
	Refused func() *RefusedReload
	// Listen is where the proxy listens, as clients must be told; "" is what the
	// policy says, which does not know a port that the system chose.
	Listen string
	// EnvCommand is the command that prints what sets up a shell of this machine: the
	// proxy and files of certificates. "" where no such files are kept.
	EnvCommand string
	// Connections is how many are open, now.
	Connections func() Connections
	// Holds are requests that wait, at most so many: of one site, or "" for all.
	// The slice is the caller's.
	Holds func(site string, most int) []Hold
	// Breakers are those of sites and backends that are not closed. Closed ones
	// among them are not shown.
	Breakers func() []Breaker
	// Tokens are the pools and what servers announce, now; the slices may be kept by
	// whoever gives them. Disable and Enable are for a token of a pool; their errors
	// are for whoever asked.
	Tokens          func() Tokens
	Disable, Enable func(pool, label string) error
	// Explain tells what a request would meet now. Its error is for whoever asked.
	Explain func(method, url, client string) (Explanation, error)
	// Limits are what is left of those that are written for sites. Overrides are
	// those that were set at run time, by site; SetLimits sets them, as the
	// configuration writes them, and ClearLimits takes them away again. An error that
	// is a Missing, policy.Faults or a NotKept tells whose fault it is; ClearLimits is
	// false where none was set.
	Limits      func() []SiteLimit
	Overrides   func() map[string][]policy.Limit
	SetLimits   func(ctx context.Context, site string, body []byte) error
	ClearLimits func(ctx context.Context, site string) (bool, error)
	// Permit waits until somebody else may send a request, and Settle says what became
	// of it. Errors are a *Denied, a Missing, or for whoever asked.
	Permit func(ctx context.Context, a PermitAsk) (Grant, error)
	Settle func(id string, e PermitEnd) error
	// Forecast tells when what is left ends, of one site or of all, and when so many
	// more requests would be done.
	Forecast func(site string, requests int64) []Forecast
	// Bandwidth is what went from and to a site, or each, in steps.
	Bandwidth func(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]Traffic, error)
	// Learned are sites of which something was learned and is kept, as many as there
	// may be of a list.
	Learned func() []string
	// Store is how what keeps budgets is, now.
	Store   func(ctx context.Context) Store
	Version string
	Started time.Time
	Log     *logrus.Logger
}

// Connections counts what is open: connections of clients, and the tunnels among
// them.
type Connections struct {
	Clients int `json:"clients"`
	Tunnels int `json:"tunnels"`
}

// Check is one thing that readiness depends on. One that is OK and Degraded does its
// work, but not all of it.
type Check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Degraded bool   `json:"degraded,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// desk answers the operator's requests.
type desk struct {
	Options
	wrong *throttle.Guard // tokens
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
	if o.Ready == nil {
		o.Ready = func() []Check { return nil }
	}
	d := &desk{Options: o}
	d.wrong = throttle.New(d.refusedTokens)

	inside := http.NewServeMux()
	inside.HandleFunc("GET /{$}", d.page)
	inside.HandleFunc("GET /style.css", d.style)
	inside.Handle("GET /metrics", o.Metrics.Handler())
	inside.HandleFunc("GET /api/v1/status", d.status)
	inside.HandleFunc("GET /api/v1/holds", d.holds)
	inside.HandleFunc("GET /api/v1/explain", d.explain)
	inside.HandleFunc("GET /api/v1/tokens", d.tokens)
	inside.HandleFunc("GET /api/v1/tokens/{pool}", d.pool)
	inside.HandleFunc("POST /api/v1/tokens/{pool}/{label}/disable", d.disable)
	inside.HandleFunc("POST /api/v1/tokens/{pool}/{label}/enable", d.enable)
	inside.HandleFunc("POST /tokens", d.press)
	inside.HandleFunc("POST /api/v1/reload", d.reload)
	inside.HandleFunc("GET /api/v1/sites", d.sites)
	inside.HandleFunc("GET /api/v1/sites/{site}", d.site)
	inside.HandleFunc("GET /api/v1/sites/{site}/limits", d.limits)
	inside.HandleFunc("PUT /api/v1/sites/{site}/limits", d.setLimits)
	inside.HandleFunc("DELETE /api/v1/sites/{site}/limits", d.clearLimits)
	inside.HandleFunc("POST /api/v1/permits", d.permit)
	inside.HandleFunc("POST /api/v1/permits/settle", d.settleAll)
	inside.HandleFunc("POST /api/v1/permits/{id}", d.settle)
	inside.HandleFunc("DELETE /api/v1/permits/{id}", d.unsent)
	inside.HandleFunc("GET /api/v1/forecast", d.forecast)
	inside.HandleFunc("GET /api/v1/bandwidth", d.bandwidth)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", d.healthz)
	mux.HandleFunc("GET /readyz", d.readyz)
	trusted := &certificates{ca: o.CA, made: map[string]madeBundle{}, clock: time.Now}
	mux.HandleFunc("GET /ca.pem", trusted.root)
	mux.HandleFunc("GET /bundle.pem", trusted.bundle("pem", "application/x-pem-file", (*ca.CA).Bundle))
	mux.HandleFunc("GET /bundle.jks", trusted.bundle("jks", "application/octet-stream", (*ca.CA).JavaStore))
	mux.Handle("/", d.authorised(sameOrigin(inside)))
	return d.recovering(hardened(forServers(mux)))
}
