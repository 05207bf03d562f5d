package admin

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/abide-proxy/abide/metrics"
)

// maxSites is how many sites the page and the API list.
const maxSites = 100

// Status is what /api/v1/status answers, and what the page is made from.
type Status struct {
	Version string    `json:"version"`
	Go      string    `json:"go"`
	Started time.Time `json:"started"`
	Uptime  float64   `json:"uptime_seconds"`
	Ready   bool      `json:"ready"`
	Checks  []Check   `json:"checks"`
	Listen  string    `json:"listen"`
	// ListenOpen is where all https is opened, "" where there is no such listener.
	ListenOpen string    `json:"listen_open,omitempty"`
	Admin      string    `json:"admin"`
	CA         *caStatus `json:"ca"`
	// Connections is nil where nobody counts them.
	Connections *Connections `json:"connections,omitempty"`
	// Sites are those with the most bytes; SiteCount is how many there are.
	Sites     []siteStatus `json:"sites"`
	SiteCount int          `json:"site_count"`
	Total     siteStatus   `json:"total"`
	// Unread is nil where no https has passed unread.
	Unread *Unread `json:"https_unread,omitempty"`
	// Breakers are those that are not closed, at most as many as sites.
	Breakers []Breaker `json:"breakers,omitempty"`
	// Adaptive are the adaptive limits with their present rates, at most as many as sites.
	Adaptive []adaptiveNow `json:"adaptive,omitempty"`
	// Waiting is nil where nobody knows what waits.
	Waiting *waits `json:"waiting,omitempty"`
	// Store is nil where nothing keeps budgets.
	Store *Store `json:"store,omitempty"`
	// Reload is the last reload, where it was refused; nil where it was not.
	Reload *RefusedReload `json:"refused_reload,omitempty"`
}

type caStatus struct {
	Subject  string    `json:"subject"`
	SHA256   string    `json:"sha256"`
	NotAfter time.Time `json:"not_after"`
	AnyName  bool      `json:"any_name"`
	Names    []string  `json:"names"`
}

type siteStatus struct {
	Name     string `json:"site,omitempty"`
	Requests uint64 `json:"requests"`
	In       uint64 `json:"bytes_received"` // from the site
	Out      uint64 `json:"bytes_sent"`     // to the site
}

func (s siteStatus) bytes() uint64 { return s.In + s.Out }

func (d *desk) now(ctx context.Context) Status {
	p, checks := d.Policy(), d.Ready()
	if checks == nil {
		checks = []Check{}
	}
	s := Status{
		Version: d.Version, Go: runtime.Version(),
		Started: d.Started.UTC(), Uptime: time.Since(d.Started).Seconds(),
		Ready: ready(checks), Checks: checks,
		Listen: cmp.Or(d.Listen, p.Listen), ListenOpen: p.Open.Listen, Admin: p.Admin.Listen,
	}
	if d.CA != nil {
		about := d.CA.About()
		s.CA = &caStatus{about.Subject, about.Fingerprint, about.NotAfter.UTC(), about.Any, about.Names}
	}
	if d.Connections != nil {
		open := d.Connections()
		s.Connections = &open
	}
	s.Breakers, s.Waiting = d.broken(), d.waits(time.Now())
	s.Adaptive = adaptiveOf(d.limitsNow(""))
	s.Store = d.storeNow(ctx)
	if d.Refused != nil {
		s.Reload = d.Refused()
	}
	counts := d.Metrics.Sites()
	s.count(counts)
	s.Unread = unreadNow(p, counts)
	return s
}

func (s *Status) count(sites []metrics.SiteCount) {
	s.SiteCount, s.Sites = len(sites), []siteStatus{}
	for _, one := range sites {
		s.Sites = append(s.Sites, siteStatus{one.Name, one.Requests, one.In, one.Out})
		s.Total.Requests += one.Requests
		s.Total.In += one.In
		s.Total.Out += one.Out
	}
	slices.SortFunc(s.Sites, func(a, b siteStatus) int {
		return cmp.Or(cmp.Compare(b.bytes(), a.bytes()), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	s.Sites = s.Sites[:min(len(s.Sites), maxSites)]
}

func (d *desk) status(w http.ResponseWriter, r *http.Request) { answerJSON(w, d.now(r.Context())) }
