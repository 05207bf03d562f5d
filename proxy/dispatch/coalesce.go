package dispatch

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/abide-proxy/abide/internal/background"
	"github.com/abide-proxy/abide/limit/queue"
	"github.com/abide-proxy/abide/proxy/dispatch/coalesce"
	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// coalescing has the requests that may be shared now. A Log is needed.
type coalescing struct {
	background.Tasks
	coalesce.Group[sharedKey, *outcome]
	send   func(*Request, *http.Request) (*http.Response, *problem.Problem) // one of them
	finish func(x *Request, received int64)                                 // after that
}

type (
	sharedCall   = coalesce.Call[sharedKey, *outcome]
	sharedMember = coalesce.Member[sharedKey, *outcome]
)

// sharedKey is equal for requests that are the same.
type sharedKey struct {
	state *Snapshot // a reload may have forbidden what is under way
	sum   sum
}

// share sends a request. Identical requests that are under way share one answer: those with the
// same site, method, URL and headers. So no client gets an answer to other credentials than its
// own; the names by which abide knows its clients do not matter. Nothing is stored.
func (s *coalescing) share(x *Request, r *http.Request) (*http.Response, *problem.Problem) {
	if !shareable(x, r) {
		return s.send(x, r)
	}
	began := time.Now()
	until := began.Add(patience(x))
	request := sharedKey{x.Snapshot, sumOf(x, r)}
	// A call can fail because of the options of its first request. A request with other
	// options joins another call, once.
	for range 2 {
		m := s.join(x, r, request, until)
		if m == nil {
			break // the server stops
		}
		switch err := m.Wait(r.Context(), x.patience(until)); {
		case err == coalesce.ErrAlone:
			return s.sendAlone(x, r, began, until)
		case err != nil:
			return nil, problem.Left
		}
		outcome := m.Value()
		if outcome.refused == nil {
			x.adopt(m)
			return outcome.response(m, r), nil
		}
		m.Close()
		if m.Leads || !outcome.failsFor(x, until) {
			x.adopt(m)
			return nil, outcome.refused
		}
		x.Options.limitWait(remaining(until))
	}
	return s.sendAlone(x, r, began, until)
}

// sendAlone sends a request that could not share an answer. The request has what is left of
// its patience.
func (s *coalescing) sendAlone(x *Request, r *http.Request, began, until time.Time) (*http.Response, *problem.Problem) {
	x.Options.limitWait(remaining(until))
	x.Uploading += time.Since(began) // no work of ours, and no wait of its own
	return s.send(x, r)
}

// join makes a request a member of a call that is open to it, or begins a call with it.
// It returns nil when the server stops.
func (s *coalescing) join(x *Request, r *http.Request, request sharedKey, until time.Time) *sharedMember {
	ctx, ok := s.Begin()
	if !ok {
		return nil
	}
	m, leads := s.Join(upstream.WithVia(ctx, upstream.ViaFrom(x.ctx.Context)), request, x.ClientName())
	if !leads {
		s.Done()
		return m
	}
	ours := x.forCall(m.Call)
	got := &outcome{of: ours, until: until}
	go s.runShared(m.Call, got, r.Clone(&ours.ctx))
	return m
}

// runShared has the request of a call sent, and gives the answer to its members.
func (s *coalescing) runShared(c *sharedCall, got *outcome, r *http.Request) {
	x := got.of
	defer s.Done()
	defer c.End()
	defer s.finish(x, 0)
	defer s.Recover(x.Target.Host, func() { c.Fail(&outcome{refused: &problem.Bug, of: x}) })
	resp, refused := s.send(x, r)
	if refused != nil {
		got.refused = refused
		c.Fail(got)
		return
	}
	defer resp.Body.Close()
	x.RewriteRedirects(resp.Header)
	head := *resp
	head.Trailer = maps.Clone(resp.Trailer) // which reading the body changes
	got.head, got.resp = &head, resp
	c.Publish(got, resp.Body, resp.ContentLength, personal(resp.Header))
	c.Fill()
}

