package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/limit/forecast"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/sites/ledger"
	"github.com/abide-proxy/abide/status"
)

// View shows what a Dispatcher knows and does. It changes nothing.
type View struct {
	of   *Dispatcher
	side clientsSide // nil: there is no clients' side
}

// clientsSide tells a View about the listeners for clients.
type clientsSide interface {
	// Unread tells why a client's https to a host would be tunnelled, "" if it would not, and
	// the end of the time in which a refusal of the client counts.
	Unread(p *policy.Policy, to policy.Target, x *Request) (policy.Unread, time.Time)
}

// NewView makes a view of a Dispatcher behind a clients' side, which may be nil.
func NewView(d *Dispatcher, side clientsSide) *View {
	v := &View{d, side}
	d.activity.Named = v.Named
	return v
}

// Holds returns the first of the requests that wait at a site, in order; "" is every site.
func (v *View) Holds(site string, most int) []status.Hold {
	now, waiting := v.of.clock.Now(), v.of.gate.HeldRequests(site)
	waiting = waiting[:min(len(waiting), most)]
	list, st := make([]status.Hold, len(waiting)), v.of.Current()
	named := status.Labels(v.Learned)
	owners := owners{sites: map[string]string{}}
	failing := v.failing()
	for i, h := range waiting {
		if why := failing[h.Site]; why != "" && (h.Limit == "retry" || h.Why != "" && (h.Limit == "" || h.Limit == h.Site) || strings.HasPrefix(h.Limit, status.HiddenTitle)) {
			h.Limit, h.Why = "", why
		}
		limit := named(h.Site, h.Limit)
		if h.Any > 1 {
			limit = anyOf(named(h.Site, h.Title), h.Any, owners.pool(st.policy, h.Site), limit)
		}
		list[i] = status.Hold{
			Site: h.Site, Client: h.Client, Priority: h.Priority, Waited: now.Sub(h.Since).Seconds(),
			Limit: limit, Why: h.Why, Until: h.Until, Asks: h.Asking, Place: h.Place, Expected: h.ETA,
		}
	}
	return list
}

// anyOf names a limit of which each of so many tokens of a pool lacks something; limit is that of one, where there is no pool.
func anyOf(title string, tokens int, pool, limit string) string {
	if pool == "" {
		return limit
	}
	return fmt.Sprintf("%s of any of %d tokens of %s", title, tokens, pool)
}

// HeldCounts counts the requests that wait at each site.
func (v *View) HeldCounts() map[status.HeldCount]int { return v.of.gate.HeldCounts("") }

// Activity sums up what became of requests since the start.
func (v *View) Activity() sitelog.Summary { return v.of.activity.Summary() }

// SiteWaiting sums up the requests that wait at a site.
type SiteWaiting struct {
	queue.SiteWaiting
	Found bool // the site does not announce the limit
}

// Waiting sums up the requests that wait at each site.
func (v *View) Waiting() []SiteWaiting {
	named := status.Labels(v.Learned)
	return lists.Map(v.of.gate.Waiting(), func(w queue.SiteWaiting) SiteWaiting {
		title := w.Limit
		w.Limit = named(w.Site, title)
		return SiteWaiting{w, strings.HasPrefix(title, status.HiddenTitle)}
	})
}

// Blocked returns the time that each limit that is remembered has held requests back.
func (v *View) Blocked() []status.BlockedTime { return v.of.gate.Blocked() }

// Observed returns the time that each limit would have held back requests that were only observed.
func (v *View) Observed() []status.BlockedTime { return v.of.gate.Observed() }

// Breakers returns the breakers of sites and backends that failed lately.
func (v *View) Breakers() []status.Breaker { return v.of.admission.breakers.All(v.of.clock.Now()) }

