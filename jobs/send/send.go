// Package send sends the requests of jobs: by a dispatcher of this process, or through a running
// abide. Both keep the limits, sign, learn and send again; this package adds nothing of that.
//
//	s := send.New(dispatcher)                   // or send.Through(proxy, client, roots)
//	resp, err := s.Send(ctx, r, send.Options{}) // waits as long as it takes
//	answer, err := memory.Read(resp, err, now)  // the body, or a *send.Failure
//	answer.Release()                            // it is not needed any more
//
// Refusals of abide are answers as the proxy gives them, with a Proxy-Status header, so that
// Read need not know which way a request went.
package send

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/internal/redact"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// Options holds what a job says about a request.
type Options struct {
	Priority int           // 0, the most urgent, to 7
	Wait     time.Duration // the longest wait; 0: as long as it takes
	Client   string        // the name that the request counts for, such as the job's
	Rest     func(bool)    // is called when the request begins to wait before it is sent again, and when that wait is over; nil: not. Must not block
}

// Sender sends requests with absolute URLs. It is safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, r *http.Request, o Options) (*http.Response, error)
	// Close ends idle connections.
	Close()
}

// LongestWait is the wait of a request that may wait as long as it takes, such as for a quota.
const LongestWait = 400 * 24 * time.Hour

// maxRedirects bounds the redirects that a request follows.
const maxRedirects = 10

// follow sends a request and follows redirects within the origin of the request. A redirect to
// another origin is returned as it is, because the headers of a job are for one origin.
func follow(ctx context.Context, by http.RoundTripper, r *http.Request) (*http.Response, error) {
	client := http.Client{Transport: by, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		if len(before) > maxRedirects || policy.OriginOf(next.URL) != policy.OriginOf(r.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	r = r.Clone(ctx)
	if r.Header.Get("Accept-Encoding") == "" {
		r.Header.Set("Accept-Encoding", "gzip") // Read decodes gzip
	}
	resp, err := client.Do(r)
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL, which may have a secret
	}
	return resp, err
}

// patienceOfProxy is the Abide-Max-Wait of a request that may wait as long as it takes. A proxy
// shortens it to its own queue.wait.
const patienceOfProxy = 24 * time.Hour

// Through is a Sender through a running abide. proxy chooses the proxy of a request, roots are
// what is trusted; nil: what the system trusts. client is the name that requests count for.
func Through(proxy func(*http.Request) (*url.URL, error), roots *x509.CertPool, client string) Sender {
	return &through{&http.Transport{
		Proxy: proxy, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 60 * time.Second, TLSHandshakeTimeout: 30 * time.Second,
		ProxyConnectHeader: http.Header{"Abide-Max-Wait": {patienceOfProxy.String()}, "Abide-Client": {client}},
	}}
}

type through struct{ transport *http.Transport }

// Close ends idle connections.
func (s *through) Close() { s.transport.CloseIdleConnections() }

// trip sends one request, without following redirects.
type trip func(r *http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Send sends a request and follows its redirects. The Abide-* headers are for the proxy. A
// request of https has none, because the proxy may pass it unread: its CONNECT has them.
func (s *through) Send(ctx context.Context, r *http.Request, o Options) (*http.Response, error) {
	return follow(ctx, trip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Scheme == "https" {
			return s.transport.RoundTrip(r)
		}
		r = r.Clone(r.Context())
		r.Header.Set("Abide-Priority", strconv.Itoa(o.Priority))
		r.Header.Set("Abide-Max-Wait", cmp.Or(o.Wait, patienceOfProxy).String())
		if o.Client != "" {
			r.Header.Set("Abide-Client", o.Client)
		}
		return s.transport.RoundTrip(r)
	}), r)
}

// New is a Sender by a dispatcher of this process. queue.wait of its policy bounds every wait.
func New(d *dispatch.Dispatcher) Sender { return dispatched{d} }

type dispatched struct{ dispatcher *dispatch.Dispatcher }

func (s dispatched) Close() {}

// Send sends a request and follows its redirects.
func (s dispatched) Send(ctx context.Context, r *http.Request, o Options) (*http.Response, error) {
	return follow(ctx, trip(func(r *http.Request) (*http.Response, error) { return s.send(r, o) }), r)
}