// forCall returns the request of a call that x began. It belongs to no connection, so that no
// client's end is its own.
func (x *Request) forCall(c *sharedCall) *Request {
	request := &Request{Caller: NoCaller{}, Snapshot: x.Snapshot, Target: x.Target, Client: x.Client, Options: x.Options, Start: x.Start}
	request.site, request.rule, request.meter, request.shared = x.site, x.rule, x.meter, true
	if request.Client == nil {
		request.Client = &Client{Name: x.ClientName(), Priority: queue.DefaultPriority}
	}
	request.Bind(c)
	return request
}

// tellMembersSent tells the members of a call whether it is on its way, or waits for its turn.
func (x *Request) tellMembersSent(yes bool) {
	if c, shared := x.ctx.Context.(*sharedCall); shared {
		c.Sent(yes)
	}
}

// patience returns the times that a request waits for a call.
func (x *Request) patience(until time.Time) coalesce.Patience {
	return coalesce.Patience{
		Turn: until, Whole: x.Snapshot.policy.Timeouts.Stall,
		// Most are not held at all: a client is only taken for one that waits after it
		// has had the time to end its side of the connection.
		Grace: HalfCloseGrace,
		Held:  func(yes bool) { x.Caller.SetSent(!yes) },
	}
}

// adopt copies the times and the number of attempts of a call to its member. A member that joined
// later has waited since then only.
func (x *Request) adopt(m *sharedMember) {
	of := m.Value().of
	x.first = of.first
	x.progress.waited, x.progress.sent = of.progress.waited, of.progress.sent
	if m.Leads {
		x.sent, x.answered, x.progress.before = of.sent, of.answered, of.progress.before
		return
	}
	x.progress.shared = true
	x.progress.waited = min(of.progress.waited, max(of.sent.Sub(m.Came), 0))
}

// remaining returns the time that a request may still wait. Without any time left the request
// goes at once, or is told which limit holds it.
func remaining(until time.Time) time.Duration { return max(time.Until(until), 1) }

// shareable reports whether a request may share its answer. A request for a range may not: only
// its client can tell whether two parts fit together. A request that goes now or not at all
// waits for no other.
func shareable(x *Request, r *http.Request) bool {
	if x.rule == nil || !x.rule.Coalesce || x.Options.now() || x.Snapshot.policy.Observes() || x.Caller.HasBody() || r.Body != nil && r.Body != http.NoBody {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return !slices.ContainsFunc([]string{"Upgrade", "Range", "If-Range"}, func(name string) bool { return len(r.Header[name]) > 0 })
}

// personal reports whether an answer is meant for one client alone, or may have no end. What
// Cache-Control says is about storing an answer, which abide does not do.
func personal(h http.Header) bool {
	return len(h["Set-Cookie"]) > 0 || httpguts.HeaderValuesContainsToken(h["Vary"], "*") || strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// sum stands for all that makes two requests the same.
type sum [sha256.Size]byte

func sumOf(x *Request, r *http.Request) (got sum) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %q %q %t %t ", x.site, r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.URL.ForceQuery, x.Options.Once)
	fmt.Fprintf(hash, "%q %q %q", x.Target.Scheme, x.Target.HostPort(), r.Header) // sorted by name
	hash.Sum(got[:0])
	return got
}

// outcome is the answer or the refusal that several requests share. It does not change once it
// is published.
type outcome struct {
	refused *problem.Problem // there is no answer
	head    *http.Response   // to be copied
	resp    *http.Response   // has the values of the trailers once the body has ended
	of      *Request
	until   time.Time // how long the first request wished to wait
}

// failsFor reports whether a refusal is due to the options of the first request, and x has other
// options.
func (o *outcome) failsFor(x *Request, until time.Time) bool {
	return o.refused.Reason == problem.TooLong.Reason && until.After(o.until) || o.refused.Reason == problem.Never.Reason && x.Options.Cost < o.of.Options.Cost
}

// response returns a copy of the answer for one member.
func (o *outcome) response(m *sharedMember, r *http.Request) *http.Response {
	resp := *o.head
	resp.Header, resp.Trailer = resp.Header.Clone(), resp.Trailer.Clone()
	resp.Request = r
	if resp.Body != http.NoBody {
		resp.Body = &endBody{m, func() { resp.Trailer = m.Value().resp.Trailer.Clone() }}
	}
	return &resp
}
