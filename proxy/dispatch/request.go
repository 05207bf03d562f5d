package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/metrics"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/bandwidth"
	"github.com/abide-proxy/abide/proxy/dispatch/backends"
	"github.com/abide-proxy/abide/proxy/dispatch/plans"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
	"github.com/abide-proxy/abide/sites"
	"github.com/abide-proxy/abide/tokens"
)

// Request is a request on its way: the question, and the decisions about it so far.
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
	Status    int           // of the answer; 499: the client left before its end
	Refusal   string        // the reason for which abide answered it or cut the answer; "": it did not

	// The purpose of a request that abide does not send for a client.
	explained    bool // nothing is sent: an explanation is asked for
	shared       bool // it is sent in place of other requests, which are reported themselves
	sentByCaller bool // the caller sends it, again too, and may never say what came of it

	// Filled by the request's path.
	site     string
	rule     *policy.Site // nil: no rule names the target
	meter    *metrics.Site
	subject  plans.Subject // what its limits depend on
	seen     uint64        // the version of subject.Known by which subject.Class was found
	progress progress
	own      ownLimits
	activity sitelog.Request       // its waits, and its number in the log
	bytes    *bandwidth.SiteBudget // what its connection takes bytes from; nil: no limit of bytes
	received int64                 // bytes of the answer's body
	ctx      requestContext

	// The times of its steps.
	first    time.Time // when the site was first asked
	sent     time.Time // when it was last asked
	answered time.Time // when the head of that answer had come
}

// Bind makes the request's own context around another.
func (x *Request) Bind(ctx context.Context) context.Context {
	x.ctx = requestContext{Context: ctx, q: x}
	return &x.ctx
}

// waitContext returns the context of a wait.
func (x *Request) waitContext(r *http.Request) context.Context {
	return x.Caller.WaitContext(r.Context())
}

// reportQueued says that the request has its place in the queue, or needs none.
func (x *Request) reportQueued() {
	if x.Queued != nil {
		x.Queued()
	}
}

// beginWait is called when the request has to wait.
func (x *Request) beginWait(p *queue.Permit) {
	x.progress.waiter = p
	x.Snapshot.activity.Wake()
	if x.Snapshot.activity.Debugs() {
		x.LogDecision("held%s", sitelog.HeldUntil(x.Snapshot.clock.Now(), 1, p.Blocker()))
	}
	x.reportQueued()
	x.Caller.BeginWait()
}

// Sending is called when the request had to wait for a new connection: it cannot have arrived
// before.
func (x *Request) Sending() {
	if x.progress.permit != nil {
		x.progress.permit.Sent()
	}
}

// Stall returns the longest silence of the answer's body, 0 for any. usual is that of the
// time-outs.
func (x *Request) Stall(usual time.Duration) time.Duration { return x.rule.StallOr(usual) }

// replayable reports whether the request could be sent once more.
func (x *Request) replayable(r *http.Request) bool {
	return !x.Options.Once && !x.sentByCaller && !x.Snapshot.policy.Observes() && x.Caller.Replayable(r)
}

// ClientName returns the client that the request counts for: the name that authenticated, or the
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

// priority returns the priority that the request says, or else its client's, or else its rule's.
// A request is not more urgent than the operator has made its client.
func (x *Request) priority() int {
	capped := x.Client != nil && x.Client.Capped
	switch {
	case x.Options.Urgency > 0 && capped:
		return max(x.Options.Urgency-1, x.Client.Priority)
	case x.Options.Urgency > 0:
		return x.Options.Urgency - 1
	case capped || x.Client != nil && x.Client.Priority != queue.DefaultPriority:
		return x.Client.Priority
	case x.rule != nil:
		return x.rule.Priority
	}
	return queue.DefaultPriority
}