// Cooldowns returns the pauses after refusals that go on for so long at least, the longest of each site, without those of the
// tokens of pools.
func (v *View) Cooldowns(least time.Duration) []status.Cooldown {
	longest, now := map[string]status.Cooldown{}, v.of.clock.Now()
	v.of.gate.VisitCooldowns(func(site string, at queue.Scope, until time.Time, why string) {
		if at.Limit != plans.TokenLimit && why != sitelog.SiteFailed && until.Sub(now) >= least && until.After(longest[site].Until) {
			longest[site] = status.Cooldown{Site: site, Until: until.UTC(), Why: why, Part: at != queue.Scope{}}
		}
	})
	list := slices.SortedFunc(maps.Values(longest), func(a, b status.Cooldown) int { return cmp.Compare(a.Site, b.Site) })
	return list[:min(len(list), status.MaxListed)]
}

// failing returns the sites that answer each request with the same failure: site → the failure.
func (v *View) failing() map[string]string {
	found := map[string]string{}
	for _, b := range v.Breakers() {
		if b.Backend == "" && !b.Since.IsZero() {
			found[b.Site] = b.Why
		}
	}
	return found
}

// Pools returns all pools, in order of their names.
func (v *View) Pools() []status.Pool { return v.of.Current().pools.status(v.of.clock.Now()) }

// LearnedSites returns sites of which something has been learned, at most so many.
func (v *View) LearnedSites(most int) []string { return v.of.storage.learned.Known(most) }

// Store describes the state of the store.
func (v *View) Store() status.Store { return v.of.storage.budgets.Status() }

// Instances returns the instances that use the store, this one included, as many as it lists.
func (v *View) Instances(ctx context.Context) []status.Member {
	return v.of.storage.budgets.Members(ctx)
}

// NextHop returns a degraded check while nothing is sent to the next hop because it does not accept
// the user and password.
func (v *View) NextHop() []status.Check {
	until := v.of.Current().upstream.Login.Refused()
	if until.IsZero() {
		return nil
	}
	return []status.Check{{Name: "next proxy", OK: true, Degraded: true, Detail: problem.LoginRefused(until, time.Now())}}
}

// Overrides returns the limits that were set at run time, by site.
func (v *View) Overrides() map[string][]policy.Limit {
	limits := map[string][]policy.Limit{}
	for site, set := range v.of.storage.overrides.All() {
		if set.Limits != nil {
			limits[site] = set.Limits
		}
	}
	return limits
}

// Pauses returns the pauses of sites that have not ended.
func (v *View) Pauses() map[string]status.Pause {
	pauses, now := map[string]status.Pause{}, v.of.clock.Now()
	for site, set := range v.of.storage.overrides.All() {
		if set.Pause != nil && !set.Pause.Over(now) {
			pauses[site] = *set.Pause
		}
	}
	return pauses
}

// Sizes counts the entries of the bounded collections.
func (v *View) Sizes() map[string]int {
	return map[string]int{
		"byte budgets":    v.of.bytes.Len(),
		"rates of use":    v.of.housekeeper.use.size(),
		"shared requests": v.of.coalescing.Members(),
		"breakers":        v.of.admission.breakers.Len(),
		"at backends":     v.of.loads.InFlight(),
	}
}

var (
	errNoTarget = errors.New("the URL has to begin with http:// or https:// and name a host")
	errNoMethod = errors.New("the method is not one that abide sends")
)

// localClient is the client of a crawler on this machine, where clients have no names.
const localClient = "127.0.0.1"

// usualClient returns the client that a question about a site is most likely about: the one
// with the most requests waiting there, else the first of access.clients, else this
// machine.
func (v *View) usualClient(site string, clients []policy.Client) string {
	held := map[string]int{}
	most := ""
	for at, n := range v.of.gate.HeldCounts(site) {
		if held[at.Client] += n; held[at.Client] > held[most] {
			most = at.Client
		}
	}
	switch {
	case most != "":
		return most
	case len(clients) > 0:
		return clients[0].Name
	}
	return localClient
}

