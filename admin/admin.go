// Package admin is the operator's listener: health and readiness for whatever
// supervises the process, metrics, the CA certificate, a status page and the
// API.
//
// The usual call:
//
//	server := admin.Server(admin.New(admin.Options{Policy: current, Metrics: m, Proxy: proxy, Process: process, History: recorder}))
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
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/admin/history"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
	"github.com/abide-proxy/abide/status"
)

// Options are the sources of everything that is shown. All but CA, Listen, EnvCommand
// and Version are needed.
type Options struct {
	Policy  func() *policy.Policy // the policy in force
	CA      *ca.CA
	Metrics *metrics.Metrics
	Proxy   Proxy
	Process Process
	// Listen is the address of the proxy as clients must be told; "" is the one that the
	// policy says, which does not know a port that the system chose.
	Listen string
	// EnvCommand is the command that prints what sets up a shell of this machine: the
	// proxy and files of certificates. "" where no such files are kept.
	EnvCommand string
	// History has what the page draws of the last minutes, and the rates. It is not nil.
	History *history.Recorder
	Version string
	Started time.Time
	Log     *logrus.Logger
}

// Proxy is the part of the proxy that the API needs. If you add an endpoint, add its method here, a
// row to operations, and its type to package status.
type Proxy interface {
	// Holds are the requests that wait, at most so many: of one site, or "" for all.
	Holds(site string, most int) []status.Hold
	Breakers() []status.Breaker
	// Cooldowns are the pauses after refusals that go on for so long at least, the longest of each site.
	Cooldowns(least time.Duration) []status.Cooldown
	// LearnedSites are sites of which something was learned and is kept.
	LearnedSites(most int) []string
	// WrittenLimits tells what is left of the limits that are written, and Overrides which limits
	// were set at run time, by site. SetLimits sets them, as the configuration writes them, and
	// ClearLimits takes them away again; false is that none was set. An error that is a
	// status.Missing, policy.Faults or a status.NotKept tells whose fault it is.
	WrittenLimits() []status.Limit
	Overrides() map[string][]policy.Limit
	SetLimits(ctx context.Context, site string, body []byte) error
	ClearLimits(ctx context.Context, site string) (bool, error)
	// Forget forgets what was learned of the sites of a host. Its error is a status.Missing or a status.NotKept.
	Forget(host string) ([]status.Forgotten, error)
	// PauseSite pauses a site: no request goes to it. ResumeSite is false if the site is not
	// paused. Errors are those of SetLimits.
	Pauses() map[string]status.Pause
	PauseSite(ctx context.Context, site string, p status.Pause) error
	ResumeSite(ctx context.Context, site string) (bool, error)
	// TrySite has a site that fails asked at once. Its error is a status.Missing.
	TrySite(site string) error
	// Permit waits until a request of a crawler without a proxy may be sent, and SettlePermit says
	// what became of it. Errors are a *status.Denied, a status.Missing, or for whoever asked.
	Permit(ctx context.Context, a status.PermitAsk) (status.Grant, error)
	SettlePermit(id string, e status.PermitEnd) error
	// Forecast tells when what is left ends, of one site or of all, and when so many more requests
	// would be done.
	Forecast(site string, requests int64) []status.Forecast
	// Tokens are the pools and what servers announce, now. Errors of SwitchToken are for whoever asked.
	Tokens() status.Tokens
	SwitchToken(pool, label string, enable bool) error
}

// Process is the part of the process around the proxy that the API needs.
type Process interface {
	// Explain tells what a request would meet now. An error is for whoever asked.
	Explain(method, url, client string) (status.Explanation, error)
	// Report tells what became of requests.
	Report(ctx context.Context, by, site string, since, until time.Time, step time.Duration) (status.Report, error)
	// Reload reads the configuration again and answers what has changed.
	Reload() (changes []string, err error)
	// Bandwidth tells what went from and to a site, or each, in steps; a step of 0 is one step of all.
	Bandwidth(ctx context.Context, site string, since, until time.Time, step time.Duration) ([]status.Traffic, error)
	// Advice tells which limits hold requests back, and what would change that.
	Advice(now time.Time) status.AdviceList
	// Jobs are the jobs that run: that of this process, or those of this machine. PauseJob pauses
	// one, or lets it go on. Its error is a status.Missing where no job of that name runs.
	Jobs(ctx context.Context) []status.Job
	PauseJob(ctx context.Context, name string, pause bool) error
	// Ready returns the checks of readiness, as of now.
	Ready() []status.Check
	// Refused is the reload that was refused last, nil after a reload that succeeded.
	Refused() *status.RefusedReload
	// Store returns the state of the store, as of now.
	Store(ctx context.Context) status.Store
}
