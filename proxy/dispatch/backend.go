package dispatch

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/status"
)

// destination has the backend of a request.
type destination struct {
	backend   *backends.Backend // of the attempt, if it is counted there
	rewritten bool              // the request's URL has the host that it was last sent to
	failed    []string          // names of the backends that failed this request
	over      []string          // names of the backends that the next attempt passes over
	elsewhere bool              // the next attempt is made at another backend, which has not failed this request
}

// leave counts an attempt as over at its backend.
func (d *destination) leave() {
	if d.backend != nil {
		d.backend.Load.End()
		d.backend = nil
	}
}

// addHealth tells the load of the backend how an attempt went.
func (d *destination) addHealth(how backends.Health, err error, took time.Duration, now time.Time) {
	if d.backend == nil {
		return
	}
	d.backend.Load.Add(took, how, now)
	if how != backends.Unknown {
		d.backend.Load.Lost.Store(err != nil && unsent(err))
	}
	if how == backends.Ill {
		d.failed = append(d.failed, d.backend.Name)
	}
}

// backend returns the backend of the request's permit, nil if the request goes to its target.
func (x *Request) backend() *backends.Backend {
	t := &x.progress
	if t.permit == nil || t.plan == nil || t.permit.Choice() >= len(t.plan.Backends.Hosts) {
		return nil
	}
	return &t.plan.Backends.Hosts[t.permit.Choice()]
}

// breaker names the breaker of the request's attempt. If a site has several hosts, each host
// has a breaker: a host that fails says nothing about the others.
func (x *Request) breaker() backends.Key {
	key := breakerOf(x.site, x.backend())
	if key.Backend == "" && x.grouped() {
		key.Backend = x.Target.Host
	}
	return key
}

// grouped reports whether the site is more than the host.
func (x *Request) grouped() bool {
	return x.rule != nil && x.rule.Group != "" && x.rule.Group != "host"
}

// destination returns the host that the request is sent to.
func (x *Request) destination() policy.Target {
	if b := x.backend(); b != nil {
		return b.Target
	}
	return x.Target
}

// pointAtBackend puts the destination into the URL of r, and returns it.
func (x *Request) pointAtBackend(r *http.Request) policy.Target {
	t := x.destination()
	if x.backend() == nil && !x.progress.to.rewritten {
		return t
	}
	x.progress.to.rewritten = true
	absolute(r.URL, t)
	r.Host = r.URL.Host
	return t
}

// passOver finds the backends that the next attempt of a request passes over: a backend that has not failed this
// request comes first, and one that refused its last connection comes last, but for those that
// cannot take the request before it gives up. The attempt waits for a backend that comes first.
func (s *siteBreakers) passOver(x *Request) {
	t, now := &x.progress, x.answered
	t.to.over, t.to.elsewhere = nil, false
	if t.plan == nil || len(t.plan.Backends.Hosts) < 2 || t.to.backend == nil {
		return
	}
	hosts, ranks := t.plan.Backends.Hosts, make([]int, len(t.plan.Backends.Hosts))
	for i := range hosts {
		b := &hosts[i]
		if slices.Contains(t.to.failed, b.Name) {
			ranks[i] = 1
		}
		if b.Load.Lost.Load() {
			ranks[i] += 2
		}
		if !s.Open(breakerOf(x.site, b), s.rule(), now).IsZero() || t.permit.Opens(i).After(t.until) {
			ranks[i] = 4
		}
	}
	first := slices.Min(ranks)
	for i := range hosts {
		switch b := &hosts[i]; {
		case ranks[i] > first:
			t.to.over = append(t.to.over, b.Name)
		case b != t.to.backend && !slices.Contains(t.to.failed, b.Name):
			t.to.elsewhere = first == 0
		}
	}
}