// progress has the permit, the token and the backend of a request, and the results of its
// attempts.
type progress struct {
	plan    *plans.Plan
	permit  *queue.Permit
	pass    backends.Pass // of the breaker, for the attempt
	to      destination
	learned learned // from the last answer

	// The token of the attempt.
	token      *tokens.Token // nil: none
	label      string        // of the last attempt, for the answer
	credential policy.Secret
	shown      *redact.Finder // finds the credential in the answer; nil: there is no token
	began      time.Time      // of the attempt, as the pool knows it
	denials    tokens.Denials

	// The waits. The answer needs these fields when the permit may be over.
	waitBegan  time.Time      // of the present wait
	until      time.Time      // the end of the patience
	waited     time.Duration  // in all waits
	before     time.Duration  // of that, before the first attempt
	waiter     *queue.Permit  // the permit of the last wait; nil: it never had to wait
	wouldBlock *queue.Blocker // what would have held it, if limits were only observed
	shared     bool           // it shared the answer to another request

	// The results of the attempts.
	sent           int       // attempts that were made
	failures       int       // attempts that failed and were followed by another
	refusals       int       // refusals that were followed by another attempt
	refusedAnswers int       // refusals, the last answer included
	refusedAt      time.Time // of the last refusal
	odd            bool      // it was refused although the rate was not the cause
	probe          probeStep
	probing        bool         // the present attempt probes whether the site blocks
	level          int64        // requests to the site in flight with the attempt
	result         queue.Result // of the last attempt
	lastError      error        // of the last attempt, if another was to follow it
	lastStatus     int          // the same, where there was an answer
}

// probeStep is the next step of a request whose answer has to be verified.
type probeStep uint8

const (
	probeNext probeStep = 1 + iota // the next attempt probes whether the site blocks
	probed                         // it does not
)

// noteWaits copies from the permits what the answer to the client says of the waits.
func (x *Request) noteWaits() {
	t := &x.progress
	t.waited, t.wouldBlock = x.own.waited+t.permit.Waited(), cmp.Or(t.wouldBlock, t.permit.WouldBlock())
}