// Explain tells what a request of a client would meet now; "" is the usual client. It
// sends nothing.
func (v *View) Explain(method string, u *url.URL, name string) (status.Explanation, error) {
	target, err := policy.ParseTarget(u.Scheme, u.Host)
	if err != nil {
		return status.Explanation{}, errNoTarget
	}
	method = cmp.Or(method, http.MethodGet)
	if MethodRefusal(method) != nil || method == http.MethodConnect {
		return status.Explanation{}, errNoMethod
	}
	st := v.of.Current()
	match := st.policy.Match(target)
	guessed := name == ""
	if guessed {
		name = v.usualClient(match.Site, st.policy.Access.Clients)
	}
	x := &Request{Caller: NoCaller{}, Snapshot: st, Target: target, HTTP: &http.Request{Method: method, URL: u}, Options: RequestOptions{Client: name}}
	x.site, x.rule, x.explained = match.Site, match.Rule, true
	x.Client = st.policy.Client(name)
	x.subject.Prior = crawlDelay(x, x.HTTP, v.of.robots)
	q, refused := v.of.admission.ask(x, x.HTTP), st.Forbidden(x.Client, target)
	if refused == nil && !x.maySign() {
		refused = &problem.Insecure
	}
	if refused != nil {
		return status.Explanation{Target: target.Scheme + "://" + target.HostPort(), Site: match.Site, Client: name, ClientGuessed: guessed, Refused: refused.Detail}, nil
	}
	ofClient, limited := x.clientQuestion()
	if limited {
		v.of.storage.preload(ofClient)
	}
	v.of.storage.preload(q) // what no request has asked for since the start
	asked := v.of.gate.Explain(q)
	e := asked.Explanation
	if n := asked.Blocker.Any; n > 1 && match.Rule != nil {
		e.Limit = anyOf(asked.Blocker.Title, n, match.Rule.Pool, e.Limit)
	}
	if limited {
		e.AddClient(v.of.gate.Explain(ofClient).Explanation)
	}
	store := v.Store()
	e.Away = e.Asks && store.Kind == status.StoreShared && !store.Since.IsZero()
	named := status.Labels(v.Learned)
	e.Limit = named(match.Site, e.Limit)
	for i := range e.Limits {
		e.Limits[i].Limit = named(match.Site, e.Limits[i].Limit)
	}
	e.Target, e.Site = target.Scheme+"://"+target.HostPort(), match.Site
	e.Client, e.ClientGuessed, e.Observed = name, guessed, st.policy.Observes()
	if match.Rule != nil {
		e.Rule = match.Rule.Title()
	}
	if target.Scheme == "https" && v.side != nil {
		why, until := v.side.Unread(st.policy, target, x)
		e.Unread, e.UnreadUntil = string(why), until
	}
	e.Intercepted = e.Unread == ""
	now := v.of.clock.Now()
	breaker := v.of.admission.breakers.Status(x.breaker(), now)
	e.Breaker, e.Tries, e.Failed = breaker.State, breaker.Until, breaker.Why
	e.CanTry = breaker.State != "closed" && ownPause(e.Why)
	if p := x.progress.plan; p != nil {
		for i := range p.Backends.Hosts {
			b := &p.Backends.Hosts[i]
			breaker := v.of.admission.breakers.Status(breakerOf(match.Site, b), now)
			e.Backends = append(e.Backends, status.ExplainedBackend{Backend: b.Name, Breaker: breaker.State, Tries: breaker.Until, InFlight: b.Load.InFlight()})
		}
	}
	return e, nil
}

// Operator changes, while abide runs, what a Dispatcher goes by.
type Operator struct{ sees *View }

// NewOperator makes the operator of a Dispatcher.
func NewOperator(d *Dispatcher) *Operator { return &Operator{NewView(d, nil)} }

// Forget forgets what was learned of the sites of a host, on whichever port, or of the site of that name. It
// returns the limits that were known. The error is a status.Missing or a status.NotKept.
func (o *Operator) Forget(host string) (list []status.Forgotten, err error) {
	var matched []string
	for _, scheme := range []string{"https", "http"} {
		if t, err := policy.ParseTarget(scheme, host); err == nil {
			matched = append(matched, o.sees.of.Current().policy.Match(t).Site)
		}
	}
	limits, known := o.sees.Limits(), o.sees.LearnedSites(mostUsed)
	for _, name := range o.sees.of.storage.learned.Forget(o.sees.of.gate, host, matched...) {
		none := len(list)
		for _, l := range limits {
			if l.Site == name {
				list = append(list, status.Forgotten{Site: name, Limit: l.Label(), Of: l.Token})
			}
		}
		if len(list) == none {
			list = append(list, status.Forgotten{Site: name})
		}
	}
	if len(list) == 0 {
		return nil, status.Missing(fmt.Sprintf("nothing was learned of %q%s", host, policy.DidYouMean(host, known)))
	}
	return list, status.Kept(o.sees.of.storage.persistence.Save(context.Background(), documentPatience, true))
}