// passedOver tells which backends or tokens the next attempt passes over: none if no other can be used.
func (s *siteBreakers) passedOver(x *Request) []bool {
	t, now := &x.progress, s.clock.Now()
	if x.subject.Tokens != nil {
		return x.subject.Tokens.Over(now, &t.denials)
	}
	passed := func(b backends.Backend) bool { return slices.Contains(t.to.over, b.Name) }
	if len(t.to.over) == 0 || t.plan == nil || !slices.ContainsFunc(t.plan.Backends.Hosts, func(b backends.Backend) bool {
		return !passed(b) && s.Open(breakerOf(x.site, &b), s.rule(), now).IsZero()
	}) {
		return nil
	}
	return lists.Map(t.plan.Backends.Hosts, passed)
}

// RewriteRedirects makes a redirect from a backend to a backend of the same site a redirect
// to the site, so that a client that follows the redirect stays under the site's limits.
func (x *Request) RewriteRedirects(h http.Header) {
	if x.progress.plan == nil || len(x.progress.plan.Backends.Hosts) == 0 {
		return
	}
	for _, name := range [...]string{"Location", "Content-Location"} {
		values := h[name]
		if len(values) != 1 {
			continue
		}
		u, err := url.Parse(values[0])
		if err != nil || u.Host == "" {
			continue
		}
		scheme := cmp.Or(u.Scheme, x.Target.Scheme)
		t, err := policy.ParseTarget(scheme, u.Host)
		if err == nil && slices.ContainsFunc(x.progress.plan.Backends.Hosts, func(b backends.Backend) bool { return b.Target == t }) {
			u.Scheme, u.Host = x.Target.Scheme, x.Target.Authority()
			h[name] = []string{u.String()}
		}
	}
}

// siteBreakers are the breakers of sites and backends, with their lines in the log.
type siteBreakers struct {
	*backends.Breakers
	rule  func() policy.Breaker // of the configuration that holds
	clock clock.Clock
	log   *logrus.Logger
	gate  *queue.Gate
}

// update tells a breaker how an attempt went. It returns the end of the time in which nothing
// more is sent, zero if something may be.
//
// blocked: the site refuses everything. limited: a limit is the reason of the refusal.
func (s *siteBreakers) update(x *Request, pass backends.Pass, how backends.Health, code int, err error, answered, blocked, limited bool, now time.Time) time.Time {
	cause := ""
	if how == backends.Ill {
		cause = causeOf(code, err)
	}
	of, name, rule := x.breaker(), x.site, s.rule()
	switch {
	case x.backend() != nil:
		name += ", backend " + of.Backend
	case of.Backend != "":
		name = of.Backend // a host of a group
	}
	failure, unreached := failureOf(code, err, limited), err != nil && unsent(err) && (of.Backend != "" || answered)
	began, ended, was := false, time.Duration(0), s.Status(of, now)
	if how != backends.Unknown {
		n, _ := s.Streak(of, now)
		began, ended = s.Answered(of, failure, blocked || unreached || code == http.StatusForbidden && n+1 >= manyForbidden, x.sent, now)
	}
	until, opened, lasted := s.Leave(of, rule, pass, how, cause, answered, now)
	lasted = max(lasted, ended)
	if began && until.IsZero() && s.Loggable() {
		text := fmt.Sprintf("%s fails: %s", name, failure)
		if unreached {
			text = fmt.Sprintf("%s cannot be reached: %s; after %s in a row it is left alone for a while", name, failure, status.Number(rule.Failures, "failure", "failures"))
		}
		s.log.WithFields(logrus.Fields{"site": of.Site, "reason": failure}).Log(sitelog.Worst(x.Snapshot.policy, x.site), text)
	}
	if lasted > 0 && how != backends.Ill {
		x.Snapshot.activity.Recovered(x.site, lasted, was.Why)
	}
	if lasted > 0 && s.Loggable() {
		text := fmt.Sprintf("%s answers again after %s", name, sitelog.InSeconds(lasted))
		if how == backends.Ill {
			waiting := 0
			for _, n := range s.gate.HeldCounts(x.site) {
				waiting += n
			}
			text = fmt.Sprintf("%s still fails, after %s: %s; %s, and it is tried again%s", name, sitelog.InSeconds(lasted), cause, status.Number(waiting, "request waits", "requests wait"), strings.Replace(sitelog.Until(now, until), "until", "at", 1))
		}
		s.log.WithField("site", of.Site).Log(sitelog.Worst(x.Snapshot.policy, x.site), text)
	}
	if opened && s.Loggable() {
		s.log.WithFields(logrus.Fields{"site": of.Site, "reason": cause}).Logf(sitelog.Worst(x.Snapshot.policy, x.site), "%s is left alone for %v and then tried again: failures in a row: %d, the last because %s", name, until.Sub(now), rule.Failures, cause)
	}
	return until
}