// finish gives up the permit, once.
func (t *progress) finish() {
	t.to.leave()
	t.pass.Cancel()
	t.pass = backends.Pass{}
	if t.permit != nil {
		t.permit.Finish(t.result)
		t.permit = nil
	}
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

// Client is a sender of requests: a name of access.clients.
type Client = policy.Client

// RequestOptions are the options that a crawler sets for its own request, in Abide-* headers. The
// zero value is a request that sets none.
type RequestOptions struct {
	Urgency int           // Abide-Priority plus one; 0: not said
	Wait    time.Duration // Abide-Max-Wait, if Limited; 0: now or not at all
	Cost    int64         // Abide-Cost; 0: not said
	Client  string        // Abide-Client; "": not said
	Once    bool          // Abide-Retry: none
	Limited bool          // Abide-Max-Wait was said
}

// HeaderPrefix begins the headers that are for abide alone.
const HeaderPrefix = "Abide-"

// ReadOptions reads the Abide-* headers and removes them: sites never see them. What a
// CONNECT said holds for each request inside that does not say otherwise.
func ReadOptions(h http.Header, o RequestOptions) (_ RequestOptions, ok bool) {
	ok = true
	for name, values := range h {
		if !strings.HasPrefix(name, HeaderPrefix) {
			continue
		}
		delete(h, name)
		if len(values) != 1 || !o.read(name, strings.TrimSpace(values[0])) {
			ok = false
		}
	}
	return o, ok
}

// limitWait sets the longest wait.
func (o *RequestOptions) limitWait(d time.Duration) { o.Wait, o.Limited = d, true }

// now reports whether the request goes now or not at all.
func (o *RequestOptions) now() bool { return o.Limited && o.Wait == 0 }

// bound sets the wait of a request in its question to the queue.
func (o *RequestOptions) bound(q *queue.Request) {
	if o.Limited {
		q.Wait, q.Now = o.Wait, o.now()
	}
}

// read takes one header; false when it makes no sense.
func (o *RequestOptions) read(name, value string) bool {
	switch name {
	case "Abide-Priority":
		n, err := strconv.Atoi(value)
		o.Urgency = n + 1
		return err == nil && n >= 0 && n <= 7
	case "Abide-Max-Wait":
		d, err := policy.ParseWait(value)
		o.limitWait(d)
		return err == nil
	case "Abide-Cost":
		n, err := strconv.ParseInt(value, 10, 32)
		o.Cost = n
		return err == nil && n >= 1
	case "Abide-Client":
		o.Client = value
		return value != "" && len(value) <= 64
	case "Abide-Retry":
		o.Once = value == "none"
		return o.Once
	}
	return false // unknown: a misspelt option would be ignored in silence otherwise
}

// knownMethods are the registered methods that a proxy forwards: RFC 9110,
// PATCH, WebDAV and its kin, QUERY, and PURGE, which caches understand.
var knownMethods = map[string]bool{
	"GET": true, "HEAD": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "OPTIONS": true,
	"PROPFIND": true, "PROPPATCH": true, "MKCOL": true, "COPY": true, "MOVE": true, "LOCK": true, "UNLOCK": true,
	"REPORT": true, "SEARCH": true, "ACL": true, "BIND": true, "UNBIND": true, "REBIND": true, "LINK": true, "UNLINK": true,
	"MKCALENDAR": true, "MKACTIVITY": true, "MKWORKSPACE": true, "CHECKIN": true, "CHECKOUT": true, "UNCHECKOUT": true,
	"LABEL": true, "MERGE": true, "UPDATE": true, "VERSION-CONTROL": true, "BASELINE-CONTROL": true, "ORDERPATCH": true,
	"QUERY": true, "PURGE": true, "NOTIFY": true, "SUBSCRIBE": true, "UNSUBSCRIBE": true,
}

// MethodRefusal tells why a method does not pass, nil when it does.
func MethodRefusal(m string) *problem.Problem {
	switch {
	case knownMethods[m]:
		return nil
	case m == "TRACE" || m == "TRACK":
		return &problem.Trace
	}
	return &problem.Method
}

// Canonical makes r name a target in its canonical form.
func Canonical(r *http.Request, t policy.Target) {
	absolute(r.URL, t)
	keepPath(r.URL)
	r.Host = r.URL.Host
}

// absolute makes u name the target.
func absolute(u *url.URL, t policy.Target) {
	u.Scheme, u.User, u.Fragment = t.Scheme, nil, ""
	u.Host = t.Authority()
}

// keepPath has the path go out as it came. What must not stand in a path is
// escaped, and nothing else: net/url would write the whole path anew for one such
// byte, and %2F would become a slash. A fragment is not for the wire.
func keepPath(u *url.URL) {
	if raw, _, found := strings.Cut(u.RawPath, "#"); found {
		u.RawPath, u.RawQuery, u.ForceQuery = raw, "", false
		u.Path, _ = url.PathUnescape(raw)
	}
	u.RawQuery, _, _ = strings.Cut(u.RawQuery, "#")
	if u.RawPath == "" || u.EscapedPath() == u.RawPath {
		return
	}
	var b strings.Builder
	for i := range len(u.RawPath) {
		if c := u.RawPath[i]; pathBytes[c] {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	u.RawPath = b.String()
}

// pathBytes may stand in a path (RFC 3986), % of escapes included.
var pathBytes = policy.BytesOf("!$&'()*+,;=:@/%[]")

// patience returns the longest time that a request may wait, in all its waits.
func patience(x *Request) time.Duration {
	wait := x.Snapshot.policy.Queue.Wait
	if x.Options.now() {
		return leastWait
	}
	if x.Options.Limited {
		wait = min(wait, x.Options.Wait)
	}
	return wait
}

// leastWait is the longest wait of a request that goes now or not at all outside of the queue: for robots.txt, and for
// an answer that it shares. A caller that sends its requests itself waits for as long at least.
const leastWait = 250 * time.Millisecond

// learned describes a refusal by the last answer; the zero value is none.
type learned struct {
	refusal hint
	masked  bool        // it is a success that may be a refusal
	page    sites.Page  // its look, if that may be
	denial  string      // why the token is not accepted, if the answer says so
	at      queue.Scope // what the refusal is about
	word    string      // the kind of scope, for the metrics
}