// SetLimits sets other limits for a site than its rule says: see overrides.Overrides.Set.
func (o *Operator) SetLimits(ctx context.Context, site string, body []byte) error {
	return o.sees.of.storage.overrides.Set(ctx, site, body)
}

// ClearLimits gives a site the limits of its rule again. It is false if it had them.
func (o *Operator) ClearLimits(ctx context.Context, site string) (bool, error) {
	return o.sees.of.storage.overrides.Clear(ctx, site)
}

// PauseSite lets no request go to a site: see overrides.Overrides.Pause.
func (o *Operator) PauseSite(ctx context.Context, site string, p status.Pause) error {
	return o.sees.of.storage.overrides.Pause(ctx, site, p)
}

// ResumeSite ends the pause of a site. It is false if the site is not paused.
func (o *Operator) ResumeSite(ctx context.Context, site string) (bool, error) {
	return o.sees.of.storage.overrides.Resume(ctx, site)
}

// TrySite has a site that fails asked at once: by a request that waits for the end of its pause, or by the next one. It
// ends no pause that a site has asked for. The error is a status.Missing.
func (o *Operator) TrySite(site string) error {
	if !slices.ContainsFunc(o.sees.Breakers(), func(b status.Breaker) bool { return b.Site == site && b.State != "closed" }) {
		return status.Missing(fmt.Sprintf("%q does not fail: there is nothing to try, and a pause that it asked for stays", site))
	}
	o.sees.of.admission.breakers.Try(site, o.sees.of.clock.Now())
	o.sees.of.gate.EndPauses(site, func(now time.Time, why string, m limit.Meter) bool {
		if p, ok := m.(*ledger.HiddenRate); ok {
			p.TryAgain(now)
		}
		return ownPause(why)
	})
	return nil
}

// ownPause reports whether abide itself has chosen the length of a pause, by its cause.
func ownPause(why string) bool {
	return strings.HasPrefix(why, refusedUntimed) || slices.Contains([]string{sitelog.SiteFailed, refusesAll, failureOf(http.StatusForbidden, nil, false)}, why)
}

// SwitchToken takes a token out of use, or puts it back into use, out of quarantine too.
func (o *Operator) SwitchToken(pool, label string, enable bool) error {
	return o.sees.of.storage.tokens.change(pool, label, enable)
}

// WrittenLimits returns the limits of the configuration that are remembered, in order.
func (v *View) WrittenLimits() []status.Limit {
	return lists.Map(v.of.housekeeper.use.sorted(), func(l *written) status.Limit { return l.shown })
}

// Forecast tells of the limits with long windows, of one site or "" for all, when they are used
// up at the present rate, and when so many more requests would be done.
func (v *View) Forecast(site string, requests int64) (list []status.Forecast) {
	v.of.housekeeper.use.sample() // it may have been a while
	for _, l := range v.of.housekeeper.use.sorted() {
		if site != "" && l.shown.Site != site || !forecast.Covers(&l.spec) {
			continue
		}
		f := status.Forecast{Site: l.shown.Site, Limit: l.shown.Limit, Of: l.shown.Of, Amount: l.shown.Amount, Left: l.shown.Left, Used: l.used(), Unit: l.shown.Unit}
		f.Rate, f.Observed = v.of.housekeeper.use.rateOf(l)
		more := requests
		if l.shown.Unit == string(policy.Bytes) {
			more = 0 // requests say nothing of bytes
		}
		b := forecast.Budget{Spec: l.spec, Amount: f.Amount, Used: f.Used, Left: f.Left, Rate: f.Rate}
		ahead := b.Forecast(l.now, more)
		f.Opens, f.Ends, f.RunsOut, f.Done = ahead.Opens, ahead.Ends, ahead.RunsOut, ahead.Done
		list = append(list, f)
	}
	return list
}
