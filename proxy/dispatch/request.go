package dispatch

import (
	"context"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// Request is one request on its way: what is asked, and what was decided about it so
// far.
type Request struct {
	Snapshot  *Snapshot
	Target    policy.Target
	Client    *Client
	Address   string        // of the client, where it has no name
	HTTP      *http.Request // as it is sent to the site, but for its credential
	Caller    Caller
	Start     time.Time
	Options   RequestOptions
	Queued    func()        // see PermitAsk; nil: nothing is called
	Uploading time.Duration // the client's part of the time before the wait
	Uploaded  int64         // bytes of the body that the client has sent

	// Filled by the request's path.
	purpose
	matched
	times
	progress progress
	activity sitelog.Request       // its waits, and its number in the log
	bytes    *bandwidth.SiteBudget // what its connection takes bytes from; nil: no limit of bytes
	ctx      requestContext
}

// purpose is what a request is for, where abide does not send it for a client.
type purpose struct {
	explained    bool // nothing is sent: an explanation is asked for
	shared       bool // it is sent in place of other requests, which are reported themselves
	sentByCaller bool // the caller sends it, and may never say what came of it
}

// matched is what was found out about a request: its site, and what is known of that.
type matched struct {
	site  string
	rule  *policy.Site // nil: no rule names the target
	meter *metrics.Site

	subject plans.Subject // what its limits depend on
	seen    uint64        // the version of subject.Known by which subject.Class was found

	received int64 // bytes of the answer's body
}

// times are the times of the steps of a request.
type times struct {
	first    time.Time // when the site was first asked
	sent     time.Time // when it was last asked
	answered time.Time // when the head of that answer had come
}

// requestContext is the context of a request on its path. It answers for the meter of
// its site, and for who hears that the request is being sent.
type requestContext struct {
	context.Context
	q *Request
}

func (c *requestContext) Value(key any) any {
	switch key {
	case upstream.SenderKey{}:
		return c.q
	case upstream.MeterKey{}:
		if c.q.bytes != nil {
			return c.q.bytes
		}
		if c.q.meter == nil {
			return nil
		}
		return c.q.meter
	}
	return c.Context.Value(key)
}

// NewRequest is a request of abide itself, with an absolute URL.
func (s *Dispatcher) NewRequest(r *http.Request) (*Request, error) {
	target, err := policy.ParseTarget(r.URL.Scheme, r.URL.Host)
	if err != nil {
		return nil, err
	}
	return &Request{Snapshot: s.Current(), Target: target, HTTP: r, Caller: NoCaller{}, Start: s.clock.Now()}, nil
}

// match finds the site of a request, and its rule.
func (s *Dispatcher) match(x *Request) {
	match := x.Snapshot.policy.Match(x.Target)
	x.site, x.rule, x.meter = match.Site, match.Rule, s.metrics.Site(match.Site)
}

// Bind makes the request's own context around another.
func (x *Request) Bind(ctx context.Context) context.Context {
	x.ctx = requestContext{Context: ctx, q: x}
	return &x.ctx
}

// reportQueued says that the request has its place in the queue, or needs none.
func (x *Request) reportQueued() {
	if x.Queued != nil {
		x.Queued()
	}
}

// beginWait is called when the request has to wait.
func (x *Request) beginWait(p queue.Waiter) {
	x.progress.waiter = p
	x.Snapshot.activity.Wake()
	if x.Snapshot.activity.Debugs() {
		x.LogDecision("held %s", sitelog.HeldUntil(x.Snapshot.clock.Now(), p.Blocker()))
	}
	x.reportQueued()
	x.Caller.BeginWait()
}

// Sending is called when the request had to wait for a new connection: only from now
// on can it arrive, whenever it was let go.
func (x *Request) Sending() {
	if x.progress.permit != nil {
		x.progress.permit.Sent()
	}
}

// replayable tells whether the request could be sent once more.
func (x *Request) replayable(r *http.Request) bool {
	return !x.Options.Once && !x.Snapshot.policy.Observes() && x.Caller.Replayable(r)
}

// End gives back what the request still has, after an answer of so many bytes, and reports
// the request.
func (s *Dispatcher) End(x *Request, received int64) {
	if received > 0 {
		x.received = received
	}
	if s.ended != nil && x.site != "" && !x.shared {
		s.ended(x.Report())
	}
	x.progress.finish()
	if x.bytes != nil {
		if received > 0 {
			s.bytes.Sizes.Add(x.site, received)
		}
		s.bytes.release(x)
	}
	x.Caller.Release()
}

// ClientName is the client that the request counts for: the name that authenticated, or the
// name that the request gives where no client has to authenticate, or else the address.
func (x *Request) ClientName() string {
	switch {
	case x.Client != nil:
		return x.Client.Name
	case x.Options.Client != "" && len(x.Snapshot.policy.Access.Clients) == 0:
		return x.Options.Client
	}
	return x.Address
}

// priority is what the request says, or else its client's, or else its rule's.
func (x *Request) priority() int {
	switch {
	case x.Options.Urgency > 0:
		return x.Options.Urgency - 1
	case x.Client != nil && x.Client.Priority != queue.DefaultPriority:
		return x.Client.Priority
	case x.rule != nil:
		return x.rule.Priority
	}
	return queue.DefaultPriority
}
