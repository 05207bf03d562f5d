// Package dispatch is the way of one request to its site. It needs no HTTP server: the
// proxy, permits and abide's own requests use it.
//
//	d, err := dispatch.New(dispatch.Options{Policy: p, Metrics: m, Log: log})
//	go d.Run(ctx)
//
//	x, err := d.NewRequest(r)     // an *http.Request with an absolute URL
//	resp, err := d.Do(ctx, x)     // waits, signs, sends, learns, sends again
//	defer d.End(x, 0)             // after the body
//
// The error is a *problem.Problem. Decisions are functions without clocks or sockets:
// package plans says which limits a request is under, backend.go and credential.go which way it
// goes, retry.go whether it is sent again.
package dispatch

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/dispatch/robots"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/tokens"
)

// Options configure a Dispatcher.
type Options struct {
	Policy  *policy.Policy
	Metrics *metrics.Metrics
	Log     *logrus.Logger
	Lookup  func(name string) (string, bool) // the environment, for pools; nil is an empty one
	Keeping Keeping                          // the zero value stores and shares nothing

	Clock  clock.Clock    // nil: the computer's
	Jitter func() float64 // numbers from 0 to 1; nil: random ones
	// Upstream changes what reaches sites; nil changes nothing.
	Upstream func(*upstream.Transport) http.RoundTripper

	// Ended is called when a request or a tunnel has ended; nil: nothing is. It must be quick.
	Ended func(Report)

	// TrickleEvery is the time between two trickles of a body that a limit of bytes holds up;
	// 0 is 5 seconds.
	TrickleEvery time.Duration

	OtherDocuments []string // kinds of documents of other packages, which are read at the start
}

// Dispatcher is the only way of a request to its site: it finds the limits, waits,
// signs, sends, learns, and sends again.
type Dispatcher struct {
	metrics *metrics.Metrics
	log     *logrus.Logger
	clock   clock.Clock

	config      *configuration
	gate        *queue.Gate
	bytes       *siteBytes
	storage     *storage
	loads       backends.Loads
	admission   *admission
	lessons     *lessons
	problems    *problems
	robots      *robots.Cache
	coalescing  coalescing // requests that may be shared
	housekeeper *housekeeper
	activity    *sitelog.Log
	ended       func(Report) // nil: nothing is called
}

// New prepares a dispatcher; it starts nothing.
func New(o Options) (*Dispatcher, error) {
	now := cmp.Or(o.Clock, clock.System)
	s := &Dispatcher{metrics: o.Metrics, log: o.Log, clock: now, activity: sitelog.New(o.Log), admission: &admission{}, ended: o.Ended}
	s.robots = robots.New(s.sendOwn, func(t policy.Target) string { return s.Policy().Match(t).Site }, o.Log)
	s.gate = queue.NewGateWithClock(now, boundsOf(o.Policy), hooks{s.admission})
	c := &configuration{
		name: newPseudonym(), changeUpstream: o.Upstream, gate: s.gate, hooks: hooks{s.admission},
		activity: s.activity, clock: now, log: o.Log,
	}
	s.bytes = newSiteBytes(c, o.Metrics, cmp.Or(o.TrickleEvery, usualTrickle))
	s.config, s.storage = c, newStorage(o.Keeping, c, o.Metrics)
	c.reloaded = s.bytes.Reload
	c.pools = &poolLoader{read: tokens.LoadAll, lookup: o.Lookup, transport: credentialTransport(func() *outbound { return c.current.Load().outbound }), persistence: s.storage.persistence, clock: now, log: o.Log}
	c.parts = plans.Parts{Loads: &s.loads, Meters: s.storage.budgets.Meters}
	c.overrides = s.storage.overrides.All
	s.housekeeper = &housekeeper{
		gate: s.gate, bandwidth: s.bytes.Budgets, use: &limitUse{gate: s.gate, current: &c.current, budgets: s.storage.budgets},
		idle: func() time.Duration { return s.Policy().Timeouts.Idle }, asked: signal.New(),
	}
	s.bytes.wake = s.housekeeper.wake
	s.connect()
	if o.Jitter != nil {
		s.lessons.jitter = o.Jitter
	}
	if err := s.storage.read(o.Policy.StrictState, o.Keeping.Shared, o.OtherDocuments); err != nil {
		return nil, err
	}
	if err := c.start(o.Policy); err != nil {
		return nil, err
	}
	s.storage.begin()
	s.housekeeper.use.sample()
	return s, nil
}

// connect makes the parts that a request passes.
func (s *Dispatcher) connect() {
	s.problems = &problems{gate: s.gate, log: s.log, clock: s.clock, lines: sitelog.LineLimit{Every: lineEvery}}
	breakers := &siteBreakers{backends.NewBreakers(), func() policy.Breaker { return s.Policy().Breaker }, s.clock, s.log, s.gate}
	*s.admission = admission{
		gate: s.gate, breakers: breakers, robots: s.robots, storage: s.storage, bytes: s.bytes, problems: s.problems,
		activity: s.activity, clock: s.clock, log: s.log, wake: s.housekeeper.wake,
	}
	s.lessons = &lessons{gate: s.gate, breakers: breakers, activity: s.activity, log: s.log, denials: &sitelog.LineLimit{Every: time.Minute}, jitter: rand.Float64}
	s.coalescing.Log, s.coalescing.send, s.coalescing.finish = s.log, s.sendUntilDone, s.End
}

// Current returns the snapshot of the configuration that new requests go by.
func (s *Dispatcher) Current() *Snapshot { return s.config.current.Load() }