// send sends one request, without following redirects.
func (s dispatched) send(r *http.Request, o Options) (*http.Response, error) {
	sent := r.Clone(r.Context())
	x, err := s.dispatcher.NewRequest(sent)
	if err != nil {
		return nil, err
	}
	x.HTTP = x.Snapshot.SignVia(x.Target.Scheme, sent, "")
	asking := &caller{get: r.GetBody, rest: o.Rest}
	x.Caller = asking
	x.Client = &dispatch.Client{Name: o.Client, Weight: 1, Priority: o.Priority}
	x.Options = dispatch.RequestOptions{Urgency: o.Priority + 1, Wait: cmp.Or(o.Wait, LongestWait), Limited: true}
	count := func(status int) {
		if report := x.Report(); report.Meter != nil {
			report.Meter.Request(r.Method, status, report.Answered.Sub(report.Sent))
		}
	}
	resp, err := s.dispatcher.Do(r.Context(), x)
	asking.EndWait() // a request that gives up while it waits
	if err != nil {
		s.dispatcher.End(x, 0)
		var refused *problem.Problem
		if r.Context().Err() == nil && errors.As(err, &refused) {
			resp = refused.Response(r, x.Site())
			count(resp.StatusCode)
			return resp, nil
		}
		return nil, errors.Join(r.Context().Err(), err)
	}
	x.RewriteRedirects(resp.Header)
	resp.Header.Set(attemptsHeader, strconv.Itoa(x.Report().Attempts))
	resp.Request = r
	resp.Body = &countedBody{ReadCloser: resp.Body, token: x.Token(), end: func(n int64) {
		s.dispatcher.End(x, n)
		count(resp.StatusCode)
	}}
	return resp, nil
}

// caller is the caller of a request whose body is in memory.
type caller struct {
	dispatch.NoCaller
	get     func() (io.ReadCloser, error) // nil: no body
	rest    func(bool)                    // of Options
	sent    bool                          // at least once
	resting atomic.Bool
}

// BeginWait is called when the request begins to wait. Its first wait is that of a limit, which others would wait for, too.
func (c *caller) BeginWait() {
	if c.rest != nil && c.sent && !c.resting.Swap(true) {
		c.rest(true)
	}
}

// EndWait is called when the request is about to be sent, and when it is over.
func (c *caller) EndWait() {
	if c.sent = true; c.resting.Swap(false) {
		c.rest(false)
	}
}

// HasBody tells whether the request has a body.
func (c *caller) HasBody() bool { return c.get != nil }

// Replayable tells whether the body can be sent again: it can always.
func (c *caller) Replayable(*http.Request) bool { return true }

// Attempt is the request with its body from the beginning.
func (c *caller) Attempt(r *http.Request) *http.Request {
	if c.get == nil {
		return r
	}
	request := *r
	if body, err := c.get(); err == nil { // a body in memory has no error
		request.Body = body
	}
	return &request
}

// countedBody is the body of an answer. Its request ends with it.
type countedBody struct {
	io.ReadCloser
	token  *redact.Finder
	end    func(n int64)
	n      int64
	closed bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}

// Close ends the request, at the first call.
func (b *countedBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	defer b.end(b.n)
	return b.ReadCloser.Close()
}

// maxBody bounds the body of an answer.
const maxBody = 64 << 20

// maxRefusal bounds what is read of an answer that refuses a request.
const maxRefusal = 64 << 10

// attemptsHeader says how often abide has sent the request.
const attemptsHeader = "Abide-Attempts"

// Memory bounds the bytes of the bodies that are in memory at one time: to so many, and the rest of
// one body, which is read to its end so that there is progress. The others wait meanwhile.
type Memory struct {
	left atomic.Int64
	last chan struct{} // has one element while no body is read beyond the bound
}

// NewMemory is a bound of so many bytes.
func NewMemory(most policy.Size) *Memory {
	m := &Memory{last: make(chan struct{}, 1)}
	m.left.Store(int64(most))
	m.last <- struct{}{}
	return m
}

// Full tells whether the next body would have to wait.
func (m *Memory) Full() bool { return m.left.Load() <= 0 }

// Answer is the answer of a site, with its whole body. The caller must release it.
type Answer struct {
	Status   int
	Header   http.Header
	Body     []byte
	Attempts int            // how often the request was sent
	Token    *redact.Finder // of the credential that abide has sent; nil: none, or another abide has

	from   io.Reader // of the body
	memory *Memory
	taken  int64
	isLast bool
}

// Release gives the memory of the body back. It may be called on nil.
func (a *Answer) Release() {
	if a == nil {
		return
	}
	if a.memory.left.Add(a.taken); a.isLast {
		a.memory.last <- struct{}{}
	}
	a.taken, a.isLast = 0, false
}

// boundedBody reads a body as far as there is memory for it.
type boundedBody struct {
	*Answer
	ctx context.Context
}

// Read waits, when the memory is used up, until no other body is read beyond the bound.
func (b boundedBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.taken += int64(n)
	if b.memory.left.Add(int64(-n)) < 0 && !b.isLast {
		select {
		case <-b.memory.last:
			b.isLast = true
		case <-b.ctx.Done():
			return n, errFull
		}
	}
	return n, err
}

// Failure is why a request has no answer that can be used.
type Failure struct {
	Text      string
	Status    int       // of the site's answer; 0: there was none
	Body      string    // of an answer that refuses the request, at most maxRefusal bytes
	Permanent bool      // the same request would fail again
	Wrong     bool      // the answer is not what the job says; set by its reader
	Held      bool      // abide did not send the request: this says nothing about the request
	Unreached bool      // no answer of the site came
	After     time.Time // when the request may be sent again; zero: not said
	Attempts  int       // how often the request was sent
}

