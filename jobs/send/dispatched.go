package send

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/dispatch"
	"github.com/abide-proxy/abide/proxy/problem"
)

// New is a Sender by a dispatcher of this process. queue.wait of its policy bounds every wait.
func New(d *dispatch.Dispatcher) Sender { return dispatched{d} }

type dispatched struct{ dispatcher *dispatch.Dispatcher }

func (s dispatched) Close() {}

// Send sends a request and follows its redirects.
func (s dispatched) Send(ctx context.Context, r *http.Request, o Options) (*http.Response, error) {
	return follow(ctx, dispatchedTrip{s.dispatcher, o}, r)
}

// dispatchedTrip sends one request, without following redirects.
type dispatchedTrip struct {
	dispatcher *dispatch.Dispatcher
	options    Options
}

// RoundTrip implements http.RoundTripper.
func (t dispatchedTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	target, err := policy.ParseTarget(r.URL.Scheme, r.URL.Host)
	if err != nil {
		return nil, err
	}
	sent := r.Clone(r.Context())
	dispatch.Absolute(sent.URL, target)
	dispatch.KeepPath(sent.URL)
	sent.Host = sent.URL.Host
	x, err := t.dispatcher.NewRequest(sent)
	if err != nil {
		return nil, err
	}
	x.HTTP = x.Snapshot.SignVia(target.Scheme, sent, "")
	x.Caller = caller{get: r.GetBody}
	x.Client = &dispatch.Client{Name: t.options.Client, Weight: 1, Priority: t.options.Priority}
	x.Options = dispatch.RequestOptions{Urgency: t.options.Priority + 1, Wait: longestWait, Limited: true}
	if t.options.Wait > 0 {
		x.Options.Wait = t.options.Wait
	}
	resp, err := t.dispatcher.Do(r.Context(), x)
	if err != nil {
		t.dispatcher.End(x, 0)
		var refused *problem.Problem
		if r.Context().Err() == nil && errors.As(err, &refused) {
			return refused.Response(r, x.Site()), nil
		}
		return nil, errors.Join(r.Context().Err(), err)
	}
	x.RewriteRedirects(resp.Header)
	resp.Header.Set(attemptsHeader, strconv.Itoa(x.Report().Attempts))
	resp.Request = r
	resp.Body = &countedBody{ReadCloser: resp.Body, end: func(n int64) { t.dispatcher.End(x, n) }}
	return resp, nil
}

// caller is the caller of a request whose body is in memory.
type caller struct {
	dispatch.NoCaller
	get func() (io.ReadCloser, error) // nil: no body
}

// HasBody tells whether the request has a body.
func (c caller) HasBody() bool { return c.get != nil }

// Replayable tells whether the body can be sent again: it can always.
func (c caller) Replayable(*http.Request) bool { return true }

// Attempt is the request with its body from the beginning.
func (c caller) Attempt(r *http.Request) *http.Request {
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