// Policy returns the configuration that new requests go by.
func (s *Dispatcher) Policy() *policy.Policy { return s.Current().policy }

// Own adds the address of a listener of this process, which is never dialed.
func (s *Dispatcher) Own(a netip.AddrPort) { s.config.addresses.add(a) }

// Gate returns the queue of the requests that wait.
func (s *Dispatcher) Gate() *queue.Gate { return s.gate }

// Persistence stores what was learned across restarts.
func (s *Dispatcher) Persistence() *sites.Persistence { return s.storage.persistence }

// Reload swaps the policy. Requests in flight go on. What was learned of a site by another dialect than that of its
// rule is forgotten.
func (s *Dispatcher) Reload(p *policy.Policy) error {
	before := s.Policy()
	if err := s.config.reload(p); err != nil {
		return err
	}
	if p.Breaker != before.Breaker {
		s.admission.breakers.Forget()
	}
	for _, site := range s.storage.learned.Known(math.MaxInt) {
		if before.DialectOf(site) == p.DialectOf(site) {
			continue
		}
		for _, forgotten := range s.storage.learned.Forget(s.gate, site) {
			s.log.WithField("site", forgotten).Infof("%s: the dialect of its rule has changed, so what was learned of the site is forgotten", forgotten)
		}
	}
	return nil
}

// Run does the periodic work until ctx is done. Then it ends shared requests and requests for
// robots.txt, and closes the connections to sites.
func (s *Dispatcher) Run(ctx context.Context) {
	inner, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.activity.Run(inner, s.gate) })
	running.Go(func() { s.storage.run(inner) })
	running.Go(func() { s.housekeeper.run(inner) })
	<-ctx.Done()
	s.coalescing.End()
	s.robots.End()
	stop()
	running.Wait()
	s.config.close()
}

// CancelBackground cancels the requests for robots.txt.
func (s *Dispatcher) CancelBackground() { s.robots.Cancel() }

// DrainQueue lets waiting requests go in their turn until ctx, which has a deadline, is over.
// Requests whose turn would come later are refused at once.
func (s *Dispatcher) DrainQueue(ctx context.Context) {
	end, _ := ctx.Deadline()
	if refused, waiting := s.gate.StartDrain(end); refused+waiting > 0 {
		s.log.Infof("stopping: answered 503 to waiting requests whose turn is after timeouts.drain: %d; still waiting: %d", refused, waiting)
	}
	s.gate.Drain(ctx)
}

// NewRequest returns a request of abide itself, with an absolute URL, which becomes canonical.
func (s *Dispatcher) NewRequest(r *http.Request) (*Request, error) {
	target, err := policy.ParseTarget(r.URL.Scheme, r.URL.Host)
	if err != nil {
		return nil, err
	}
	Canonical(r, target)
	return &Request{Snapshot: s.Current(), Target: target, HTTP: r, Caller: NoCaller{}, Start: s.clock.Now()}, nil
}

// match finds the site of a request, and its rule. It tells why the request may not go there.
func (s *Dispatcher) match(x *Request) *problem.Problem {
	match := x.Snapshot.policy.Match(x.Target)
	x.site, x.rule = match.Site, match.Rule
	if refused := x.Snapshot.Forbidden(x.Client, x.Target); refused != nil {
		x.meter = s.metrics.Site(store.Others) // hosts that the operator forbids fill no table
		return refused
	}
	x.meter = s.metrics.Site(match.Site)
	return nil
}

// writeHeaders writes the headers of the request's rule into r. abide's own User-Agent, that of
// jobs and of robots.txt, counts as none.
func (x *Request) writeHeaders(r *http.Request) {
	if x.rule == nil || len(x.rule.Headers) == 0 {
		return
	}
	header := r.Header.Clone()
	for _, h := range x.rule.Headers {
		sent := header.Get(h.Name)
		if h.Set || sent == "" || h.Name == "User-Agent" && sent == robots.UserAgent {
			header.Set(h.Name, h.Value)
		}
	}
	r.Header = header
}

// End gives back the permit and the bytes of the request, after an answer of so many bytes, and
// reports the request.
func (s *Dispatcher) End(x *Request, received int64) {
	if received > 0 {
		x.received = received
	}
	if s.ended != nil && x.site != "" && !x.shared {
		report := x.Report()
		if x.Refusal == problem.Forbidden.Reason {
			report.Site = store.Others
		}
		s.ended(report)
	}
	result := x.progress.result
	result.Unsent = result.Unsent && x.progress.sent == 0 || x.sent.IsZero() && !x.progress.shared
	x.own.finish(result, x.received+x.Uploaded)
	x.progress.finish()
	if x.bytes != nil {
		if received > 0 {
			s.bytes.Sizes.Add(x.site, received)
		}
		s.bytes.release(x)
	}
	x.Caller.Release()
}

// sendOwn sends a request of abide down the path of every other, so that limits, breaker
// and egress rules hold for it, and has its answer read. It is the first that its site should see.
func (s *Dispatcher) sendOwn(r *http.Request, read func(*http.Response)) error {
	x, err := s.NewRequest(r)
	if err != nil {
		return err
	}
	x.Client, x.Options = crawler, RequestOptions{Urgency: 1}
	if refused := s.match(x); refused != nil {
		return refused
	}
	x.writeHeaders(r)
	defer s.End(x, 0)
	resp, problem := s.sendUntilDone(x, x.Snapshot.SignVia(x.Target.Scheme, r.WithContext(x.Bind(r.Context())), ""))
	if problem != nil {
		return problem
	}
	defer resp.Body.Close()
	x.RewriteRedirects(resp.Header)
	read(resp)
	return nil
}