func (f *Failure) Error() string { return f.Text }

// Refuses tells whether the site refuses what was asked for, and not who asks for it or how often.
func (f *Failure) Refuses() bool {
	return f != nil && f.Permanent && f.Status >= 400 && f.Status < 500 && !slices.Contains([]int{
		http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired,
	}, f.Status)
}

// Read reads what Send returned, and closes it. The error is a *Failure, or that of ctx where
// the request was canceled.
func (m *Memory) Read(resp *http.Response, err error, now time.Time) (*Answer, error) {
	var a *Answer
	if err == nil {
		defer resp.Body.Close()
		if f := failureOf(resp, now); f != nil {
			return nil, f
		}
		a = &Answer{Status: resp.StatusCode, Header: resp.Header, Attempts: attempts(resp), Token: tokenOf(resp), memory: m}
		if err = a.read(resp); err == nil {
			return a, nil
		}
		a.Release()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return nil, context.Canceled
	case a == nil:
		return nil, &Failure{Text: err.Error(), Unreached: true}
	case errors.Is(err, errFull):
		return nil, &Failure{Text: err.Error(), Held: true}
	case errors.Is(err, errTooLong):
		return nil, &Failure{Text: err.Error(), Permanent: true}
	}
	return nil, &Failure{Text: "the body of the answer broke off: " + err.Error(), Attempts: a.Attempts}
}

// errFull is for a body that was not read in time, because the memory was used up.
var errFull = errors.New("the memory of the job is used up by answers that are not written yet")

var errTooLong = fmt.Errorf("the answer has more than %d MiB; ask for smaller pages", maxBody>>20)

// read reads and decodes the body.
func (a *Answer) read(resp *http.Response) (err error) {
	a.from = resp.Body
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") && resp.ContentLength != 0 {
		if a.from, err = gzip.NewReader(resp.Body); err != nil {
			return err
		}
	}
	a.Body, err = io.ReadAll(io.LimitReader(boundedBody{a, resp.Request.Context()}, maxBody+1))
	if err == nil && len(a.Body) > maxBody {
		err = errTooLong
	}
	return err
}

// failureOf is why an answer cannot be used; nil if it can.
func failureOf(resp *http.Response, now time.Time) *Failure {
	status := resp.StatusCode
	if status >= 200 && status < 300 || status == http.StatusNotModified {
		return nil
	}
	f := &Failure{Status: status, Attempts: attempts(resp)}
	if wait, said := dispatch.RetryAfter(resp.Header, now); said {
		f.After = now.Add(wait)
	}
	direct := strings.HasPrefix(resp.Header.Get("Proxy-Status"), "abide")
	switch {
	case direct:
		f.Status = 0
		f.Text = "abide did not send the request: " + ownReason(resp)
		f.Unreached = status == http.StatusBadGateway
		f.Held = (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) && !f.After.IsZero()
		f.Permanent = !f.Held && status != http.StatusBadGateway && status != http.StatusGatewayTimeout && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests
		if status == http.StatusBadGateway || status == http.StatusGatewayTimeout {
			f.Text = ownReason(resp)
		}
	case status < 400:
		f.Text, f.Permanent = fmt.Sprintf("the site answered %s and leads to another origin or in a circle, to %s; write the URL that it leads to", statusText(status), leadsTo(resp)), true
	default:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what cannot be read says nothing
		f.Body, _ = tokenOf(resp).Text(string(body), dispatch.InPlaceOfToken)
		f.Text = "the site answered " + statusText(status)
		f.Permanent = status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooEarly && status != http.StatusTooManyRequests ||
			status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported
	}
	return f
}

// leadsTo is the place of a redirect, without a query, which may have secrets.
func leadsTo(resp *http.Response) string {
	at, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || at.String() == "" {
		return "no place"
	}
	return at.Scheme + "://" + at.Host + at.EscapedPath()
}

// tokenOf finds the credential that was sent for an answer in texts.
func tokenOf(resp *http.Response) *redact.Finder {
	if body, ok := resp.Body.(*countedBody); ok {
		return body.token
	}
	return nil
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// ownReason is the reason of a refusal of abide.
func ownReason(resp *http.Response) string {
	_, reason, _ := strings.Cut(resp.Header.Get("Proxy-Status"), `details="`)
	reason, _, _ = strings.Cut(reason, `"`)
	reason = cmp.Or(problem.Titles()[reason], reason, "no reason was given")
	return reason + " (" + statusText(resp.StatusCode) + "); docs/troubleshooting.md explains it"
}

// attempts returns the number of times that abide has sent the request; 1 if it does not say.
func attempts(resp *http.Response) int {
	if n, err := strconv.Atoi(resp.Header.Get(attemptsHeader)); err == nil && n >= 0 {
		return n
	}
	return 1
}