// refuse refuses a request at once where nothing would be sent for a while, and the site is not expected to come
// back before the request gives up: a client that knows can do something else. Requests that wait already go
// on waiting.
func (s *siteBreakers) refuse(x *Request) *problem.Problem {
	if s.Len() == 0 || x.Snapshot.policy.Observes() {
		return nil
	}
	keys, now := []backends.Key{x.breaker()}, s.clock.Now()
	if p := x.Snapshot.plans[x.rule]; p != nil && len(p.Backends.Hosts) > 0 {
		keys = lists.Map(p.Backends.Hosts, func(b backends.Backend) backends.Key { return breakerOf(x.site, &b) })
	}
	key, until := s.FirstOpen(keys, s.rule(), now)
	if until.IsZero() || until.Sub(now) < patience(x) && s.ComesBack(key, s.rule(), false, now) {
		return nil
	}
	refused := problem.Broken.Until(sitelog.SiteFailed, until, now)
	if why := s.Status(key, now).Why; why != "" {
		refused.Detail += "; the last time because " + why
	}
	return refused
}

// neverCame reports whether the host of a request without backends is given up, as NeverCame says.
func (s *siteBreakers) neverCame(x *Request) bool {
	return x.backend() == nil && s.NeverCame(x.breaker(), s.rule())
}

// breakerOf names the breaker of a site, or of a backend of the site.
func breakerOf(site string, b *backends.Backend) backends.Key {
	if b == nil {
		return backends.Key{Site: site}
	}
	return backends.Key{Site: site, Backend: b.Name}
}

// manyForbidden is the number of answers 403 in a row from which a site is said to refuse everything, however fast they came.
const manyForbidden = 10

// failureOf returns the failure of an attempt, as long as each other fails like it an outage: "" for an answer that a site
// which works gives, too.
func failureOf(code int, err error, limited bool) string {
	switch {
	case err != nil:
		return causeOf(code, err)
	case code < 400, code < 500 && limited, code == http.StatusNotFound, code == http.StatusGone, code == http.StatusTooManyRequests:
		return ""
	}
	return fmt.Sprintf("it answers %d to all requests", code)
}

// causeOf tells why an attempt failed, in words that name nothing.
func causeOf(status int, err error) string {
	if err != nil {
		return problem.OfUpstream(err).Title
	}
	return fmt.Sprintf("it answered %d", status)
}

// refused describes the request for sites.Site.Blame.
func (x *Request) refused() *sites.Refused {
	t := &x.progress
	narrowest, word := x.refusedScope()
	r := &sites.Refused{
		Narrowest: narrowest, Word: word, Whole: x.breakerScope(),
		Token: queue.Scope{Limit: plans.TokenLimit}, Pooled: x.subject.Tokens != nil, Signed: t.token != nil,
		Own:      x.subject.Credential != "" && t.token == nil && x.backend() == nil,
		Refusals: t.refusals, Since: t.refusedAt, Odd: t.odd,
	}
	if t.token != nil {
		r.Token = scopeOfToken(t.token)
	}
	return r
}

// refusedScope returns the scope of a refusal of which the site does not tell the scope, and the
// kind of the scope for the metrics.
func (x *Request) refusedScope() (queue.Scope, string) {
	return x.progress.plan.Scope(&x.subject, x.backend(), x.budget(), x.ClientName())
}

// breakerScope returns the scope of the request's breaker.
func (x *Request) breakerScope() queue.Scope { return plans.Whole(x.backend()) }
