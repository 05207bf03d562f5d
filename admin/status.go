package admin

import (
	"cmp"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// status tells how the process is.
func (s *sites) status(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.process(s.o.Proxy.Holds("", status.MaxHolds+1), s.o.Process.Store(r.Context())), nil
}

// process returns the state of the process, with the requests that wait and the state of the store.
func (s *sites) process(holds []status.Hold, store status.Store) status.Process {
	p, checks := s.o.Policy(), append([]status.Check{}, s.o.Process.Ready()...)
	all := status.Process{
		Version: s.o.Version, Go: runtime.Version(),
		Started: s.o.Started.UTC(), Uptime: time.Since(s.o.Started).Seconds(),
		Ready: ready(checks), Checks: checks,
		Listen: cmp.Or(s.o.Listen, p.Listen), ListenOpen: p.Open.Listen, Admin: p.Admin.Listen,
		Breakers: status.NotClosed(s.o.Proxy.Breakers()), Cooldowns: s.o.Proxy.Cooldowns(status.LongPause), Adaptive: status.AdaptiveOf(s.limits.now("")),
		Waiting: status.SumWaits(holds), Reload: s.o.Process.Refused(),
	}
	all.Waiting.Turns = p.Turns()
	pauses := s.o.Proxy.Pauses()
	for _, site := range slices.Sorted(maps.Keys(pauses))[:min(len(pauses), status.MaxListed)] {
		all.Paused = append(all.Paused, status.SitePause{Site: site, Paused: true, Pause: new(pauses[site])})
	}
	if s.o.CA != nil {
		about := s.o.CA.About()
		all.CA = &status.CA{Subject: about.Subject, SHA256: about.Fingerprint, NotAfter: about.NotAfter.UTC(), AnyName: about.Any, Names: about.Names}
	}
	all.Connections = &status.Connections{Clients: int(s.o.Metrics.Clients.Load()), Tunnels: int(s.o.Metrics.Tunnels.Load())}
	if store.Kind != "" && store.Kind != status.StoreNone {
		store = store.Normalize()
		all.Store = &store
	}
	counts := s.o.Metrics.Sites()
	all.SiteCount, all.Sites = len(counts), []status.Counts{}
	for _, one := range counts {
		all.Sites = append(all.Sites, one.Counts)
		all.Total.Add(one.Counts)
	}
	slices.SortFunc(all.Sites, func(a, b status.Counts) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	all.Sites = all.Sites[:min(len(all.Sites), status.MaxListed)]
	all.Rate, _ = s.o.History.Lately(time.Now())
	all.Failures = status.Failures{Codes: s.o.Metrics.Failed(), Own: s.o.Metrics.OwnAnswers()}
	all.Unread = UnreadNow(p, counts)
	return all
}

// unreadOf are the unread connections of a site, nil where there were none.
func unreadOf(p *policy.Policy, c metrics.SiteCount) *status.SiteUnread {
	var s *status.SiteUnread
	c.Unread.Each(func(reason string, connections uint64) {
		if s == nil {
			s = &status.SiteUnread{Site: c.Name}
		}
		s.Connections += connections
		s.Reasons = append(s.Reasons, status.UnreadReason{Reason: reason, Connections: connections, Remedy: p.UnreadRemedy(policy.Unread(reason))})
	})
	return s
}

// UnreadNow returns the https connections whose limits were not seen; nil: there were none.
func UnreadNow(p *policy.Policy, counts []metrics.SiteCount) *status.Unread {
	u := &status.Unread{}
	for _, one := range counts {
		if s := unreadOf(p, one); s != nil {
			u.Connections += s.Connections
			u.Sites = append(u.Sites, *s)
		}
	}
	if u.SiteCount = len(u.Sites); u.SiteCount == 0 {
		return nil
	}
	slices.SortFunc(u.Sites, func(a, b status.SiteUnread) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.Site, b.Site))
	})
	u.Sites = u.Sites[:min(len(u.Sites), status.MaxListed)]
	return u
}

// reload reads the configuration again, as a SIGHUP does.
func reload(by Process, w http.ResponseWriter, _ *http.Request) (any, error) {
	changes, err := by.Reload()
	if err != nil {
		const code = http.StatusUnprocessableEntity
		answer(w, code, "application/problem+json", status.Problem{Title: http.StatusText(code), Status: code, Detail: status.ErrorLine(err), Faults: FaultsOf(err)})
		return nil, nil
	}
	return status.Reloaded{Reloaded: true, Changes: append([]string{}, changes...)}, nil
}

// listJobs lists the jobs that run.
func listJobs(keeper Process, _ http.ResponseWriter, r *http.Request) (any, error) {
	return append([]status.Job{}, keeper.Jobs(r.Context())...), nil
}

// steerJob is an endpoint that pauses a job, or lets it go on.
func steerJob(keeper Process, pause bool) endpoint {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		if err := keeper.PauseJob(r.Context(), r.PathValue("name"), pause); err != nil {
			return nil, failed(http.StatusBadGateway, err)
		}
		return listJobs(keeper, w, r)
	}
}
